import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  hkdfSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto'
import { jwkThumbprint } from '../jwk-thumbprint.ts'
import type { SealKeys } from '../store/seal.ts'

/** An Ed25519 key (RFC 8037) that seals rows. Of several keys the first one seals. Without `d`, a key only verifies. */
export type SealKey = { kty: 'OKP'; crv: 'Ed25519'; kid: string; x: string; d?: string }

/** Makes a new key. Its id is the first 8 characters of its RFC 7638 thumbprint, and is in every seal that it makes. */
export function newSealKey(): SealKey {
  const { crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const key = { kty: 'OKP' as const, crv: crv as 'Ed25519', x: x!, d: d! }
  return { ...key, kid: jwkThumbprint(key).slice(0, 8) }
}

/** Returns the public halves, member by member, so that no private member leaks. */
export const publicSealKeys = (keys: SealKey[]): SealKey[] => keys.map(({ kty, crv, kid, x }) => ({ kty, crv, kid, x }))

/** Imports the keys, and derives their MAC keys. @throws Error */
export function sealKeysOf(keys: readonly SealKey[]): SealKeys {
  const [first] = keys
  const known = keys.map(({ kty, crv, kid, x }): [string, KeyObject] => [
    kid,
    createPublicKey({ key: { kty, crv, x }, format: 'jwk' }),
  ])
  if (first?.d === undefined) return { signing: null, known: new Map(known), macs: null }
  return {
    signing: { kid: first.kid, key: createPrivateKey({ key: first as JsonWebKey, format: 'jwk' }) },
    known: new Map(known),
    macs: new Map(keys.map(({ kid, d }) => [kid, macKeyOf(d!)])),
  }
}

/** Derives a MAC key by HKDF-SHA256 (RFC 5869). */
const macKeyOf = (d: string): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', Buffer.from(d, 'base64url'), '', 'chatelaine row macs', 32)))

/**
 * Returns whether a value read from a file is a list of keys: with `d` if private ones are required, otherwise without.
 */
export const areSealKeys = (given: unknown, isPrivate: boolean): given is SealKey[] =>
  Array.isArray(given) &&
  given.length > 0 &&
  given.every(
    (key: Partial<SealKey> | null) =>
      key?.kty === 'OKP' &&
      key.crv === 'Ed25519' &&
      typeof key.kid === 'string' &&
      /^[\w-]+$/.test(key.kid) &&
      typeof key.x === 'string' &&
      (isPrivate ? isSecret(key.d) : key.d === undefined),
  ) &&
  new Set(given.map(({ kid }: SealKey) => kid)).size === given.length

const isSecret = (d: unknown): boolean => typeof d === 'string' && Buffer.from(d, 'base64url').length === 32
