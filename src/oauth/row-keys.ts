import { createSecretKey, hkdfSync, randomBytes } from 'node:crypto'
import type { RowKeys } from '../store/row-mac.ts'

/** A key for HMAC-SHA256, as a JWK (RFC 7518 §6.4); the first of several signs. */
export type RowKey = { kty: 'oct'; kid: string; k: string }

/** What token-signing keys are here: something to derive from. */
type DerivedFrom = { alg: string; kid: string; d: string }

export const newRowKey = (): RowKey => ({
  kty: 'oct',
  kid: randomBytes(6).toString('base64url'),
  k: randomBytes(32).toString('base64url'),
})

/**
 * The keys as they are used. A file of an earlier version has none of its own: they are derived from the token-signing keys then, on
 * every replica the same, and rows are given MACs that nobody asks for until an operator has had the others authenticated.
 */
export function rowKeysOf({
  keys,
  rows,
}: {
  keys: readonly DerivedFrom[]
  rows?: readonly RowKey[] | undefined
}): RowKeys {
  const used = (rows ?? derivedRowKeys(keys)).map(({ kid, k }) => ({
    kid,
    key: createSecretKey(Buffer.from(k, 'base64url')),
  }))
  return {
    signing: used[0]!,
    known: new Map(used.map(({ kid, key }) => [kid, key])),
    isInForce: rows !== undefined,
  }
}

/** One for each ES256 key, in their order. RFC 5869, HKDF-SHA256, 32 bytes. */
export const derivedRowKeys = (keys: readonly DerivedFrom[]): RowKey[] =>
  keys
    .filter(({ alg }) => alg === 'ES256')
    .map(({ kid, d }) => ({
      kty: 'oct',
      kid: kid.slice(0, 8),
      k: Buffer.from(hkdfSync('sha256', d, '', 'chatelaine rows', 32)).toString('base64url'),
    }))

/** Whether something read from a file are such keys. */
export const areRowKeys = (given: unknown): given is RowKey[] =>
  Array.isArray(given) &&
  given.length > 0 &&
  given.every(
    (key: Partial<RowKey> | null) =>
      key?.kty === 'oct' &&
      typeof key.kid === 'string' &&
      /^[\w-]+$/.test(key.kid) &&
      typeof key.k === 'string' &&
      Buffer.from(key.k, 'base64url').length >= MIN_KEY_BYTES,
  ) &&
  new Set(given.map(({ kid }: RowKey) => kid)).size === given.length

/** RFC 2104 §3: no shorter than the hash. */
const MIN_KEY_BYTES = 32
