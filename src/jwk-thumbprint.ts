import { createHash } from 'node:crypto'

/** The public members of a JSON web key that identify it. */
export type KeyMembers = { kty?: string; crv?: string; x?: string; y?: string; n?: string; e?: string }

/**
 * Returns the thumbprint of a key, which does not depend on its name: base64url of SHA-256 over its members.
 * Source: RFC 7638, RFC 8037 §2
 */
export function jwkThumbprint({ kty, crv, x, y, n, e }: KeyMembers): string {
  const members = kty === 'EC' ? { crv, kty, x, y } : kty === 'OKP' ? { crv, kty, x } : { e, kty, n }
  return createHash('sha256').update(JSON.stringify(members)).digest('base64url')
}
