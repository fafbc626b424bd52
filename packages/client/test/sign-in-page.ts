import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'

const oauth4webapi = new URL(import.meta.resolve('oauth4webapi'))

/** An application on a page: a button that signs in, and on `/callback` the end of the sign-in. */
const pageOf = (origin: string, mode: string) => `<!doctype html><title>Shop</title><button>Sign in</button>
<script type="importmap">{"imports":{"oauth4webapi":"/oauth4webapi.js"}}</script>
<script type="module">
import { createSession } from '/src/browser/index.ts'
import * as oauth from 'oauth4webapi'
const issuer = '${origin}/oauth'
globalThis.ahead = 0
globalThis.session = createSession({ origin: '${origin}', clientId: 'demo', mode: '${mode}', now: () => Date.now() + ahead })
const named = (work) => work.then(() => 'done', (error) => error.name)
globalThis.call = async () => (await session.fetch('${origin}/v1/me')).status
globalThis.stored = () => new Promise((resolve, reject) => {
  const opening = indexedDB.open('chatelaine')
  opening.onsuccess = () => {
    const got = opening.result.transaction('entries').objectStore('entries').get(issuer + ' demo')
    got.onsuccess = () => resolve(got.result)
    opening.result.close()
  }
  opening.onerror = reject
})
globalThis.redeem = async ({ refreshToken, keys }) => {
  const client = { client_id: 'demo' }
  const insecure = { [oauth.allowInsecureRequests]: true }
  const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
  const more = keys === null ? insecure : { ...insecure, DPoP: oauth.DPoP(client, keys) }
  const answer = await oauth.refreshTokenGrantRequest(as, client, oauth.None(), refreshToken, more)
  return [answer.status, (await answer.json()).error].join(' ')
}
globalThis.otherKeys = () => oauth.generateKeyPair('ES256')
document.querySelector('button').onclick = () => { globalThis.signedIn = named(session.signIn()) }
if (location.pathname === '/callback') globalThis.returned = named(session.handleCallback())
globalThis.isReady = true
</script>`

/** Opens the application on a port of its own. The path `/redirect` signs in without a window. */
export async function openSignInPage(origin: string): Promise<{ url: string; close(): void }> {
  const server = createServer(async ({ url = '/' }, response) => {
    const { pathname } = new URL(url, 'http://page')
    const isScript = /\.[jt]s$/.test(pathname)
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    if (pathname === '/oauth4webapi.js') return void response.end(await readFile(oauth4webapi))
    if (isScript) return void response.end(stripTypeScriptTypes(await readFile(new URL(`..${pathname}`, import.meta.url), 'utf8'))) // prettier-ignore
    response.end(pageOf(origin, pathname === '/redirect' ? 'redirect' : 'popup'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => void server.close() }
}
