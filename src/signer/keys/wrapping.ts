import { createCipheriv, createDecipheriv, randomBytes, randomFillSync, type KeyObject } from 'node:crypto'
import { canonical } from '../canonical.ts'
import { addressOf, isScalar, publicKeyOf, signDigest, type Signature } from './curve.ts'
import { Refusal } from '../refusal.ts'

/** The row of an account. Its key is ciphertext only. */
export type KeptAccount = {
  userId: string
  address: Buffer
  wrapped: Buffer
  iv: Buffer
  tag: Buffer
  epoch: number
  version: number
}

/** The additional data of a wrapped key: under another user, address, version or epoch it does not open. */
type WrappingTerms = Omit<KeptAccount, 'wrapped' | 'iv' | 'tag'>

const KEY_VERSION = 1

/** Creates and wraps a user's key. In the clear it is in one buffer that is zeroed before this returns. */
export function wrapNew(userId: string, { epoch, dek }: { epoch: number; dek: KeyObject }): KeptAccount {
  const key = randomBytes(32)
  try {
    // The chance is 2^-128. Zero and numbers from the group's order on are not valid keys.
    while (!isScalar(key)) randomFillSync(key)
    return seal(key, dek, { userId, address: addressOf(publicKeyOf(key)), epoch, version: KEY_VERSION })
  } finally {
    key.fill(0)
  }
}

/** Wraps an imported key; the caller zeroes it. @returns null if it is not a valid key, or gives another address */
export function wrapGiven(
  key: Buffer,
  { userId, address }: { userId: string; address: Buffer },
  { epoch, dek }: { epoch: number; dek: KeyObject },
): KeptAccount | null {
  if (key.length !== 32 || !isScalar(key) || !addressOf(publicKeyOf(key)).equals(address)) return null
  return seal(key, dek, { userId, address, epoch, version: KEY_VERSION })
}

/**
 * Opens the key of a row for the duration of one call, in one buffer that is zeroed afterwards; it is never a string.
 * @throws key_damaged  if the row was altered, moved to another user, or gives another address
 */
export const withKey = <T>(account: KeptAccount, dek: KeyObject | undefined, work: (key: Buffer) => T): T =>
  opened(account, dek, (key) => {
    if (!givesAddress(key, account)) throw damaged()
    return work(key)
  })

/**
 * Opens the key of a row and signs with it. Signing recovers the account from the signature, which also checks that the key gives
 * the address. Deriving the address first would add a seventh to the cost.
 * @throws key_damaged  like `withKey`
 */
export const signWithKey = (account: KeptAccount, dek: KeyObject | undefined, digest: Buffer): Signature =>
  opened(account, dek, (key) => {
    try {
      return signDigest(digest, key, account.address)
    } catch (error) {
      throw givesAddress(key, account) ? error : damaged()
    }
  })

const givesAddress = (key: Buffer, { address }: KeptAccount): boolean => addressOf(publicKeyOf(key)).equals(address)

function opened<T>(account: KeptAccount, dek: KeyObject | undefined, work: (key: Buffer) => T): T {
  if (dek === undefined) throw damaged()
  const key = open(account, dek)
  try {
    if (!isScalar(key)) throw damaged()
    return work(key)
  } finally {
    key.fill(0)
  }
}

/** Wraps the key of a row by another data key and derives its address again. @throws key_damaged */
export const rewrap = (
  account: KeptAccount,
  from: KeyObject | undefined,
  { epoch, dek }: { epoch: number; dek: KeyObject },
): KeptAccount =>
  withKey(account, from, (key) =>
    seal(key, dek, { userId: account.userId, address: account.address, epoch, version: KEY_VERSION }),
  )

function seal(key: Buffer, dek: KeyObject, terms: WrappingTerms): KeptAccount {
  const iv = nextIv()
  const cipher = createCipheriv('aes-256-gcm', dek, iv).setAAD(additionalData(terms))
  // In GCM, `update` returns the whole ciphertext.
  const wrapped = cipher.update(key)
  cipher.final()
  return { ...terms, wrapped, iv, tag: cipher.getAuthTag() }
}

/** Random IVs, 256 at a time, because one call of the system's generator costs as much as wrapping a key. Each is used once. */
const ivs = Buffer.alloc(12 * 256)
let ivsGiven = ivs.length

function nextIv(): Buffer {
  if (ivsGiven === ivs.length) {
    randomFillSync(ivs)
    ivsGiven = 0
  }
  const iv = Buffer.from(ivs.subarray(ivsGiven, ivsGiven + 12))
  ivsGiven += 12
  return iv
}

function open(account: KeptAccount, dek: KeyObject): Buffer {
  const { wrapped, iv, tag } = account
  let key: Buffer | null = null
  try {
    // This rejects an IV or tag of another length.
    const decipher = createDecipheriv('aes-256-gcm', dek, iv, { authTagLength: 16 })
    key = decipher.setAAD(additionalData(account)).setAuthTag(tag).update(wrapped)
    decipher.final()
    return key
  } catch {
    key?.fill(0)
    throw damaged()
  }
}

const additionalData = ({ userId, address, version, epoch }: WrappingTerms): Buffer =>
  canonical('chatelaine user key 1', userId, address, version, epoch)

const damaged = (): Refusal =>
  new Refusal('key_damaged', 'The stored key of this account is damaged. Restore the key from a backup.')
