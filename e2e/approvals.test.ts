// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Browser } from 'playwright-core'
import { verifyMessage } from 'viem/utils'
import { en } from '../src/texts/en.ts'
import { installationAndBrowser, lookAround, signInAs, skip } from './chromium.ts'
import { openLoopbackClient } from './loopback-client.ts'

const opened = installationAndBrowser()
const texts = en.approvals

type Answer = { status: number; body: Record<string, string> & { approval?: { id: string; url: string } } }

/** An application on a loopback port, in whose page a user has just signed in. */
async function application(username: string, options: Parameters<Browser['newContext']>[0] = {}) {
  const { facts } = opened.program
  const context = await opened.browser.newContext({ viewport: { width: 390, height: 844 }, ...options })
  const page = await context.newPage()
  const client = await openLoopbackClient(facts, 'openid')
  await page.goto(client.url)
  await signInAs(page, username)
  await page.getByRole('button', { name: en.consent.allow, exact: true }).click()
  const tokens = await client.tokens()
  const sign = async (message: string, key: string): Promise<Answer> => {
    const response = await fetch(`${facts.baseUrl}/signatures/message`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tokens.access_token}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify({ message }),
    })
    return { status: response.status, body: (await response.json()) as Answer['body'] }
  }
  const address = async (): Promise<`0x${string}`> => {
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    const response = await fetch(`${facts.baseUrl}/users/DEV-${username}`, { headers })
    return ((await response.json()) as { address: `0x${string}` }).address
  }
  const close = async () => {
    await context.close()
    client.close()
  }
  return { page, sign, address, close }
}

test(
  'a text waits for its user, who reads and approves it in a window that closes; then the same request signs it',
  { skip },
  async () => {
    const app = await application('olga')
    const message = 'I accept the terms of the shop.'
    const asked = await app.sign(message, 'terms')
    assert.deepEqual([asked.status, asked.body.code], [403, 'approval_required'])
    const [popup] = await Promise.all([
      app.page.waitForEvent('popup'),
      app.page.evaluate(`void window.open(${JSON.stringify(asked.body.approval!.url)})`),
    ])
    const errors: string[] = []
    popup.on('pageerror', (error) => errors.push(error.message))
    const approve = popup.getByRole('button', { name: texts.approve, exact: true })
    await approve.waitFor()
    assert.match(await popup.getByRole('heading', { level: 1 }).innerText(), /Sign this text/)
    await popup.getByText(message).first().waitFor()
    await lookAround(popup, (view) => join(opened.folder, `approval-${view}.png`))
    // A click that was meant for another window comes right after the focus.
    const isWaiting = await popup.evaluate(
      "(dispatchEvent(new Event('focus')), document.querySelector('[data-waits]').disabled)",
    )
    assert.equal(isWaiting, true)
    await Promise.all([popup.waitForEvent('close'), approve.click()])
    const signed = await app.sign(message, 'terms')
    assert.equal(signed.status, 200, JSON.stringify(signed.body))
    const signature = signed.body.signature as `0x${string}`
    assert.ok(await verifyMessage({ address: await app.address(), message, signature }))
    assert.deepEqual((await app.sign(message, 'terms')).body.signature, signature)
    assert.deepEqual(errors, [])
    await app.close()
  },
)

test('without JavaScript a request is found in the inbox and denied, and stays denied', { skip }, async () => {
  const app = await application('pavel', { javaScriptEnabled: false })
  const asked = await app.sign('Hello', 'hello')
  await app.page.goto(`${opened.program.facts.origin}/account/approvals`)
  await app.page.getByRole('link', { name: /^View/ }).click()
  assert.equal(app.page.url(), asked.body.approval!.url)
  await app.page.getByRole('button', { name: texts.deny, exact: true }).click()
  await app.page.getByText(texts.deniedTitle).waitFor()
  const denied = await app.sign('Hello', 'hello')
  assert.deepEqual([denied.status, denied.body.code], [403, 'approval_denied'])
  const second = await app.sign('Hello', 'again')
  await app.page.goto(second.body.approval!.url)
  await app.page.getByRole('button', { name: texts.approve, exact: true }).click()
  await app.page.getByText(texts.approvedTitle, { exact: true }).waitFor()
  assert.equal((await app.sign('Hello', 'again')).status, 200)
  await app.close()
})
