import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes, type KeyObject } from 'node:crypto'
import { keyIdOf, type SealKeys } from './seal.ts'

/** Keys that encrypt secrets which the service has to read again, by id. The first one encrypts. */
export type SecretKeys = ReadonlyMap<string, KeyObject>

/**
 * Derives the keys of a purpose from the MAC keys of the authorization server, by HKDF-SHA256 (RFC 5869). Another purpose
 * gives other keys, and nothing leads from them to the keys in AUTH_KEYS_FILE.
 * @returns null  this program has no private key
 */
export function secretKeysOf({ signing, macs }: SealKeys, purpose: string): SecretKeys | null {
  if (signing === null || macs === null) return null
  const ordered = [...macs].toSorted(([one], [other]) => Number(other === signing.kid) - Number(one === signing.kid))
  return new Map(
    ordered.map(([kid, key]) => [
      kid,
      createSecretKey(Buffer.from(hkdfSync('sha256', key, '', `chatelaine ${purpose}`, 32))),
    ]),
  )
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Encrypts a secret with AES-256-GCM.
 * @param of  what the secret belongs to: the text cannot be decrypted for anything else
 * @returns key id, a space, and nonce, ciphertext and tag in base64url
 */
export function encryptSecret(keys: SecretKeys, secret: Uint8Array, of: string): string {
  const [[kid, key]] = keys as unknown as [[string, KeyObject]]
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(Buffer.from(of))
  const parts = [nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]
  return `${kid} ${Buffer.concat(parts).toString('base64url')}`
}

/** Decrypts a secret. @returns null  the key is unknown, or the text belongs to something else or was changed */
export function decryptSecret(keys: SecretKeys, text: string, of: string): Buffer | null {
  const kid = keyIdOf(text)
  const key = keys.get(kid)
  const bytes = Buffer.from(text.slice(kid.length + 1), 'base64url')
  if (key === undefined || bytes.length < NONCE_BYTES + TAG_BYTES) return null
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES))
  decipher.setAAD(Buffer.from(of))
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    return null
  }
}
