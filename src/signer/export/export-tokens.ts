import { hash } from 'node:crypto'
import { errors, type JWTPayload } from 'jose'
import { isPublicKey } from './hpke.ts'
import { CLOCK_TOLERANCE_SECONDS, type KeyFile } from '../tokens/key-file.ts'
import { Refusal } from '../refusal.ts'
import type { Revocations } from '../tokens/revocations.ts'
import { assertPerson } from '../tokens/sponsor.ts'
import { EXPORT_AUDIENCE, EXPORT_TOKEN_TYPE, revoked } from '../../signer-wire/wire.ts'

/** The claims of an export token, and its evidence for the ledger. */
type ExportCaller = {
  userId: string
  jti: string
  /** the request to fetch; empty in a token that asks for a key */
  request: string
  /** public key that the key is encrypted to; empty in a token that asks for a key */
  recipient: Buffer
  evidence: { token_sha256: string; jti: string; client_id: string; auth_time: number }
}

export type ExportTokens = {
  /**
   * Verifies a token that the authorization server issued for one step of an export. Its type differs from an access token's, so
   * neither can serve as the other.
   * @throws invalid_token, forbidden_user, sign_in_too_old, application_suspended, account_frozen, revocations_stale,
   * signer_unavailable
   */
  check: (token: string, purpose: 'ask' | 'take') => Promise<ExportCaller>
}

/** Maximum seconds since the sign-in, so that an unlocked screen is not enough. */
const MAX_SIGN_IN_SECONDS = 300
/** Maximum seconds from `iat` to `exp`. */
const MAX_LIFE_SECONDS = 60

/** Opens the verification of export tokens. */
export function openExportTokens({
  keys,
  revocations,
  issuer,
  now,
}: {
  keys: Pick<KeyFile, 'verify'>
  revocations: Pick<Revocations, 'check'>
  issuer: string
  now: () => number
}): ExportTokens {
  return {
    async check(token, purpose) {
      const required = ['exp', 'iat', 'sub', 'jti', 'gid', 'client_id', 'auth_time', 'purpose']
      const payload = await keys.verify(token, { typ: EXPORT_TOKEN_TYPE, issuer, audience: EXPORT_AUDIENCE, required }).catch(refuse) // prettier-ignore
      const { exp, iat } = payload as { exp: number; iat: number }
      if (exp - iat > MAX_LIFE_SECONDS || exp - now() / 1_000 > MAX_LIFE_SECONDS + CLOCK_TOLERANCE_SECONDS) throw invalid() // prettier-ignore
      if (payload.purpose !== purpose) throw invalid()
      const caller = readCaller(payload, hash('sha256', token, 'base64url'))
      const age = now() / 1_000 - caller.evidence.auth_time
      if (age < -CLOCK_TOLERANCE_SECONDS) throw invalid()
      if (age > MAX_SIGN_IN_SECONDS + CLOCK_TOLERANCE_SECONDS)
        throw new Refusal(
          'sign_in_too_old',
          'The sign-in is more than 5 minutes old. Nothing was exported. Ask the user to sign in again.',
        )
      // Rejects the token of a user who has been signed out or frozen.
      await revocations.check({
        userId: caller.userId,
        clientId: caller.evidence.client_id,
        scopes: [],
        chainId: null,
        domains: [],
        expiresAt: exp,
        tokenId: caller.jti,
        tokenHash: caller.evidence.token_sha256,
        jti: caller.jti,
        marks: {
          grant: revoked.grant(String(payload.gid)),
          application: revoked.application(caller.evidence.client_id),
          user: revoked.user(caller.userId),
        },
      })
      return caller
    },
  }
}

function readCaller(
  { sub, jti, client_id: clientId, auth_time, request = '', recipient = '' }: JWTPayload,
  tokenHash: string,
): ExportCaller {
  // prettier-ignore
  const isPlain = (text: unknown): text is string => typeof text === 'string' && /^[\x20-\x7e]{1,255}$/.test(text)
  if (typeof sub !== 'string' || sub === '' || !isPlain(jti) || !isPlain(clientId) || !Number.isSafeInteger(auth_time))
    throw invalid()
  assertPerson(sub)
  const point = typeof recipient === 'string' ? Buffer.from(recipient, 'base64url') : Buffer.alloc(0)
  if (recipient !== '' && !isPublicKey(point)) throw invalid()
  if (typeof request !== 'string' || (recipient === '') !== (request === '')) throw invalid()
  const evidence = { token_sha256: tokenHash, jti, client_id: clientId, auth_time: auth_time as number }
  return { userId: sub, jti, request, recipient: point, evidence }
}

const invalid = (): Refusal =>
  new Refusal(
    'invalid_token',
    'The signer does not accept the token of this export. Nothing was exported. Ask the user to sign in again.',
  )

function refuse(error: unknown): never {
  throw error instanceof errors.JOSEError || error instanceof TypeError ? invalid() : error
}
