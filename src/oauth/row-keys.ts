import { createSecretKey, randomBytes } from 'node:crypto'
import type { RowKeys } from '../store/row-mac.ts'

/** A key for HMAC-SHA256, as a JWK (RFC 7518 §6.4); the first of several signs. */
export type RowKey = { kty: 'oct'; kid: string; k: string }

export const newRowKey = (): RowKey => ({
  kty: 'oct',
  kid: randomBytes(6).toString('base64url'),
  k: randomBytes(32).toString('base64url'),
})

/** The keys as they are used. */
export function rowKeysOf(keys: readonly RowKey[]): RowKeys {
  const used = keys.map(({ kid, k }) => ({ kid, key: createSecretKey(Buffer.from(k, 'base64url')) }))
  return { signing: used[0]!, known: new Map(used.map(({ kid, key }) => [kid, key])) }
}

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
