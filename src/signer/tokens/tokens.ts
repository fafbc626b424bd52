/**
 * signer/tokens: verification of access tokens.
 * Owns: the public keys that tokens are verified with, revoked tokens, suspended applications and frozen accounts.
 * Does not own: issuing tokens (`oauth/`), what a token allows (`signer/rules/authority.ts`).
 */

import { hash } from 'node:crypto'
import { errors, type JWTPayload } from 'jose'
import { BoundedMap } from '../../bounded-map.ts'
import type { TokenCaller } from './caller.ts'
import { CLOCK_TOLERANCE_SECONDS, type KeyFile } from './key-file.ts'
import { Refusal } from '../refusal.ts'
import type { Revocations } from './revocations.ts'
import { assertPerson } from './sponsor.ts'
import { revoked } from '../../signer-wire/wire.ts'
import { systemClock } from '../../clock.ts'

export type TokenVerifier = {
  /**
   * Verifies an access token (RFC 9068); ES256 only.
   * @throws invalid_token       for every fault of the token, without saying which
   * @throws forbidden_user      if its user is a sponsor
   * @throws application_suspended, account_frozen, revocations_stale
   * @throws signer_unavailable  if no key was readable, which is not the token's fault
   */
  check: (token: string) => TokenCaller | Promise<TokenCaller>
}

/** Verified tokens that are cached by hash: an ES256 verification costs about 150 µs, a look-up 3 µs. */
const MAX_REMEMBERED = 10_000

/** Opens the verification of access tokens; verified tokens are cached. */
export function openTokens({
  keys,
  revocations,
  issuer,
  audience,
  maxSeconds,
  now = systemClock.wall,
}: {
  keys: KeyFile
  revocations: Revocations
  issuer: string
  audience: string
  /** from `iat` to `exp`: a token with a longer lifetime is rejected, whichever key signed it */
  maxSeconds: number
  now?: () => number
}): TokenVerifier {
  let verifiedBy = keys.current()
  let remembered = new BoundedMap<string, TokenCaller | Promise<TokenCaller>>(MAX_REMEMBERED)

  return {
    check(token) {
      const set = keys.current()
      if (set !== verifiedBy) {
        // Tokens of a removed key are no longer valid.
        verifiedBy = set
        remembered = new BoundedMap(MAX_REMEMBERED)
      }
      const id = hash('sha256', token, 'base64url')
      const known = remembered.get(id) ?? remember(id, verify(token, id))
      if (known instanceof Promise) return known.then(revocations.check)
      if (isAlive(known)) return revocations.check(known)
      remembered.delete(id)
      throw invalid()
    },
  }

  function remember(id: string, verifying: Promise<TokenCaller>): Promise<TokenCaller> {
    const into = remembered
    const settled = verifying.then(
      (caller) => {
        into.set(id, caller)
        return caller
      },
      (error: unknown) => {
        into.delete(id)
        throw error
      },
    )
    into.set(id, settled)
    return settled
  }

  async function verify(token: string, id: string): Promise<TokenCaller> {
    const expected = { typ: 'at+jwt', issuer, audience, required: ['exp', 'iat', 'sub', 'client_id', 'gid'] }
    const payload = await keys.verify(token, expected).catch(refuse)
    // Check the lifetime by the token's times and by our clock, because a token may name an `iat` that lies years ahead.
    const { exp, iat } = payload as { exp: number; iat: number }
    if (exp - iat > maxSeconds || exp - now() / 1_000 > maxSeconds + CLOCK_TOLERANCE_SECONDS) throw invalid()
    return readCaller(payload, id)
  }

  function isAlive({ expiresAt }: TokenCaller): boolean {
    return expiresAt + CLOCK_TOLERANCE_SECONDS > now() / 1_000
  }
}

const invalid = (): Refusal =>
  new Refusal(
    'invalid_token',
    'The signer does not accept the access token. Nothing was signed. Get a new access token.',
  )

function refuse(error: unknown): never {
  // jose's message may repeat claims. The server knows which check failed, because it has verified the token before.
  throw error instanceof errors.JOSEError || error instanceof TypeError ? invalid() : error
}

function readCaller(payload: JWTPayload, id: string): TokenCaller {
  const { sub, client_id: clientId, gid: grantId, scope, chain_id: chainId, jti, exp } = payload
  // A token without a grant could not be revoked.
  if (typeof sub !== 'string' || sub === '' || !isPlain(clientId) || !isPlain(grantId) || exp === undefined)
    throw invalid()
  assertPerson(sub)
  return {
    userId: sub,
    clientId,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
    chainId: typeof chainId === 'number' ? chainId : null,
    domains: readDomains(payload.domains),
    tokenId: isPlain(jti) ? jti : id,
    tokenHash: id,
    jti: isPlain(jti) ? jti : null,
    expiresAt: exp,
    marks: { grant: revoked.grant(grantId), application: revoked.application(clientId), user: revoked.user(sub) },
  }
}

const MAX_DOMAINS = 100

/** Reads the hosts of the application's origins. A token without them allows no sign-in message. */
const readDomains = (domains: unknown): readonly string[] =>
  Array.isArray(domains) && domains.length <= MAX_DOMAINS && domains.every(isPlain) ? domains : []

/** Returns whether a text is printable ASCII (RFC 6749 appendix A.1) of a length that the ledger accepts. */
const isPlain = (text: unknown): text is string => typeof text === 'string' && /^[\x20-\x7e]{1,255}$/.test(text)
