// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Wallet } from 'ethers'
import type { Page } from 'playwright-core'
import { languages } from '../src/texts/choose.ts'
import { en } from '../src/texts/en.ts'
import { until } from '../test/kit/until.ts'
import { installationAndBrowser, look, lookAround, skip } from './chromium.ts'

const opened = installationAndBrowser({ KEY_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '4' })

const pathOf =
  (name: string) =>
  (view: string): string =>
    join(opened.folder, `${name}-${view}.png`)

async function arrive(username: string, locale = 'en'): Promise<Page> {
  const context = await opened.browser.newContext({
    locale,
    viewport: { width: 390, height: 844 },
    acceptDownloads: true,
  })
  const page = await context.newPage()
  await page.goto(`${opened.program.facts.origin}/account/export`)
  await page.locator('form[action$="/DEV"] button').click()
  await page.getByRole('textbox').fill(username)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/account/)
  await page.goto(`${opened.program.facts.origin}/account/export`)
  return page
}

/** Asks until the delay is over by the signer's clock, then shows it. */
async function untilReady(page: Page): Promise<void> {
  // Drawn once only.
  await until('the key can be taken', async () => /id="export"/.test(await (await page.request.get(page.url())).text()))
  await page.reload()
}

const PASSWORD = 'grün und 20 Zeichen ﬁx'

test(
  'a key leaves: asked for, waited for, opened and encrypted in the browser; ethers opens the file, and it is the address',
  { skip },
  async () => {
    const page = await arrive('Xenia')
    const errors: string[] = []
    page.on('pageerror', (error) => errors.push(error.message))
    const asked: string[] = []
    page.on('request', (request) => asked.push(`${request.url()} ${request.postData() ?? ''}`))
    await lookAround(page, pathOf('export-ask'))
    await page.getByRole('button', { name: en.exporting.ask }).click()
    await page.getByRole('button', { name: en.exporting.cancel }).waitFor()
    await lookAround(page, pathOf('export-waiting'))
    await page.goto(`${opened.program.facts.origin}/account`)
    await lookAround(page, pathOf('export-notice'))
    await page.goto(`${opened.program.facts.origin}/account/receive`)
    const address = await page.locator('#address').inputValue()
    await page.goto(`${opened.program.facts.origin}/account/export`)
    await untilReady(page)
    await lookAround(page, pathOf('export-ready'))

    const [password, again] = [page.locator('#password'), page.locator('#again')]
    const download = page.getByRole('button', { name: en.exporting.download })
    await password.fill(PASSWORD)
    await again.fill(`${PASSWORD}!`)
    await download.click()
    await page.getByText(en.exporting.differ).waitFor()
    assert.ok(!asked.some((one) => one.includes('/take')))
    await again.fill(PASSWORD)
    const [saved] = await Promise.all([page.waitForEvent('download'), download.click()])
    await page.getByText(en.exporting.done).waitFor()
    assert.equal(await page.getByRole('button', { name: en.exporting.cancel }).isVisible(), false)
    await look(page, pathOf('export-done')('phone'))
    assert.equal(saved.suggestedFilename(), `key-${address.toLowerCase()}.json`)
    const file = await readFile(await saved.path(), 'utf8')
    const wallet = await Wallet.fromEncryptedJson(file, PASSWORD)
    assert.equal(wallet.address, address)
    const { crypto: stored } = JSON.parse(file) as { crypto: { kdfparams: { c: number } } }
    assert.ok(stored.kdfparams.c >= 600_000)
    assert.deepEqual(errors, [])
    // Neither left the page: not in what it asked, not in what was printed.
    const key = (wallet as Wallet).privateKey.slice(2)
    for (const secret of [
      PASSWORD,
      encodeURIComponent(PASSWORD),
      key,
      Buffer.from(key, 'hex').toString('base64').replace(/=+$/, ''),
    ])
      assert.ok(![...asked, opened.program.printed()].some((one) => one.includes(secret)), 'a secret left the page')

    // The account goes on, and says that its key is elsewhere too.
    await page.goto(`${opened.program.facts.origin}/account`)
    await page.getByText('The key of this account was exported on').waitFor()
    await page.context().close()
  },
)

test('without JavaScript the key is asked for and cancelled, and the page says what it needs', { skip }, async () => {
  const context = await opened.browser.newContext({ javaScriptEnabled: false, viewport: { width: 390, height: 844 } })
  const page = await context.newPage()
  await page.goto(`${opened.program.facts.origin}/account/export`)
  await page.locator('form[action$="/DEV"] button').click()
  await page.getByRole('textbox').fill('yuri')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/account/)
  await page.goto(`${opened.program.facts.origin}/account/receive`)
  await page.getByRole('textbox', { name: 'Your address' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Copy the address' }).count(), 0, 'a button that does nothing')
  await page.goto(`${opened.program.facts.origin}/account/export`)
  await page.getByRole('button', { name: en.exporting.ask }).click()
  await untilReady(page)
  await page.getByText(en.exporting.needsScript).waitFor()
  await page.getByRole('button', { name: en.exporting.cancel }).click()
  await page.getByRole('button', { name: en.exporting.ask }).waitFor()
  await context.close()
})

test('the pages of an export are sound in every language', { skip }, async () => {
  const pages: Page[] = []
  for (const words of languages) {
    const page = await arrive(`reader-${words.language}`, words.language)
    await look(page, pathOf(`export-ask-${words.language}`)('phone'))
    await page.getByRole('button', { name: words.exporting.ask }).click()
    await page.getByRole('button', { name: words.exporting.cancel }).waitFor()
    pages.push(page)
  }
  // The delay of one passes while the others ask.
  for (const [index, page] of pages.entries()) {
    await untilReady(page)
    await look(page, pathOf(`export-ready-${languages[index]!.language}`)('phone'))
    await page.context().close()
  }
})
