import { createHash, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { importJWK, jwtVerify, SignJWT } from 'jose'
import { newKey } from '../src/oauth/keys.ts'
import type { ProviderSettings } from '../src/oauth/federation/providers.ts'
import { freePort } from './kit/ports.ts'

/** For tests: one server in place of every provider of a preset, each under its own host name as a path. */
export type StandIn = {
  /** the same settings with every address of the provider turned to this server */
  inPlaceOf: (settings: ProviderSettings) => ProviderSettings
  /** what the provider does when its person has agreed: remembers the request, and answers with a code */
  agree: (away: URL) => string
  /** what the person is, as the provider would say it; a number is a status instead */
  person: Record<string, Record<string, unknown> | number>
  close(): void
}

export const applePrivateKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey

type Asked = { host: string; nonce: string | null; challenge: string | null; redirectUri: string }
type Way = { host: string; path: string; form: URLSearchParams; request: IncomingMessage }
type Said = { status?: number; body: unknown }

const key = newKey('ES256')

export async function standIn(): Promise<StandIn> {
  const base = `http://localhost:${await freePort()}`
  const codes = new Map<string, Asked>()
  const person: StandIn['person'] = {}

  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const [, host = '', ...rest] = request.url!.split('?', 1)[0]!.split('/')
      void respond(response, { host, path: `/${rest.join('/')}`, form: new URLSearchParams(body), request })
    })
  })
  await new Promise<void>((done) => void server.listen(Number(new URL(base).port), 'localhost', done))

  async function respond(response: ServerResponse, way: Way): Promise<void> {
    const { status = 200, body } = await answer(way)
    // GitHub speaks JSON only when asked for it.
    const isForm = way.path === '/login/oauth/access_token' && !way.request.headers.accept?.includes('application/json')
    response.writeHead(status, { 'content-type': isForm ? 'application/x-www-form-urlencoded' : 'application/json' })
    response.end(isForm ? new URLSearchParams(body as Record<string, string>).toString() : JSON.stringify(body))
  }

  async function answer(way: Way): Promise<Said> {
    const issuer = `${base}/${way.host}${ISSUER_PATHS[way.host] ?? ''}`
    const path = way.path.slice((ISSUER_PATHS[way.host] ?? '').length)
    if (path === '/.well-known/openid-configuration') {
      return {
        body: {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/keys`,
          id_token_signing_alg_values_supported: ['ES256'],
          // As Google, Apple, Microsoft and Twitch say of themselves.
          token_endpoint_auth_methods_supported: ['client_secret_post'],
        },
      }
    }
    if (path === '/keys') return { body: { keys: [{ ...key, d: undefined }] } }
    return way.request.method === 'POST' ? token(way, issuer) : profile(way)
  }

  async function token(way: Way, issuer: string): Promise<Said> {
    const { form, host } = way
    const asked = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const isRight =
      asked !== undefined &&
      HOSTS_OF_TOKENS[host] === asked.host &&
      asked.redirectUri === form.get('redirect_uri') &&
      isVerifierRight(asked, form.get('code_verifier')) &&
      (await isClientRight(way))
    // GitHub refuses with the status of a success.
    if (!isRight) return { status: host === 'github.com' ? 200 : 400, body: { error: 'invalid_grant' } }
    const said = person[asked.host]
    // LinkedIn gives no token type, and an id token of an issuer that it is not.
    if (asked.host === LINKEDIN)
      return { body: { access_token: `token of ${asked.host}`, expires_in: 5_183_999, scope: 'openid', id_token: 'e30.e30.e30' } } // prettier-ignore
    if (asked.nonce === null || typeof said !== 'object')
      return { body: { access_token: `token of ${asked.host}`, token_type: 'bearer', scope: 'some' } }
    const now = Math.floor(Date.now() / 1_000)
    const id_token = await new SignJWT({ nonce: asked.nonce, ...said })
      .setProtectedHeader({ alg: 'ES256', kid: key.kid })
      .setIssuer(issuer)
      .setAudience('our client')
      .setIssuedAt(now)
      .setExpirationTime(now + 60)
      .sign(await importJWK(key, 'ES256'))
    const scope = host === 'id.twitch.tv' ? ['openid', 'user:read:email'] : 'openid'
    return { body: { access_token: 'x', token_type: 'bearer', expires_in: 60, scope, id_token } }
  }

  function profile({ host, path, request }: Way): Said {
    const { authorization, 'user-agent': agent } = request.headers
    const asked = HOSTS_OF_PROFILES[host]!
    if (authorization !== `Bearer token of ${asked}` || !agent)
      return { status: 401, body: { message: 'Bad credentials' } }
    const said = person[asked]!
    if (typeof said === 'number') return { status: said, body: {} }
    if (path === '/user/emails') return { body: said.emails }
    return { body: said }
  }

  return {
    inPlaceOf: (settings) =>
      ({
        ...settings,
        issuer: settings.issuer.replace('https://', `${base}/`),
        dialect: withEndpoints(settings, (address) => address.replace('https://', `${base}/`)),
        isDevelopment: true,
      }) as ProviderSettings,
    agree(away) {
      const host = away.pathname.split('/')[1]!
      const { searchParams } = away
      const code = createHash('sha256').update(away.href).digest('hex')
      codes.set(code, {
        host,
        nonce: searchParams.get('nonce'),
        challenge: searchParams.get('code_challenge'),
        redirectUri: searchParams.get('redirect_uri')!,
      })
      return code
    },
    person,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const ISSUER_PATHS: Record<string, string> = {
  'id.twitch.tv': '/oauth2',
  'login.microsoftonline.com': '/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0',
}
const OPENID_HOSTS = ['accounts.google.com', 'appleid.apple.com', 'login.microsoftonline.com', 'id.twitch.tv']
const same = Object.fromEntries(OPENID_HOSTS.map((host) => [host, host]))
const HOSTS_OF_TOKENS: Record<string, string> = {
  ...same,
  'discord.com': 'discord.com',
  'github.com': 'github.com',
  'api.x.com': 'x.com',
  'www.linkedin.com': 'www.linkedin.com',
}
const HOSTS_OF_PROFILES: Record<string, string> = {
  'discord.com': 'discord.com',
  'api.github.com': 'github.com',
  'api.x.com': 'x.com',
  'api.linkedin.com': 'www.linkedin.com',
}
const LINKEDIN = 'www.linkedin.com'

/** LinkedIn takes any `code_verifier` of a client with a secret for a wrong proof of the client. */
const isVerifierRight = ({ host, challenge }: Asked, verifier: string | null): boolean =>
  host === LINKEDIN
    ? verifier === null
    : createHash('sha256')
        .update(verifier ?? '')
        .digest('base64url') === challenge

async function isClientRight({ host, form, request }: Way): Promise<boolean> {
  if (host === 'api.x.com') {
    const basic = `Basic ${Buffer.from('our+client:our+secret').toString('base64')}`
    return request.headers.authorization === basic && !form.has('client_secret')
  }
  if (form.get('client_id') !== 'our client') return false
  if (host !== 'appleid.apple.com') return form.get('client_secret') === 'our secret'
  const { payload, protectedHeader } = await jwtVerify(form.get('client_secret')!, applePublicKey(), {
    issuer: 'our team',
    subject: 'our client',
    audience: 'https://appleid.apple.com',
    algorithms: ['ES256'],
  })
  return protectedHeader.kid === 'our key' && payload.exp! - payload.iat! <= 15_777_000
}

const applePublicKey = (): KeyObject => createPublicKey(applePrivateKey)

function withEndpoints({ dialect }: ProviderSettings, turn: (address: string) => string): ProviderSettings['dialect'] {
  if (dialect?.endpoints === undefined) return dialect
  const turned = Object.entries(dialect.endpoints).map(([name, address]) => [name, turn(address)])
  return { ...dialect, endpoints: Object.fromEntries(turned) as typeof dialect.endpoints }
}
