import { hash } from 'node:crypto'
import { errors, type JWTPayload } from 'jose'
import type { EvidenceBesides } from './authority.ts'
import { CLOCK_TOLERANCE_SECONDS, type KeyFile } from '../tokens/key-file.ts'
import { Refusal } from '../refusal.ts'
import {
  APPROVAL_TOKEN_TYPE,
  approvalDigest,
  type ApprovalClaims,
  type ApprovedContent,
} from '../../signer-wire/approval.ts'
import { EXPORT_AUDIENCE } from '../../signer-wire/wire.ts'
import { toHex } from '../../hex.ts'

/** A verified approval token: a user, the approved content, and the intent that it is for. */
export type Approval = {
  userId: string
  claims: ApprovalClaims
  /** seconds since 1970 */
  expiresAt: number
  /** evidence for the ledger: SHA-256 of the token, base64url, and its `jti` */
  tokenHash: string
  jti: string
}

/** The request that the approval must match; `at` in milliseconds since 1970. */
export type ApprovedRequest = {
  userId: string
  clientId: string
  chainId: number
  from: Buffer
  intentId: string
  content: () => ApprovedContent
  at: number
}

export type Approvals = {
  /**
   * Verifies an approval token; null if it is absent, or not valid for this signer now. An intent has one record
   * forever, so that record uses up the approval of its intent.
   * @throws signer_unavailable  if no key was readable
   */
  read: (token: string | null) => Promise<Approval | null>
}

/** Maximum seconds from `iat` to `exp`. */
const MAX_LIFE_SECONDS = 60

/** Opens the verification of approval tokens. Rejects all other tokens, because their `typ` differs. */
export function openApprovals({
  keys,
  issuer,
  now,
}: {
  keys: Pick<KeyFile, 'verify'>
  issuer: string
  now: () => number
}): Approvals {
  const required = ['exp', 'iat', 'sub', 'jti', 'client_id', 'chain_id', 'intent', 'digest']
  const expected = { typ: APPROVAL_TOKEN_TYPE, issuer, audience: EXPORT_AUDIENCE, required }
  return {
    async read(token) {
      if (token === null) return null
      const payload = await keys.verify(token, expected).catch(nothing)
      return payload === null ? null : toApproval(payload, { tokenHash: hash('sha256', token, 'base64url'), at: now() })
    },
  }
}

/** Returns null for an invalid token. Throws only if the keys could not be read. */
function nothing(error: unknown): null {
  if (error instanceof errors.JOSEError || error instanceof TypeError) return null
  throw error
}

function toApproval(payload: JWTPayload, { tokenHash, at }: { tokenHash: string; at: number }): Approval | null {
  const { sub, jti, client_id, chain_id, intent, digest } = payload
  const { exp, iat } = payload as { exp: number; iat: number }
  // Bound `exp` by the clock as well, as for access tokens: `iat` could lie years in the future.
  if (exp - iat > MAX_LIFE_SECONDS || exp - at / 1_000 > MAX_LIFE_SECONDS + CLOCK_TOLERANCE_SECONDS) return null
  if (![sub, jti, client_id, intent, digest].every((one) => typeof one === 'string' && one !== '')) return null
  if (typeof chain_id !== 'number' || !/^[\x20-\x7e]{1,255}$/.test(jti!)) return null
  const claims = { client_id, chain_id, intent, digest } as ApprovalClaims
  return { userId: sub!, claims, expiresAt: exp, tokenHash, jti: jti! }
}

/** Returns whether an approval matches this request exactly, and has not expired. */
function isApproved(approval: Approval | null, request: ApprovedRequest): approval is Approval {
  if (approval === null) return false
  const { userId, clientId, chainId, from, intentId, content, at } = request
  const { claims, expiresAt } = approval
  return (
    approval.userId === userId &&
    claims.client_id === clientId &&
    claims.chain_id === chainId &&
    claims.intent === intentId &&
    claims.digest === approvalDigest({ chainId, from: toHex(from), content: content() }) &&
    expiresAt + CLOCK_TOLERANCE_SECONDS > at / 1_000
  )
}

/**
 * Compares the required approval with the one in the request.
 * @param requires  the rule that requires an approval; null if none does
 * @returns  `requires`: the rule whose approval is missing, or null; `besides`: evidence for the ledger, which always
 *   has the rule
 */
export function settleApproval(
  requires: string | null,
  approval: Approval | null,
  request: ApprovedRequest,
): { requires: string | null; besides: EvidenceBesides } {
  if (requires === null) return { requires, besides: {} }
  if (!isApproved(approval, request)) return { requires, besides: { requires } }
  return { requires: null, besides: { requires, approval_sha256: approval.tokenHash, approval_jti: approval.jti } }
}

/** Creates the refusal for a missing approval. @param rule  the rule that requires it */
export const approvalRequired = (rule: string): Refusal =>
  new Refusal('approval_required', `The rule ${rule} requires the user’s approval of exactly this request. Nothing was signed.`, { rule }) // prettier-ignore
