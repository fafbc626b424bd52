import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  randomBytes,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from './canonical.ts'
import type { Deks, OpenDeks } from './deks.ts'
import { LedgerDamaged } from './refusal.ts'

/**
 * The signer's own key, Ed25519: for what it says of itself, never for anyone's money. Made with the store, wrapped by a
 * data key as the users' keys are.
 */
export type SignerIdentity = {
  /** the name of its log, which is made of the key */
  origin: string
  /** 32 bytes */
  publicKey: Buffer
  sign: (text: string) => Buffer
  isSigned: (text: string, signature: Uint8Array) => boolean
  /** it was made just now */
  isNew: boolean
}

type IdentityRow = { public: Uint8Array; epoch: number; iv: Uint8Array; tag: Uint8Array; wrapped: Uint8Array }

/** DER of an Ed25519 public key (RFC 8410) before its 32 bytes. */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

/**
 * Opens the key, and makes it in a new store; inside a transaction.
 * @throws LedgerDamaged  when it is missing or was altered
 */
export function openIdentity(db: DatabaseSync, deks: Deks): SignerIdentity {
  const row = db.prepare('SELECT * FROM identity').get() as IdentityRow | undefined
  // A store with data keys has had one: another in its place would answer for another log.
  if (row === undefined && !deks.isNew) throw new LedgerDamaged('The identity key of the signer is missing.')
  const key = row === undefined ? make(db, deks) : unwrap(row, deks)
  const publicObject = createPublicKey(key)
  const publicKey = rawPublic(publicObject)
  return {
    origin: originOf(publicKey),
    publicKey,
    sign: (text) => sign(null, Buffer.from(text, 'utf8'), key),
    isSigned: (text, signature) => verify(null, Buffer.from(text, 'utf8'), publicObject, signature),
    isNew: row === undefined,
  }
}

/** What is wrong with the key of a store that is only looked at: that it does not open, or is of another public half. */
export function identityFault(db: DatabaseSync, { deks }: Pick<OpenDeks, 'deks'>): string | null {
  const row = db.prepare('SELECT * FROM identity').get() as IdentityRow | undefined
  if (row === undefined) return null
  try {
    unwrap(row, { of: (epoch) => deks.get(epoch) })
    return null
  } catch (error) {
    if (error instanceof LedgerDamaged) return error.message
    throw error
  }
}

export const originOf = (publicKey: Uint8Array): string =>
  `chatelaine-signing-log/${hash('sha256', publicKey, 'hex').slice(0, 16)}`

/** @param publicKey  32 bytes; whose they are, only someone who keeps them elsewhere knows */
export function isSignedBy(
  publicKey: Uint8Array,
  { origin, text, signature }: { origin: string; text: string; signature: Uint8Array },
): boolean {
  const key = createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: 'der', type: 'spki' })
  return origin === originOf(publicKey) && verify(null, Buffer.from(text, 'utf8'), key, signature)
}

const rawPublic = (key: KeyObject): Buffer => key.export({ format: 'der', type: 'spki' }).subarray(SPKI.length)

function make(db: DatabaseSync, deks: Deks): KeyObject {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { epoch, dek } = deks.current()
  const bytes = rawPublic(publicKey)
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', dek, iv).setAAD(aadOf({ public: bytes, epoch }))
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' })
  const wrapped = Buffer.concat([cipher.update(secret), cipher.final()])
  secret.fill(0)
  db.prepare('INSERT INTO identity (only_row, public, epoch, iv, tag, wrapped) VALUES (1, ?, ?, ?, ?, ?)').run(
    ...[bytes, epoch, iv, cipher.getAuthTag(), wrapped],
  )
  return privateKey
}

function unwrap(row: IdentityRow, deks: Pick<Deks, 'of'>): KeyObject {
  const dek = deks.of(row.epoch)
  if (dek === undefined) throw altered()
  const key = decipherKey(row, dek)
  // What wrapped it need not have been this program.
  if (!rawPublic(createPublicKey(key)).equals(row.public)) throw altered()
  return key
}

function decipherKey(row: IdentityRow, dek: KeyObject): KeyObject {
  let secret: Buffer | null = null
  try {
    const decipher = createDecipheriv('aes-256-gcm', dek, row.iv, { authTagLength: 16 })
    secret = decipher.setAAD(aadOf(row)).setAuthTag(row.tag).update(row.wrapped)
    decipher.final()
    return createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' })
  } catch {
    throw altered()
  } finally {
    secret?.fill(0)
  }
}

const aadOf = ({ public: publicKey, epoch }: Pick<IdentityRow, 'public' | 'epoch'>): Buffer =>
  canonical('chatelaine identity 1', publicKey, epoch)

const altered = (): LedgerDamaged => new LedgerDamaged('The identity key of the signer was altered.')
