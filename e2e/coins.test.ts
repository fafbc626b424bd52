// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'
import { until } from '../test/kit/until.ts'
import { installationAndBrowser, lookAround, signInAs, skip } from './chromium.ts'

const OUTSIDE: Hex = '0x1c7d4b196cb0c7b01d743fbc6116a902379c7238'
const FORWARDER: Hex = '0x2b7d4b196cb0c7b01d743fbc6116a902379c7239'
/** sends what it gets to the address in its data */
const FORWARDS: Hex = '0x6000600060006000346000355af1'
const HALF: Hex = '0x6f05b59d3b20000'

const opened = installationAndBrowser()

async function signIn(page: Page, username: string): Promise<void> {
  await page.goto(`${opened.program.facts.origin}/account`)
  await signInAs(page, username)
}

test(
  'a person sees native currency that came from elsewhere, what a contract paid out, and fees with what they were paid for',
  { skip },
  async () => {
    const { origin, rpcUrl } = opened.program.facts
    const context = await opened.browser.newContext({ locale: 'en', viewport: { width: 390, height: 844 } })
    const page = await context.newPage()
    await signIn(page, 'Odile')
    await page.goto(`${origin}/account/receive`)
    const address = await page.locator('#address').inputValue()
    await rpc(rpcUrl, 'anvil_setBalance', OUTSIDE, '0x8ac7230489e80000')
    await rpc(rpcUrl, 'anvil_setCode', FORWARDER, FORWARDS)
    await rpc(rpcUrl, 'anvil_impersonateAccount', OUTSIDE)
    const data = `0x${address.slice(2).toLowerCase().padStart(64, '0')}`
    await rpc(rpcUrl, 'eth_sendTransaction', { from: OUTSIDE, to: address, value: HALF })
    await rpc(rpcUrl, 'eth_sendTransaction', { from: OUTSIDE, to: FORWARDER, value: HALF, data })
    const listed = (path: string, text: RegExp): Promise<boolean> =>
      until(`${path} shows ${text}`, async () => {
        await page.goto(`${origin}${path}`)
        return text.test(await page.locator('main').innerText())
      })
    await listed('/account', /by a contract/)
    await page.getByRole('link', { name: 'Send' }).first().click()
    await page.getByLabel('To', { exact: true }).fill(OUTSIDE)
    await page.getByLabel('Amount').fill('0.25')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('button', { name: 'Send now' }).click()
    await page.getByRole('heading', { name: 'Sent' }).waitFor()
    await listed('/account/activity', /−0\.25 ETH/)
    const items = await page.locator('ul.rows > li').allInnerTexts()
    assert.equal(items.length, 3, items.join('\n'))
    assert.match(items[0]!, /to 0x1c7D4B[^]*−0\.25 ETH/i)
    assert.match(items.slice(1).join('\n'), /from 0x2B7d4B[^]*\+0\.5 ETH[^]*by a contract/i)
    assert.match(items.slice(1).join('\n'), /from 0x1c7D4B[^]*\+0\.5 ETH/i)
    await page.locator('ul.rows a').first().click()
    await page.getByText('Fee paid').waitFor()
    await lookAround(page, (view) => join(opened.folder, `receipt-${view}.png`))
    await lookAround(page, (view) => join(opened.folder, `coins-${view}.png`))
    await page.goto(`${origin}/account`)
    await lookAround(page, (view) => join(opened.folder, `coins-account-${view}.png`))
    await context.close()
  },
)
