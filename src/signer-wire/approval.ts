import { createHash } from 'node:crypto'
import type { Hex } from '../ids.ts'

/** The `typ` of an approval token: a JWS (ES256), signed with a key of access tokens. */
export const APPROVAL_TOKEN_TYPE = 'chatelaine-approval+jwt'

/**
 * The claims of an approval token, besides `iss`, `aud` (EXPORT_AUDIENCE), `sub` (the user id), `iat`, `exp` and `jti`.
 * It permits one signature: of one intent with one content. An intent has one record forever, and that record spends the token.
 */
export type ApprovalClaims = {
  client_id: string
  chain_id: number
  /** the id under which the request will be signed */
  intent: string
  /** `approvalDigest`, 64 hexadecimal digits */
  digest: string
}

/** The approved content: the digest of a message, or calls. A transaction and a sponsored operation with equal calls have equal content. */
export type ApprovedContent = { message: Hex } | { calls: readonly { to: Hex; value: string; data: Hex }[] }

/** Hashes the approved content with the account and network. Hexadecimal digits are lower case. */
export function approvalDigest(of: { chainId: number; from: Hex; content: ApprovedContent }): string {
  const { chainId, from, content } = of
  const parts =
    'message' in content
      ? ['message', content.message.toLowerCase()]
      : ['calls', content.calls.map(({ to, value, data }) => [to.toLowerCase(), value, data.toLowerCase()])]
  const text = JSON.stringify(['chatelaine approval 1', chainId, from.toLowerCase(), ...parts])
  return createHash('sha256').update(text).digest('hex')
}
