/**
 * `npm run bench:oauth`: sign-ins per second, their CPU and database statements, and the cost of checking an access token,
 * against a bare oidc-provider with its in-memory adapter, in one process and one run, and against itself without MACs of rows. The clients and the development
 * provider run in that process too, so ratios and CPU say more than rates. PostgreSQL with its own settings where it is
 * installed, or the cluster of TEST_DATABASE_URL; `--embedded` for the embedded database.
 */
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import type { KyselyPlugin } from 'kysely'
import { Provider } from 'oidc-provider'
import { verifyAccessToken } from '../src/http/bearer.ts'
import { newKey } from '../src/oauth/keys.ts'
import { openBrowser } from '../test/kit/browser.ts'
import { freePort } from '../test/kit/ports.ts'
import { startPostgres } from './postgres.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '2' },
    embedded: { type: 'boolean', default: false },
  },
})
const CLIENTS = 4
const CHECKS = 20_000

const cluster = flags.embedded ? null : await startPostgres()
if (cluster === null) delete process.env.TEST_DATABASE_URL
else process.env.TEST_DATABASE_URL = cluster.url
// It looks once, when it is read, for where the tests' databases are.
const { authorizationUrl, post, REDIRECT, rehearse } = await import('../test/rehearsal.ts')

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
/** `cpu` of this process, clients included, and `databaseCpu` of PostgreSQL: milliseconds a sign-in */
type Measured = { rate: number; statements: number; cpu: number; databaseCpu: number }

const house = await rehearse({ slow: (db) => db.withPlugin(counting) })
const bare = await openBare()

const ours: Way = (browser, url, name) => browser.signIn(url, name)
const straight: Way = (browser, url) => browser.go(url)
const places = [
  { name: 'first sign-ins of a browser', keeps: false },
  { name: 'sign-ins with a session', keeps: true },
]
const { sealKeys } = house.app
const results = new Map<string, { ours: Measured[]; bare: Measured[]; unguarded: Measured[] }>()
for (let round = 0; round < Number(flags.rounds); round++) {
  for (const { name, keeps } of places) {
    const found = results.get(name) ?? { ours: [], bare: [], unguarded: [] }
    results.set(name, found)
    found.ours.push(await measure(house.origin, ours, keeps))
    Object.assign(house.app, { sealKeys: { ...sealKeys, macs: null } })
    found.unguarded.push(await measure(house.origin, ours, keeps))
    Object.assign(house.app, { sealKeys })
    found.bare.push(await measure(bare.origin, straight, keeps))
  }
}
const { access } = await signIn(house.origin, openBrowser(house.origin), ours, 'checker')
const { access: opaque } = await signIn(bare.origin, openBrowser(bare.origin), straight, 'checker')
const known = await timePerCall(() => verifyAccessToken(house.app, access))
const inMemory = await timePerCall(() => bare.provider.AccessToken.find(opaque))

const best = (measured: Measured[]): Measured => measured.toSorted((one, other) => other.rate - one.rate)[0]!
const row = (name: string, found: { ours: Measured[]; bare: Measured[] }): string => {
  const [us, them] = [best(found.ours), best(found.bare)]
  const cells = [
    `${us.rate.toFixed(0)} /s`,
    `${them.rate.toFixed(0)} /s`,
    (us.rate / them.rate).toFixed(2),
    us.statements.toFixed(1),
    `${us.cpu.toFixed(1)} ms`,
    cluster === null ? '–' : `${us.databaseCpu.toFixed(1)} ms`,
    `${them.cpu.toFixed(1)} ms`,
  ]
  return `| ${name} | ${cells.join(' | ')} |`
}
const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!
const macs = (name: string, { ours, unguarded }: { ours: Measured[]; unguarded: Measured[] }): string => {
  const [cpu, without] = [ours, unguarded].map((some) => median(some.map((one) => one.cpu)))
  const [rate, rateWithout] = [ours, unguarded].map((some) => median(some.map((one) => one.rate)))
  return `MACs of rows, ${name}, medians: CPU ${cpu!.toFixed(2)} ms, ${without!.toFixed(2)} without; ${(rate! / rateWithout!).toFixed(2)} of the rate without; ${best(unguarded).statements.toFixed(1)} statements without`
}
console.log(`Database: ${cluster === null ? 'embedded' : 'PostgreSQL'}; ${CLIENTS} clients, ${flags.seconds} s each, the best of ${flags.rounds}.

| | Chatelaine | bare oidc-provider | ratio | statements | CPU | of PostgreSQL | CPU, bare |
|---|---|---|---|---|---|---|---|
${[...results].map(([name, found]) => row(name, found)).join('\n')}

${[...results].map(([name, found]) => macs(name, found)).join('\n')}

Check of a token seen before: ${known.toFixed(1)} µs; bare ${inMemory.toFixed(1)} µs.`)
await bare.close()
await house.close()
await cluster?.end()
process.exit()

/** Sign-ins with their exchange of the code, by so many clients at once. @param keeps  one browser with its session each */
async function measure(origin: string, way: Way, keeps: boolean): Promise<Measured> {
  const browsers = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      const browser = openBrowser(origin)
      await signIn(origin, browser, way, `bench-${client}`)
      return browser
    }),
  )
  statements = 0
  let done = 0
  const before = { cpu: process.cpuUsage(), databaseCpu: cluster?.cpuMillis() ?? 0 }
  const from = performance.now()
  const until = from + Number(flags.seconds) * 1_000
  await Promise.all(
    browsers.map(async (browser, client) => {
      while (performance.now() < until) {
        await signIn(origin, keeps ? browser : openBrowser(origin), way, `bench-${client}`)
        done++
      }
    }),
  )
  const { user, system } = process.cpuUsage(before.cpu)
  return {
    rate: done / ((performance.now() - from) / 1_000),
    statements: statements / done,
    cpu: (user + system) / 1_000 / done,
    databaseCpu: ((cluster?.cpuMillis() ?? 0) - before.databaseCpu) / done,
  }
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
