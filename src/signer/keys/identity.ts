import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  type KeyObject,
} from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from '../canonical.ts'
import type { Deks, OpenDeks } from './deks.ts'
import { LedgerDamaged } from '../refusal.ts'
import { verifierOf, type Verifier } from '../../signer-wire/verifier.ts'

/**
 * The signer's own Ed25519 key. It signs the signer's statements and never a transaction. It is created with the store and wrapped
 * by a data key, like user keys.
 */
export type SignerIdentity = Verifier & {
  sign: (text: string) => Buffer
  /** true if the key was just created */
  isNew: boolean
}

type IdentityRow = { public: Uint8Array; epoch: number; iv: Uint8Array; tag: Uint8Array; wrapped: Uint8Array }

/**
 * Opens the key, and creates it in a new store; inside a transaction.
 * @throws LedgerDamaged  if it is missing or was altered
 */
export function openIdentity(db: DatabaseSync, deks: Deks): SignerIdentity {
  const row = db.prepare('SELECT * FROM identity').get() as IdentityRow | undefined
  // A store with data keys had an identity key; a new one would identify another log.
  if (row === undefined && !deks.isNew) throw new LedgerDamaged('The identity key of the signer is missing.')
  const key = row === undefined ? make(db, deks) : unwrap(row, deks)
  return {
    ...verifierOf(rawPublic(createPublicKey(key))),
    sign: (text) => sign(null, Buffer.from(text, 'utf8'), key),
    isNew: row === undefined,
  }
}

/** Checks the key of a store that is opened read-only; returns why it does not open or does not match its public key, else null. */
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

const rawPublic = (key: KeyObject): Buffer => Buffer.from(key.export({ format: 'jwk' }).x!, 'base64url')

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
  // Another program may have wrapped it, so check that it matches the public key.
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
