// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { verifyMessage } from 'viem/utils'
import { approveIn, installationAndBrowser, signInAs, skip } from '../../../e2e/chromium.ts'
import { openLoopbackClient } from '../../../e2e/loopback-client.ts'
import { en } from '../../../src/texts/en.ts'

const opened = installationAndBrowser()

/** The provider on a page: a session that is a token, and what a test asks it. */
const pageOf = (
  token: string,
  origin: string,
  chainId: number,
) => `<!doctype html><button>Sign</button><script type="module">
import { announce, createProvider } from '/src/provider/index.ts'
const session = {
  state: { status: 'signed-in', permissions: [] },
  subscribe: () => () => {},
  fetch: (url, init = {}) => fetch(url, { ...init, headers: { ...init.headers, authorization: 'Bearer ${token}' } }),
}
const provider = createProvider({ networks: { ${chainId}: { origin: '${origin}', session } } })
addEventListener('eip6963:announceProvider', ({ detail }) => { globalThis.found = detail.provider })
announce(provider, { name: 'Wallet', icon: 'data:,', rdns: 'example.wallet' })
globalThis.ask = (method, ...params) => found.request({ method, params })
document.querySelector('button').onclick = async () => {
  const [me] = await ask('eth_accounts')
  globalThis.signed = ask('personal_sign', 'I accept the terms.', me)
}
</script>`

test(
  'a page finds the announced wallet, reads and sends, and the user approves a text in a window',
  { skip },
  async () => {
    const { facts } = opened.program
    const context = await opened.browser.newContext()
    const page = await context.newPage()
    const client = await openLoopbackClient(facts, 'openid')
    await page.goto(client.url)
    await signInAs(page, 'rosa')
    await page.getByRole('button', { name: en.consent.allow, exact: true }).click()
    const { access_token: token } = await client.tokens()
    client.close()

    const errors: string[] = []
    page.on('pageerror', (error) => errors.push(error.message))
    const server = createServer(async ({ url = '/' }, response) => {
      const isPage = !url.endsWith('.ts')
      response.setHeader('content-type', isPage ? 'text/html' : 'text/javascript')
      if (isPage) return void response.end(pageOf(token, facts.origin, facts.chainId))
      response.end(stripTypeScriptTypes(await readFile(new URL(`..${url}`, import.meta.url), 'utf8')))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    await page.goto(`http://localhost:${(server.address() as AddressInfo).port}/`)
    await page.waitForFunction('globalThis.found !== undefined')
    const ask = <T>(method: string, ...params: unknown[]): Promise<T> =>
      page.evaluate(`ask(${JSON.stringify([method, ...params]).slice(1, -1)})`)
    const [me] = await ask<[`0x${string}`]>('eth_requestAccounts')
    assert.ok(BigInt(await ask<string>('eth_getBalance', me, 'latest')) > 0n)
    const hash = await ask<string>('eth_sendTransaction', { from: me, to: me, value: '0x1' })
    assert.match(hash, /^0x[0-9a-f]{64}$/)

    const [popup] = await Promise.all([page.waitForEvent('popup'), page.getByRole('button').click()])
    await approveIn(popup)
    const signature = await page.evaluate<`0x${string}`>('globalThis.signed')
    assert.ok(await verifyMessage({ address: me, message: 'I accept the terms.', signature }))
    assert.deepEqual(errors, [])
    await context.close()
    server.close()
  },
)
