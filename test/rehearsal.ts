import { createHash } from 'node:crypto'
import Fastify, { type FastifyInstance } from 'fastify'
import { freePort } from './kit/ports.ts'
import type { Application } from '../src/applications/application.ts'
import { attestingSigner } from './attesting.ts'
import { testDatabase } from './kit/database.ts'
import { openBrowser, textOf } from './kit/browser.ts'
import type { App } from '../src/app.ts'
import { saveApplication } from '../src/applications/registry.ts'
import type { Chain } from '../src/chain/network.ts'
import { consolePages } from '../src/console/console.ts'
import { readConfig } from '../src/config.ts'
import { developmentIdp } from '../src/devnet/provider.ts'
import { openBrand } from '../src/http/brand.ts'
import { openGate } from '../src/http/gate.ts'
import { pageAssets } from '../src/http/page.ts'
import { problems } from '../src/http/problems.ts'
import { newSecret, type Hex } from '../src/ids.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import type { RootDb } from '../src/store/db.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { callbackOf } from '../src/oauth/federation/federation.ts'
import { cookieKeysOf, newKeys, publicKeys, type PrivateKeys } from '../src/oauth/keys.ts'
import type { AccountSlices } from '../src/oauth/account/slices.ts'
import { oauth } from '../src/oauth/oauth.ts'
import { sealKeysOf } from '../src/oauth/seal-keys.ts'
import { developmentProvider, type ProviderSettings } from '../src/oauth/federation/providers.ts'
import { openState } from '../src/state.ts'
import { systemClock, type Clock } from '../src/clock.ts'

/** A running authorization server with the development provider, for tests: real HTTP, real database, no chain, no keys of accounts. */
export type Rehearsal = {
  app: App
  origin: string
  /** where this very server listens: another place than its origin for a second replica */
  base: string
  server: FastifyInstance
  /** log lines so far: event, fields and whatever else was written */
  logged: unknown[]
  demo: Application
  /** what tokens are signed with, for tests that forge some */
  keys: PrivateKeys
  close(): Promise<void>
}

type Options = {
  env?: Record<string, string>
  /** providers besides the development one; may use the origin */
  others?: (origin: string) => ProviderSettings[]
  /** stands between the server and its database */
  slow?: (db: RootDb) => RootDb
  /** whether sign-ins of one address are limited, as in production */
  isLimited?: boolean
  keys?: PrivateKeys
  /** false: rows get no MAC, and count without one; what an attack comes to then shows that it is one */
  asksForMacs?: boolean
  /** what the account pages read of other slices; default: nothing */
  slices?: AccountSlices
  /** tokens that the operator listed */
  knownTokens?: App['knownTokens']
  clock?: Clock
  /** the same installation as this one, whose server has ended, or beside it as a replica with the same origin */
  again?: Rehearsal
}

export const demoApplication: Application = {
  clientId: 'demo',
  name: 'Demo application',
  chainId: 31_337,
  kind: 'public',
  redirectUris: ['https://demo.example/callback', 'http://localhost/*', 'http://127.0.0.1/*', 'http://[::1]/*'],
  permissions: ['wallet:read', 'contracts:read', 'contracts:write'],
  allowedOrigins: ['http://localhost', 'http://127.0.0.1'],
  secretHashes: [],
  logoUri: null,
  isSuspended: false,
  sponsor: null,
}

let keysMade: PrivateKeys | undefined

export async function rehearse({
  env = {},
  others = () => [],
  slow = (db) => db,
  isLimited = false,
  again,
  keys = again?.keys ?? (keysMade ??= newKeys()),
  asksForMacs = true,
  slices,
  knownTokens,
  clock = systemClock,
}: Options = {}): Promise<Rehearsal> {
  const { db, close } = again === undefined ? await testDatabase() : { db: again.app.db, close: async () => {} }
  const port =
    again === undefined || again.server.server.listening ? await freePort() : Number(new URL(again.origin).port)
  const origin = again?.origin ?? `http://localhost:${port}`
  const { telemetry, logged } = quietTelemetry()
  const app: App = {
    config: readConfig({ NODE_ENV: 'test', PORT: String(port), ...env }, 'server'),
    origin,
    authOrigin: origin,
    db: slow(db),
    chains: new Map([[31_337, { chainId: 31_337, name: 'devnet', faucet: null } as unknown as Chain]]),
    networks: new Map([[31_337, { name: 'devnet' }]]),
    auth: null,
    signer: {
      ...attestingSigner(addressOf),
      keyExport: async () => ({ ...NOTHING_LEAVES }),
    } as Partial<Signer> as Signer,
    telemetry,
    tokenKeys: publicKeys(keys),
    sealKeys: { ...sealKeysOf(keys.seals), ...(asksForMacs ? {} : { macs: null }) },
    state: openState(),
    clock,
    ...(knownTokens === undefined ? {} : { knownTokens }),
  }
  await saveApplication(app, demoApplication)
  const dev = developmentProvider(origin)
  const server = Fastify({ forceCloseConnections: true })
  problems(server, app)
  openGate(server, app).refuseBehindCors()
  pageAssets(server, openBrand(app.config))
  await developmentIdp(server, { origin, redirectUri: callbackOf(origin, dev) })
  await oauth(server, app, {
    keys,
    cookieKeys: cookieKeysOf(keys),
    providers: [dev, ...others(origin)],
    isLimited,
    more: (scope, signedIn) => consolePages(scope, app, signedIn),
    ...(slices === undefined ? {} : { slices }),
  })
  await server.listen({ port, host: 'localhost' })
  return {
    app,
    origin,
    base: `http://localhost:${port}`,
    server,
    logged,
    demo: demoApplication,
    keys,
    close: async () => {
      await server.close()
      await close()
    },
  }
}

