// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { en } from '../src/texts/en.ts'
import { approveIn, installationAndBrowser, signInAs, skip } from './chromium.ts'

const opened = installationAndBrowser()

test(
  'a newcomer clicks through the shop at /demo: signs in, mints, sends, approves a text, signs out',
  { skip },
  async () => {
    const context = await opened.browser.newContext()
    const page = await context.newPage()
    const errors: string[] = []
    page.on('pageerror', ({ message }) => errors.push(message))
    // The 403 is the answer that asks for the approval.
    page.on('console', (message) => message.type() === 'error' && !/ 403 /.test(message.text()) && errors.push(message.text())) // prettier-ignore
    await page.goto(`${opened.program.facts.origin}/demo`)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const says = (text: RegExp) => page.getByRole('status').filter({ hasText: text }).waitFor()

    const [window] = await Promise.all([page.waitForEvent('popup'), button('Sign in').click()])
    await signInAs(window, 'tessa')
    await Promise.all([window.waitForEvent('close'), window.getByRole('button', { name: en.consent.allow, exact: true }).click()]) // prettier-ignore
    await page.getByText('tessa, 0x').waitFor()

    await button('Mint 5 tokens').click()
    await says(/Minted in block \d+/)
    await button('Send 1 token to bob').click()
    await says(/Sent in block \d+/)
    await page.getByText(/: 4(\.0)? SMPL/).waitFor()

    const [question] = await Promise.all([page.waitForEvent('popup'), button('Accept the terms').click()])
    await approveIn(question)
    await says(/Signed: 0x[0-9a-f]{130}/)

    await page.reload()
    await page.getByText('tessa, 0x').waitFor()
    await page.screenshot({ path: join(opened.folder, 'demo.png') })
    await button('Sign out').click()
    await button('Sign in').waitFor()
    assert.deepEqual(errors, [])
    await context.close()
  },
)
