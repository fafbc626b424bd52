import { createRemoteJWKSet, customFetch, errors, flattenedVerify, type JWTVerifyGetKey } from 'jose'
import type { App } from '../../app.ts'
import type { TrustedIssuer } from '../../applications/application.ts'
import { AppError } from '../../errors.ts'
import { openOutbound, type Outbound } from './outbound.ts'

/** Descriptions and keys are read again after this, milliseconds; a key that is not there sooner, see below. */
const KEPT_MS = 600_000
/** After a look for a key that was not there, the next look waits this long, milliseconds: tokens are cheap to make up. */
const COOLDOWN_MS = 5_000
const PATIENCE_MS = 5_000

/** The key that a token names, from its issuer. @throws provider_unavailable when the issuer does not answer */
export type IssuerKeys = (trusted: TrustedIssuer) => JWTVerifyGetKey

type CachedKeys = { keys: JWTVerifyGetKey; readAt: number }

/**
 * Keys of the issuers that applications bring, over the same guarded way out as everything we ask of identity
 * providers. What a token says about its own keys (`jku`, `jwk`, `x5u`) is not looked at.
 */
export function openIssuerKeys({ config, clock, telemetry }: Pick<App, 'config' | 'clock' | 'telemetry'>): IssuerKeys {
  const known = new Map<string, CachedKeys>()

  return (trusted) => async (header, token) => {
    try {
      const keys = await keysOf(trusted)
      return await keys(header, token)
    } catch (error) {
      if (isKeyMissing(error)) throw error
      // The description may have named a wrong place.
      known.delete(placeOf(trusted))
      telemetry.log.warn('issuer_unavailable', { provider: trusted.provider }, error)
      throw new AppError(
        'provider_unavailable',
        'The keys of the subject token’s issuer could not be fetched. No token was issued. Retry.',
        {
          cause: error,
          retryAfter: 5,
        },
      )
    }
  }

  async function keysOf(trusted: TrustedIssuer): Promise<JWTVerifyGetKey> {
    const { issuer, jwksUri, allowsPrivate } = trusted
    const place = placeOf(trusted)
    const before = known.get(place)
    if (before !== undefined && clock.wall() - before.readAt < KEPT_MS) return before.keys
    const isLocal = (jwksUri ?? issuer).startsWith('http:') && config.NODE_ENV !== 'production'
    const way = openOutbound({ allowsPrivate, isDevelopment: isLocal, patienceMs: PATIENCE_MS })
    const keys = remoteKeys(jwksUri ?? (await discover(issuer, way)), way, { cooldownMs: COOLDOWN_MS })
    known.set(place, { keys, readAt: clock.wall() })
    return keys
  }
}

/**
 * Keys that are published at an address; read again when one is asked for that is not among them. Where several have the
 * name that a token gives, or a token names none, it is the one that signed the token (RFC 7517 §4.5).
 * @param cooldownMs  not so soon after they were read: where anyone may bring tokens that name keys
 */
export function remoteKeys(address: string, way: Outbound, { cooldownMs }: { cooldownMs: number }): JWTVerifyGetKey {
  const keys = createRemoteJWKSet(new URL(address), {
    [customFetch]: way,
    cacheMaxAge: KEPT_MS,
    cooldownDuration: cooldownMs,
    timeoutDuration: PATIENCE_MS,
  })
  return async (header, token) => {
    try {
      return await keys(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
      for await (const key of error)
        if (await flattenedVerify(token, key).then(() => true, () => false)) return key // prettier-ignore
      throw new errors.JWKSNoMatchingKey()
    }
  }
}

/** Whether it was the key that was wrong, and not the way to it. */
export const isKeyMissing = (error: unknown): boolean => error instanceof errors.JWKSNoMatchingKey

const placeOf = ({ issuer, jwksUri, allowsPrivate }: TrustedIssuer): string =>
  JSON.stringify([issuer, jwksUri, allowsPrivate])

/** Where the issuer says its keys are. Source: OpenID Connect Discovery §4 */
async function discover(issuer: string, way: Outbound): Promise<string> {
  const answer = await way(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (answer.status !== 200) throw new Error(`the issuer's discovery document answers ${answer.status}`)
  const described = (await answer.json()) as { issuer?: unknown; jwks_uri?: unknown } | null
  if (described?.issuer !== issuer) throw new Error('the issuer describes itself as another one')
  if (typeof described.jwks_uri !== 'string') throw new Error('the issuer has no jwks_uri')
  return described.jwks_uri
}
