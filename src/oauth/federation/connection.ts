import type { JWTVerifyGetKey } from 'jose'
import * as openid from 'openid-client'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { appleProof } from './apple-key.ts'
import { remoteKeys } from './issuer-keys.ts'
import { openOutbound, type Outbound } from '../../http/outbound.ts'
import type { ProviderSettings } from './providers.ts'
import { PageError } from '../../texts/page-error.ts'
import { type Clock } from '../../clock.ts'

/** Maximum duration of one request to a provider, in seconds. */
const PATIENCE_SECONDS = 5
/** Discovery documents are read again after this, in milliseconds: providers rarely move their endpoints. */
const DISCOVERY_MS = 3_600_000

/** A provider and its keys; `keys`: null for a provider without id tokens. */
export type ProviderConnection = { config: openid.Configuration; keys: JWTVerifyGetKey | null }

/** Connects to a provider. @throws provider_unavailable */
export type Connect = (provider: ProviderSettings) => Promise<ProviderConnection>

/**
 * Opens the connections of the client library, from discovery, a preset or settings. All its requests go out through
 * outbound.ts.
 */
export function openConnections(app: Pick<App, 'clock' | 'telemetry'>): Connect {
  const known = new Map<string, ProviderConnection & { readAt: number }>()
  const ways = new Map<string, Outbound>()

  return async (provider) => {
    const before = known.get(provider.name)
    if (before !== undefined && app.clock.wall() - before.readAt < DISCOVERY_MS) return before
    const way = ways.get(provider.name) ?? wayTo(provider)
    ways.set(provider.name, way)
    try {
      const found =
        provider.dialect?.endpoints === undefined
          ? await discover(provider, way, app.clock)
          : describe(provider, way, app.clock)
      known.set(provider.name, { ...found, readAt: app.clock.wall() })
      return found
    } catch (error) {
      // An old discovery document is better than no sign-in.
      if (before !== undefined) return before
      app.telemetry.log.warn('provider_unavailable', { provider: provider.name }, error)
      throw unavailable(provider, error)
    }
  }
}

/** Makes the error for a provider that does not respond. */
export const unavailable = (provider: ProviderSettings, cause: unknown): AppError =>
  new PageError('provider_unavailable', ({ refused }) => refused.away(provider.label), { cause })

/** Opens the requests to one provider: guarded, and with its token responses reduced to the fields that are read. */
export function wayTo({
  isDevelopment,
  allowsHttp = false,
  allowsPrivate = false,
  dialect,
}: ProviderSettings): Outbound {
  const out = openOutbound({ isDevelopment: isDevelopment || allowsHttp, allowsPrivate })
  return readingTokens(out, dialect?.endpoints === undefined ? [...USED_FIELDS, 'id_token'] : USED_FIELDS)
}

/**
 * Reads the discovery document of a provider. It is not read at start: an unavailable provider must not prevent a
 * start.
 * @throws Error  of ours that names the problem, or one of the client library
 */
export async function discover(provider: ProviderSettings, way: Outbound, clock: Clock): Promise<ProviderConnection> {
  const config = await openid.discovery(
    new URL(provider.issuer),
    provider.clientId,
    undefined,
    proofOf(provider, clock),
    {
      timeout: PATIENCE_SECONDS,
      [openid.customFetch]: way,
      execute: isPlain(provider) ? [openid.allowInsecureRequests] : [],
    },
  )
  // The library makes an exception for Microsoft, whose shared tenants stand for any issuer. A provider name belongs to
  // one.
  const { issuer, jwks_uri: jwksUri } = config.serverMetadata()
  if (issuer !== provider.issuer && issuer !== `${provider.issuer}/` && `${issuer}/` !== provider.issuer)
    throw new Error('the provider describes itself as another issuer')
  if (jwksUri === undefined) throw new Error('the provider has no jwks_uri')
  // No cooldown: id tokens come from the provider's token endpoint, so nobody else can make us look for missing keys.
  return { config, keys: remoteKeys(jwksUri, way, { cooldownMs: 0 }) }
}

/** Returns the connection of a provider without id tokens, from its preset or its settings. */
export function describe(provider: ProviderSettings, way: Outbound, clock: Clock): ProviderConnection {
  const { authorization, token } = provider.dialect!.endpoints!
  const metadata = { issuer: provider.issuer, authorization_endpoint: authorization, token_endpoint: token }
  const config = new openid.Configuration(metadata, provider.clientId, undefined, proofOf(provider, clock))
  config.timeout = PATIENCE_SECONDS
  config[openid.customFetch] = way
  if (isPlain(provider)) openid.allowInsecureRequests(config)
  return { config, keys: null }
}

const isPlain = ({ isDevelopment, allowsHttp = false }: ProviderSettings): boolean => isDevelopment || allowsHttp

function proofOf({ clientSecret, appleKey, dialect, proof }: ProviderSettings, clock: Clock): openid.ClientAuth {
  if (appleKey !== undefined) return appleProof(appleKey, clock)
  if (clientSecret === null) return openid.None()
  const ways = { basic: secretInHeader(clientSecret), post: openid.ClientSecretPost(clientSecret) }
  if (dialect?.endpoints !== undefined) return ways[dialect.proof ?? 'post']
  // As the discovery document says; by default in the header (OpenID Connect Discovery §3).
  return (server, ...rest) => {
    const takesBody = server.token_endpoint_auth_methods_supported?.includes('client_secret_post') === true
    ways[proof ?? (takesBody ? 'post' : 'basic')](server, ...rest)
  }
}

/**
 * Sends the secret in the header, form-encoded (RFC 6749 §2.3.1, appendix B). The client library also encodes `-`, `.`
 * and `_`, which need no encoding. A provider that does not decode would then reject most secrets.
 */
function secretInHeader(secret: string): openid.ClientAuth {
  const encoded = (text: string) => new URLSearchParams({ text }).toString().slice('text='.length)
  return (_server, { client_id }, _body, headers) => {
    const pair = `${encoded(client_id)}:${encoded(secret)}`
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`)
  }
}

/**
 * Fields of a token response that are read here. The client library rejects a response if any other field violates RFC
 * 6749 §5.1, such as `expires_in: null`. GitHub sends `error` with a success status.
 */
const USED_FIELDS = ['access_token', 'token_type', 'error']

/** Reduces token responses to these fields, and adds the token type Bearer if there is none (LinkedIn). */
function readingTokens(out: Outbound, fields: string[]): Outbound {
  return async (url, options) => {
    const answer = await out(url, options)
    if (options?.method !== 'POST' || answer.status !== 200) return answer
    const { headers, status } = answer
    const text = await answer.text()
    const body = objectIn(text)
    // Not a JSON object: the library reports it.
    if (body === null) return new Response(text, { headers, status })
    const given = fields.flatMap((name) =>
      [undefined, null, ''].includes(body[name] as string) ? [] : [[name, body[name]]],
    )
    return Response.json({ token_type: 'Bearer', ...Object.fromEntries(given) }, { status })
  }
}

function objectIn(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}