/** Of a signer that gives no keys away. */
const NOTHING_LEAVES = {
  ...{ state: 'none', id: null, askedAt: null, readyAt: null, lapsesAt: null, exportedAt: null, delaySeconds: null },
} as const

export const addressOf = (userId: string): Hex => `0x${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`

function quietTelemetry(): { telemetry: App['telemetry']; logged: unknown[] } {
  const logged: unknown[] = []
  const line = (event: string, fields?: unknown, error?: unknown): void => void logged.push({ event, fields, error })
  const telemetry = { ...openTelemetry('test', 'silent'), log: { debug: line, info: line, warn: line, error: line } }
  return { telemetry, logged }
}

/** At a place of its own, where an application is remembered; on loopback it asks each time. */
export const REDIRECT = 'https://demo.example/callback'

type Begun = { url: string; verifier: string; state: string; nonce: string; redirectUri: string }

/** An authorization request by hand, so that a test can bend each part of it; null leaves a parameter out. */
export function authorizationUrl(origin: string, parameters: Record<string, string | null> = {}): Begun {
  const [verifier, state, nonce] = [newSecret(), newSecret(), newSecret()]
  const all: Record<string, string | null> = {
    client_id: 'demo',
    response_type: 'code',
    redirect_uri: REDIRECT,
    scope: 'openid email',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    state,
    nonce,
    ...parameters,
  }
  const query = new URLSearchParams(Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== null))
  return {
    url: `${origin}/oauth/auth?${query.toString()}`,
    verifier,
    state,
    nonce,
    redirectUri: all.redirect_uri ?? REDIRECT,
  }
}

type TokenAnswer = { status: number; body: Record<string, string | undefined> & { error?: string } }

/** One request to an endpoint of the authorization server that takes a form. */
export async function post(
  origin: string,
  path: string,
  form: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<TokenAnswer> {
  const response = await fetch(`${origin}${path}`, { method: 'POST', body: new URLSearchParams(form), headers })
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as TokenAnswer['body']) }
}

/** A person signs in and the client gets a code; nothing is exchanged yet. */
export async function obtainCode(
  { origin }: { origin: string },
  {
    username = 'alice',
    parameters = {},
    browser = openBrowser(origin),
  }: {
    username?: string
    parameters?: Record<string, string | null>
    browser?: ReturnType<typeof openBrowser>
  } = {},
): Promise<{
  code: string
  verifier: string
  exchange: (changes?: Record<string, string>, headers?: Record<string, string>) => Promise<TokenAnswer>
}> {
  const begun = authorizationUrl(origin, parameters)
  const page = await browser.signIn(begun.url, username)
  const code = page.url.searchParams.get('code')
  if (code === null)
    throw new Error(
      `no code: ${page.url.pathname} ${page.url.searchParams.get('error_description') ?? textOf(page.text)}`,
    )
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: begun.redirectUri,
    code_verifier: begun.verifier,
    client_id: parameters.client_id ?? 'demo',
  }
  return {
    code,
    verifier: begun.verifier,
    exchange: (changes = {}, headers = {}) => post(origin, '/oauth/token', { ...form, ...changes }, headers),
  }
}

/** A person signs in and the client has its tokens. */
export async function obtainTokens(
  world: { origin: string },
  options: Parameters<typeof obtainCode>[1] = {},
): Promise<{ access: string; refresh: string; id: string; scope: string }> {
  const { exchange } = await obtainCode(world, options)
  const { status, body } = await exchange()
  if (status !== 200) throw new Error(`no tokens: ${body.error} ${body.error_description}`)
  return { access: body.access_token!, refresh: body.refresh_token!, id: body.id_token!, scope: body.scope! }
}

/** What `/oauth/me` says to a token. */
export async function askMe(
  origin: string,
  token: string,
  method = 'GET',
): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> {
  const response = await fetch(`${origin}/oauth/me`, { method, headers: { authorization: `Bearer ${token}` } })
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, unknown>,
  }
}
