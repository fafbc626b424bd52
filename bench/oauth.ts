/**
 * `npm run bench:oauth`: sign-ins per second, database statements per sign-in and the cost of checking an access token,
 * against a bare oidc-provider with its in-memory adapter, in one process and one run. Client and servers share the
 * processor, so the ratios say more than the numbers.
 */
import { createServer } from 'node:http'
import type { KyselyPlugin } from 'kysely'
import { Provider } from 'oidc-provider'
import { verifyAccessToken } from '../src/http/bearer.ts'
import { newKey } from '../src/oauth/keys.ts'
import { authorizationUrl, freePort, openBrowser, post, REDIRECT, rehearse } from '../src/oauth/rehearsal.ts'
import { testCluster } from '../test/database.ts'

const SECONDS = 5
const CLIENTS = 4
const CHECKS = 20_000

let statements = 0
const counting: KyselyPlugin = {
  transformQuery: ({ node }) => {
    statements++
    return node
  },
  transformResult: async ({ result }) => result,
}

type Browser = ReturnType<typeof openBrowser>
type Way = (browser: Browser, url: string, name: string) => ReturnType<Browser['go']>

const house = await rehearse({ slow: (db) => db.withPlugin(counting) })
const bare = await openBare()

const firstOurs: Way = (browser, url, name) => browser.signIn(url, name)
const straight: Way = (browser, url) => browser.go(url)
const results = {
  first: { ours: await measure(house.origin, firstOurs, false), bare: await measure(bare.origin, straight, false) },
  again: { ours: await measure(house.origin, firstOurs, true), bare: await measure(bare.origin, straight, true) },
}
const { access } = await signIn(house.origin, openBrowser(house.origin), firstOurs, 'checker')
const { access: opaque } = await signIn(bare.origin, openBrowser(bare.origin), straight, 'checker')
const known = await timePerCall(() => verifyAccessToken(house.app, access))
const inMemory = await timePerCall(() => bare.provider.AccessToken.find(opaque))

const round = (value: number, digits = 1): string => value.toFixed(digits)
const row = (name: string, ours: number, theirs: number, unit: string): string =>
  `| ${name} | ${round(ours)} ${unit} | ${round(theirs)} ${unit} | ${round(ours / theirs, 2)} |`
console.log(`Database: ${testCluster === null ? 'embedded' : 'PostgreSQL'}; ${CLIENTS} clients, ${SECONDS} s each.

| | Chatelaine | bare oidc-provider | ratio |
|---|---|---|---|
${row('first sign-ins of a browser', results.first.ours.rate, results.first.bare.rate, '/s')}
${row('sign-ins with a session', results.again.ours.rate, results.again.bare.rate, '/s')}
${row('check of a token seen before', known, inMemory, 'µs')}

Database statements: ${round(results.first.ours.statements)} per first sign-in, ${round(results.again.ours.statements)} with a session.`)
await bare.close()
await house.close()
process.exit()

/** Sign-ins with their exchange of the code, by so many clients at once. @param keeps  one browser with its session each */
async function measure(origin: string, way: Way, keeps: boolean): Promise<{ rate: number; statements: number }> {
  const browsers = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      const browser = openBrowser(origin)
      await signIn(origin, browser, way, `bench-${client}`)
      return browser
    }),
  )
  statements = 0
  let done = 0
  const from = performance.now()
  const until = from + SECONDS * 1_000
  await Promise.all(
    browsers.map(async (browser, client) => {
      while (performance.now() < until) {
        await signIn(origin, keeps ? browser : openBrowser(origin), way, `bench-${client}`)
        done++
      }
    }),
  )
  return { rate: done / ((performance.now() - from) / 1_000), statements: statements / done }
}

async function signIn(origin: string, browser: Browser, way: Way, name: string): Promise<{ access: string }> {
  const { url, verifier } = authorizationUrl(origin)
  const page = await way(browser, url, name)
  const code = page.url.searchParams.get('code')
  if (code === null) throw new Error(`no code: ${page.status} ${page.url.href}`)
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    code_verifier: verifier,
    client_id: 'demo',
  }
  const { body } = await post(origin, '/oauth/token', form)
  if (body.access_token === undefined) throw new Error(`no token: ${body.error}`)
  return { access: body.access_token }
}

/** microseconds */
async function timePerCall(work: () => Promise<unknown>): Promise<number> {
  for (let warm = 0; warm < 1_000; warm++) await work()
  const from = performance.now()
  for (let call = 0; call < CHECKS; call++) await work()
  return ((performance.now() - from) * 1_000) / CHECKS
}

/** The library as it comes: records in memory, whoever arrives is signed in and has allowed everything, opaque tokens. */
async function openBare(): Promise<{ origin: string; provider: Provider; close(): Promise<void> }> {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const provider = new Provider(`${origin}/oauth`, {
    clients: [
      {
        client_id: 'demo',
        redirect_uris: [REDIRECT],
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    jwks: { keys: [newKey('RS256')] },
    cookies: { keys: ['bench'] },
    scopes: ['openid', 'email', 'offline_access'],
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => `/oauth/interaction/${uid}` },
    issueRefreshToken: () => true,
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    loadExistingGrant: async ({ oidc }) => {
      const grant = new oidc.provider.Grant({ accountId: oidc.account!.accountId, clientId: oidc.client!.clientId })
      grant.addOIDCScope([...oidc.requestParamScopes].join(' '))
      await grant.save()
      return grant
    },
  })
  provider.proxy = true
  provider.silent = true
  const answer = provider.callback()
  const server = createServer((request, response) => {
    if (request.url!.startsWith('/oauth/interaction/')) {
      void provider.interactionFinished(request, response, { login: { accountId: 'somebody' } })
      return
    }
    Object.assign(request, { originalUrl: request.url, url: request.url!.slice('/oauth'.length) })
    void answer(request, response)
  })
  await new Promise<void>((resolve) => void server.listen(port, 'localhost', resolve))
  return {
    origin,
    provider,
    close: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
