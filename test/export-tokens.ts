import { randomUUID } from 'node:crypto'
import { SignJWT, type CryptoKey } from 'jose'
import { EXPORT_AUDIENCE, EXPORT_TOKEN_TYPE } from '../src/signer-wire/wire.ts'

type Bent = { claims?: Record<string, unknown>; header?: Record<string, string>; audience?: string; seconds?: number }

/** Tokens for the export of a key, as the authorization server makes them; each part can be bent. For tests. */
export const exportTokens =
  ({ key, issuer, now = Date.now }: { key: CryptoKey; issuer: string; now?: () => number }) =>
  (
    userId: string,
    purpose: 'ask' | 'take',
    { claims = {}, header = {}, audience = EXPORT_AUDIENCE, seconds = 60 }: Bent = {},
  ): Promise<string> => {
    const at = Math.floor(now() / 1_000)
    return new SignJWT({
      ...{ client_id: 'urn:chatelaine:account', gid: 'account session', jti: randomUUID(), auth_time: at, purpose },
      ...claims,
    })
      .setProtectedHeader({ alg: 'ES256', typ: EXPORT_TOKEN_TYPE, kid: 'first', ...header })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(userId)
      .setIssuedAt(at)
      .setExpirationTime(at + seconds)
      .sign(key)
  }
