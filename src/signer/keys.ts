import { createCipheriv, createDecipheriv, randomBytes, randomFillSync, type KeyObject } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from './canonical.ts'
import { addressOf, isScalar, publicKeyOf } from './curve.ts'
import type { Deks } from './deks.ts'
import { Refusal } from './refusal.ts'

/** An account's row: its key only as ciphertext. */
export type KeptAccount = {
  userId: string
  address: Buffer
  wrapped: Buffer
  iv: Buffer
  tag: Buffer
  epoch: number
  version: number
}

/**
 * The accounts and their keys: the master key wraps one data key per epoch, the data key wraps user keys. A user key
 * is in the clear only inside `use`, in one buffer that is zeroed on the way out, and is never a string.
 */
export type Keys = {
  /** the user's account, or null */
  ofUser: (userId: string) => KeptAccount | null
  ofAddress: (address: Buffer) => KeptAccount | null
  /** makes a key and stores it; inside a transaction. The user must have none. */
  create: (userId: string) => KeptAccount
  /**
   * Opens the key for the time of one call.
   * @throws key_damaged  when the row was altered, moved to another user, or gives another address
   */
  use: <T>(account: KeptAccount, work: (key: Buffer, publicKey: Uint8Array) => T) => T
  count: () => number
}

const KEY_VERSION = 1

export function openKeys({ db, deks, now }: { db: DatabaseSync; deks: Deks; now: () => number }): Keys {
  const columns = 'user_id AS userId, address, wrapped, iv, tag, epoch, version'
  const byUser = db.prepare(`SELECT ${columns} FROM accounts WHERE user_id = ?`)
  const byAddress = db.prepare(`SELECT ${columns} FROM accounts WHERE address = ?`)
  const insert = db.prepare(
    'INSERT INTO accounts (user_id, address, wrapped, iv, tag, epoch, version, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  )
  const count = db.prepare('SELECT coalesce(sum(keys), 0) AS keys FROM deks')

  return {
    ofUser: (userId) => readAccount(byUser.get(userId)),
    ofAddress: (address) => readAccount(byAddress.get(address)),
    create(userId) {
      const { epoch, dek } = deks.current()
      const account = withNewKey((key) => {
        const address = addressOf(publicKeyOf(key))
        const terms = { userId, address, epoch, version: KEY_VERSION }
        return { ...terms, ...seal(key, dek, additionalData(terms)) }
      })
      const { address, wrapped, iv, tag, version } = account
      insert.run(userId, address, wrapped, iv, tag, epoch, version, now())
      deks.used(epoch)
      return account
    },
    use(account, work) {
      const dek = deks.of(account.epoch)
      if (dek === undefined) throw damaged()
      const key = open(account, dek, additionalData(account))
      try {
        if (!isScalar(key)) throw damaged()
        const publicKey = publicKeyOf(key)
        if (!addressOf(publicKey).equals(account.address)) throw damaged()
        return work(key, publicKey)
      } finally {
        key.fill(0)
      }
    },
    count: () => (count.get() as { keys: number }).keys,
  }
}

/** Ties a wrapped key to its row: put under another user, address, version or epoch it does not open. */
const additionalData = ({ userId, address, version, epoch }: Omit<KeptAccount, 'wrapped' | 'iv' | 'tag'>): Buffer =>
  canonical('chatelaine user key 1', userId, address, version, epoch)

function withNewKey<T>(work: (key: Buffer) => T): T {
  const key = randomBytes(32)
  try {
    // The chance is 2^-128, and zero or the group's order would be no key.
    while (!isScalar(key)) randomFillSync(key)
    return work(key)
  } finally {
    key.fill(0)
  }
}

function seal(key: Buffer, dek: KeyObject, aad: Buffer): Pick<KeptAccount, 'wrapped' | 'iv' | 'tag'> {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', dek, iv).setAAD(aad)
  const wrapped = Buffer.concat([cipher.update(key), cipher.final()])
  return { wrapped, iv, tag: cipher.getAuthTag() }
}

function open({ wrapped, iv, tag }: KeptAccount, dek: KeyObject, aad: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', dek, iv, { authTagLength: 16 }).setAAD(aad).setAuthTag(tag)
  const key = decipher.update(wrapped)
  try {
    decipher.final()
    return key
  } catch {
    key.fill(0)
    throw damaged()
  }
}

const damaged = (): Refusal =>
  new Refusal('key_damaged', 'The stored key of this account was altered. Restore it from a backup.')

function readAccount(row: unknown): KeptAccount | null {
  if (row === undefined) return null
  const { userId, address, wrapped, iv, tag, epoch, version } = row as KeptAccount
  return {
    userId,
    address: Buffer.from(address),
    wrapped: Buffer.from(wrapped),
    iv: Buffer.from(iv),
    tag: Buffer.from(tag),
    epoch,
    version,
  }
}
