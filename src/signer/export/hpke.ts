import { createCipheriv, createDecipheriv, createECDH, createHmac, type ECDH } from 'node:crypto'

/**
 * Encryption to a public key: HPKE (RFC 9180) in base mode, one message per key, with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256 and
 * AES-GCM. P-256 is available in WebCrypto of every browser. The message does not authenticate its sender, so its content must be
 * checked against something known, a key against its address.
 */
export type Sealed = { enc: Buffer; ciphertext: Buffer }

/** RFC 9180 §7: KEM 0x0010, KDF 0x0001, AEAD 0x0002; the RFC's test vectors use AEAD 0x0001 */
const KEM = Buffer.of(0x00, 0x10)
const KDF = Buffer.of(0x00, 0x01)
const AEADS = { 'aes-256-gcm': { id: Buffer.of(0x00, 0x02), keyBytes: 32 }, 'aes-128-gcm': { id: Buffer.of(0x00, 0x01), keyBytes: 16 } } // prettier-ignore
type Aead = keyof typeof AEADS

const CURVE = 'prime256v1'
/** bytes of an uncompressed point, the form of public keys and `enc` */
const PUBLIC_KEY_BYTES = 65
const TAG_BYTES = 16

type SealingTerms = { info: Uint8Array; aad?: Uint8Array; aead?: Aead }

/**
 * Encrypts to a public key.
 * @param recipient  public key, 65 bytes
 * @param ephemeral  set by tests with the RFC's vectors only: reuse would reveal both messages
 * @throws Error  if the recipient is not a point of the curve
 */
export function seal(
  recipient: Uint8Array,
  plaintext: Uint8Array,
  { info, aad = Buffer.alloc(0), aead = 'aes-256-gcm' }: SealingTerms,
  ephemeral: ECDH = newKeyPair(),
): Sealed {
  if (!isPublicKey(recipient)) throw new Error('The recipient is not a public key.')
  const enc = ephemeral.getPublicKey()
  const { key, nonce } = schedule(ephemeral.computeSecret(recipient), Buffer.concat([enc, recipient]), { info, aead })
  const cipher = createCipheriv(aead, key, nonce).setAAD(aad)
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
  key.fill(0)
  return { enc, ciphertext }
}

/** Decrypts a message. @throws Error  if it was encrypted to another key or with other terms, or was altered */
export function unseal(
  recipient: ECDH,
  { enc, ciphertext }: Sealed,
  { info, aad = Buffer.alloc(0), aead = 'aes-256-gcm' }: SealingTerms,
): Buffer {
  const context = Buffer.concat([enc, recipient.getPublicKey()])
  const { key, nonce } = schedule(recipient.computeSecret(enc), context, { info, aead })
  const end = ciphertext.length - TAG_BYTES
  const decipher = createDecipheriv(aead, key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(aad).setAuthTag(ciphertext.subarray(Math.max(end, 0)))
  key.fill(0)
  const opened = decipher.update(ciphertext.subarray(0, Math.max(end, 0)))
  try {
    decipher.final()
  } catch (cause) {
    opened.fill(0)
    throw new Error('What was sealed does not open.', { cause })
  }
  return opened
}

/** Generates a key pair on P-256. */
export function newKeyPair(): ECDH {
  const pair = createECDH(CURVE)
  pair.generateKeys()
  return pair
}

/** Returns the key pair of a private key. @param secret  32 bytes. @throws Error  if it is not a scalar of the curve */
export function keyPairOf(secret: Uint8Array): ECDH {
  const pair = createECDH(CURVE)
  pair.setPrivateKey(secret)
  return pair
}

/** Returns whether the bytes are an uncompressed point of the curve. Diffie-Hellman with anything else could leak the private key. */
export function isPublicKey(bytes: Uint8Array): boolean {
  if (bytes.length !== PUBLIC_KEY_BYTES || bytes[0] !== 4) return false
  try {
    newKeyPair().computeSecret(bytes).fill(0)
    return true
  } catch {
    return false
  }
}

/** Derives key and nonce: RFC 9180 §4.1 (ExtractAndExpand) and §5.1 (KeySchedule); the first nonce is the base nonce (§5.2). */
function schedule(dh: Buffer, kemContext: Uint8Array, { info, aead }: { info: Uint8Array; aead: Aead }) {
  const kem = labels(Buffer.concat([Buffer.from('KEM'), KEM]))
  const shared = kem.expand(kem.extract(NOTHING, 'eae_prk', dh), 'shared_secret', kemContext, 32)
  dh.fill(0)
  const { id, keyBytes } = AEADS[aead]
  const hpke = labels(Buffer.concat([Buffer.from('HPKE'), KEM, KDF, id]))
  const context = Buffer.concat([
    Buffer.of(0),
    hpke.extract(NOTHING, 'psk_id_hash', NOTHING),
    hpke.extract(NOTHING, 'info_hash', info),
  ])
  const secret = hpke.extract(shared, 'secret', NOTHING)
  shared.fill(0)
  const [key, nonce] = [hpke.expand(secret, 'key', context, keyBytes), hpke.expand(secret, 'base_nonce', context, 12)]
  secret.fill(0)
  return { key, nonce }
}

const NOTHING = Buffer.alloc(0)
const VERSION = Buffer.from('HPKE-v1')

/** Implements LabeledExtract and LabeledExpand of RFC 9180 §4 over RFC 5869; no output here is longer than one hash. */
function labels(suite: Buffer) {
  const hmac = (key: Uint8Array, ...parts: Uint8Array[]): Buffer =>
    createHmac('sha256', key).update(Buffer.concat(parts)).digest()
  return {
    extract: (salt: Uint8Array, label: string, ikm: Uint8Array): Buffer =>
      hmac(salt, VERSION, suite, Buffer.from(label), ikm),
    expand: (prk: Uint8Array, label: string, info: Uint8Array, bytes: number): Buffer =>
      hmac(prk, Buffer.of(0, bytes), VERSION, suite, Buffer.from(label), info, Buffer.of(1)).subarray(0, bytes),
  }
}
