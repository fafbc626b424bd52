import { createRemoteJWKSet, customFetch, errors, flattenedVerify, type JWTVerifyGetKey } from 'jose'
import type { App } from '../../app.ts'
import type { TrustedIssuer } from '../../applications/application.ts'
import { AppError } from '../../errors.ts'
import { openOutbound, type Outbound } from '../../http/outbound.ts'

/** Discovery documents and keys are read again after this, in milliseconds; earlier if a key is missing, see below. */
const KEPT_MS = 600_000
/** Minimum time between two reads for missing keys, in milliseconds: anyone can make up tokens. */
const COOLDOWN_MS = 5_000
const PATIENCE_MS = 5_000

/** Returns the key that a token names, from its issuer. @throws provider_unavailable  if the issuer does not respond */
export type IssuerKeys = (trusted: TrustedIssuer) => JWTVerifyGetKey

type CachedKeys = { keys: JWTVerifyGetKey; readAt: number }

/**
 * Opens the keys of issuers that applications bring. Requests are guarded like those to identity providers. Keys
 * that a token names itself (`jku`, `jwk`, `x5u`) is ignored.
 */
export function openIssuerKeys({ config, clock, telemetry }: Pick<App, 'config' | 'clock' | 'telemetry'>): IssuerKeys {
  const known = new Map<string, CachedKeys>()

  return (trusted) => async (header, token) => {
    try {
      const keys = await keysOf(trusted)
      return await keys(header, token)
    } catch (error) {
      if (isKeyMissing(error)) throw error
      // The discovery document may have named a wrong address: read it again next time.
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
 * Returns the keys published at an address. They are read again if a token needs one that is missing. If several keys
 * fit a token, the one that signed it is chosen (RFC 7517 §4.5).
 * @param cooldownMs  minimum time between two reads, where anyone may present tokens that name keys
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

/** Returns whether an issuer's keys were read and the key is missing. */
export const isKeyMissing = (error: unknown): boolean => error instanceof errors.JWKSNoMatchingKey

const placeOf = ({ issuer, jwksUri, allowsPrivate }: TrustedIssuer): string =>
  JSON.stringify([issuer, jwksUri, allowsPrivate])

/** Returns where the issuer publishes its keys. Source: OpenID Connect Discovery §4 */
async function discover(issuer: string, way: Outbound): Promise<string> {
  const answer = await way(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (answer.status !== 200) throw new Error(`the issuer's discovery document answers ${answer.status}`)
  const described = (await answer.json()) as { issuer?: unknown; jwks_uri?: unknown } | null
  if (described?.issuer !== issuer) throw new Error('the issuer describes itself as another one')
  if (typeof described.jwks_uri !== 'string') throw new Error('the issuer has no jwks_uri')
  return described.jwks_uri
}
