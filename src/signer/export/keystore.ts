import { createDecipheriv, pbkdf2Sync, scryptSync, timingSafeEqual } from 'node:crypto'
import { keccak } from '../../keccak.ts'

type UnreadPart = Record<string, unknown> | undefined

/** Above these values a file would take minutes or exhaust the memory; wallets write n = 2^18. */
const MAX_SCRYPT_N = 2 ** 20
const MAX_SCRYPT_R = 32
const MAX_SCRYPT_P = 16
const MAX_ROUNDS = 10_000_000

/**
 * Decrypts the key in a keystore (Web3 Secret Storage, version 3): AES-128-CTR, scrypt or PBKDF2, MAC by Keccak-256.
 * @param password  as typed in the wallet: NFKC is applied here
 * @returns 32 bytes, which the caller must zero
 * @throws Error  a sentence, if it is not a keystore or the password is wrong
 */
export function openKeystore(keystore: unknown, password: string): Buffer {
  const file = keystore as UnreadPart
  // Old keystores write the member with a capital letter.
  const parts = (file?.crypto ?? file?.Crypto) as UnreadPart
  if (Number(file?.version) !== 3 || parts?.cipher !== 'aes-128-ctr') throw new Error('it is no keystore of version 3')
  const ciphertext = bytes(parts.ciphertext, 32)
  const iv = bytes((parts.cipherparams as UnreadPart)?.iv, 16)
  const mac = bytes(parts.mac, 32)
  const derived = derive(
    parts.kdf,
    (parts.kdfparams as UnreadPart) ?? {},
    Buffer.from(password.normalize('NFKC'), 'utf8'),
  )
  try {
    if (!timingSafeEqual(keccak(Buffer.concat([derived.subarray(16, 32), ciphertext])), mac))
      throw new Error('the password does not open it')
    return createDecipheriv('aes-128-ctr', derived.subarray(0, 16), iv).update(ciphertext)
  } finally {
    derived.fill(0)
  }
}

function derive(kdf: unknown, { n, r, p, c, prf, salt, dklen }: Record<string, unknown>, password: Buffer): Buffer {
  const salted = bytes(salt, null)
  if (dklen !== 32) throw new Error('its derived key is not 32 bytes')
  if (kdf === 'pbkdf2' && prf === 'hmac-sha256' && isUpTo(c, MAX_ROUNDS))
    return pbkdf2Sync(password, salted, c, 32, 'sha256')
  if (kdf === 'scrypt' && isUpTo(n, MAX_SCRYPT_N) && isUpTo(r, MAX_SCRYPT_R) && isUpTo(p, MAX_SCRYPT_P))
    return scryptSync(password, salted, 32, { N: n, r, p, maxmem: 256 * n * r + 2 ** 20 })
  throw new Error('its key derivation is unknown, or too costly')
}

const isUpTo = (value: unknown, most: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= most

function bytes(text: unknown, length: number | null): Buffer {
  const isHex = typeof text === 'string' && /^(0x)?(?:[0-9a-fA-F]{2})*$/.test(text)
  const read = isHex ? Buffer.from(text.replace(/^0x/, ''), 'hex') : null
  if (read === null || (length !== null && read.length !== length)) throw new Error('it is no keystore of version 3')
  return read
}
