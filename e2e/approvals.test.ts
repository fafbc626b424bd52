// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Browser } from 'playwright-core'
import { parseSignature } from 'viem'
import { verifyMessage } from 'viem/utils'
import { deploy } from '../src/devnet/deploy.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { en } from '../src/texts/en.ts'
import { approveIn, installationAndBrowser, lookAround, signInAs, skip } from './chromium.ts'
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
  const post = async (path: string, body: object, key: string): Promise<Answer> => {
    const response = await fetch(`${facts.baseUrl}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tokens.access_token}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as Answer['body'] }
  }
  const sign = (message: string, key: string) => post('/signatures/message', { message }, key)
  const address = async (): Promise<`0x${string}`> => {
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    const response = await fetch(`${facts.baseUrl}/users/DEV-${username}`, { headers })
    return ((await response.json()) as { address: `0x${string}` }).address
  }
  const close = async () => {
    await context.close()
    client.close()
  }
  return { page, post, sign, address, close }
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
    await approveIn(popup)
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

test('a user approves a permit, and the application swaps the tokens with it', { skip }, async () => {
  const { rpcUrl, chainId } = opened.program.facts
  const [sold, bought, router] = await deploy(rpcUrl, ['PermitToken', 'SampleToken', 'SwapRouter'])
  const app = await application('quinn')
  const owner = await app.address()
  const write = async (address: string, abi: string, args: unknown[]) => {
    const { status, body } = await app.post('/contracts/method/write?wait=mined', { address, abi, args }, abi)
    assert.equal(status, 200, JSON.stringify(body))
  }
  const balance = async (token: string) => {
    const data = `0x70a08231${owner.slice(2).padStart(64, '0')}`
    return BigInt(await rpc<string>(rpcUrl, 'eth_call', { to: token, data }, 'latest'))
  }
  await write(sold!, 'function mint(address to, uint256 amount) public', [owner, '1000'])
  // Longer than a day, so the user is asked.
  const deadline = String(Math.floor(Date.now() / 1_000) + 30 * 86_400)
  const fields = { owner: 'address', spender: 'address', value: 'uint256', nonce: 'uint256', deadline: 'uint256' }
  const typedData = {
    types: { Permit: Object.entries(fields).map(([name, type]) => ({ name, type })) },
    primaryType: 'Permit',
    domain: { name: 'Permit Token', version: '1', chainId, verifyingContract: sold },
    message: { owner, spender: router, value: '400', nonce: '0', deadline },
  }
  const sign = () => app.post('/signatures/typed-data', { typedData }, 'permit')
  const asked = await sign()
  assert.deepEqual([asked.status, asked.body.code], [403, 'approval_required'])
  await app.page.goto(asked.body.approval!.url)
  assert.match(await app.page.getByRole('heading', { level: 1 }).innerText(), /^Allow .* to take /)
  await app.page.getByRole('button', { name: texts.approve, exact: true }).click()
  await app.page.getByText(texts.approvedTitle, { exact: true }).waitFor()
  const { signature } = (await sign()).body
  const { r, s, v } = parseSignature(signature as `0x${string}`)
  await write(
    router!,
    'function swapWithPermit(address sold, address bought, uint256 amount, uint256 deadline, uint8 v, bytes32 r, bytes32 s) public',
    [sold, bought, '400', deadline, String(v), r, s],
  )
  assert.deepEqual([await balance(sold!), await balance(bought!)], [600n, 800n])
  await app.close()
})
