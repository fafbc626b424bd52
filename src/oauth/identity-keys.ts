import { createPrivateKey, createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto'
import type { IdentityKeys } from '../app.ts'
import { jwkThumbprint } from '../jwk-thumbprint.ts'

/** An Ed25519 key (RFC 8037) by which linked identities are proven; the first of several signs. Without `d` it only checks. */
export type IdentityKey = { kty: 'OKP'; crv: 'Ed25519'; kid: string; x: string; d?: string }

/** A new key with its RFC 7638 thumbprint as key id. */
export function newIdentityKey(): IdentityKey {
  const { crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const key = { kty: 'OKP' as const, crv: crv as 'Ed25519', x: x!, d: d! }
  return { ...key, kid: jwkThumbprint(key) }
}

/** Member by member, so that nothing private strays. */
export const publicIdentityKeys = (keys: IdentityKey[]): IdentityKey[] =>
  keys.map(({ kty, crv, kid, x }) => ({ kty, crv, kid, x }))

/** The keys as they are used. @throws Error */
export function identityKeysOf(keys: readonly IdentityKey[]): IdentityKeys {
  const [first] = keys
  const signing =
    first?.d === undefined
      ? null
      : { kid: first.kid, key: createPrivateKey({ key: first as JsonWebKey, format: 'jwk' }) }
  const known = keys.map(({ kty, crv, kid, x }) => {
    return [kid, createPublicKey({ key: { kty, crv, x }, format: 'jwk' })] as const
  })
  return { signing, known: new Map(known) }
}

/** Whether something read from a file are keys, private ones where `d` is asked for. */
export const areIdentityKeys = (given: unknown, isPrivate: boolean): given is IdentityKey[] =>
  Array.isArray(given) &&
  given.length > 0 &&
  given.every(
    (key: Partial<IdentityKey> | null) =>
      key?.kty === 'OKP' &&
      key.crv === 'Ed25519' &&
      typeof key.kid === 'string' &&
      typeof key.x === 'string' &&
      isPrivate === (typeof key.d === 'string'),
  )
