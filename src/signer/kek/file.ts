import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, type KeyObject } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, isAbsolute, relative, sep } from 'node:path'
import { whoElseReads } from '../../secret-file.ts'
import { StartError } from '../refusal.ts'
import type { Kek } from './provider.ts'

const KEY_BYTES = 32

/**
 * Opens a master key in a file of 32 raw bytes. AES-256-GCM; wrapped bytes are iv (12), tag (16), ciphertext.
 * @throws StartError  if the file is missing, has another length, or is readable by others
 */
export function openKekFile(path: string): Kek {
  const key = readKekFile(path)
  return {
    provider: 'file',
    async wrap(dek, aad) {
      const iv = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(aad)
      const sealed = Buffer.concat([cipher.update(dek), cipher.final()])
      return Buffer.concat([iv, cipher.getAuthTag(), sealed])
    },
    async unwrap(wrapped, aad) {
      const decipher = createDecipheriv('aes-256-gcm', key, wrapped.subarray(0, 12), { authTagLength: 16 })
      const dek = decipher.setAAD(aad).setAuthTag(wrapped.subarray(12, 28)).update(wrapped.subarray(28))
      try {
        decipher.final()
        return dek
      } catch (error) {
        dek.fill(0)
        throw error
      }
    },
  }
}

/** Reads the key into a buffer, copies it into OpenSSL's memory and zeroes the buffer; it is never a string. @throws StartError */
export function readKekFile(path: string): KeyObject {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (cause) {
    throw new StartError(
      `The master key (KEK) cannot be opened: SIGNER_KEK_FILE must be a readable file of 32 bytes.`,
      cause,
    )
  }
  // One byte more than a key, to detect a longer file.
  const bytes = Buffer.alloc(KEY_BYTES + 1)
  try {
    const others = whoElseReads(fstatSync(fd))
    if (others !== null)
      throw new StartError(`The master key (KEK) is readable by ${others}: chmod 600 SIGNER_KEK_FILE.`)
    if (!fstatSync(fd).isFile() || readSync(fd, bytes, 0, bytes.length, 0) !== KEY_BYTES) {
      throw new StartError('The master key (KEK) is not usable: SIGNER_KEK_FILE must hold exactly 32 bytes.')
    }
    return createSecretKey(bytes.subarray(0, KEY_BYTES))
  } finally {
    bytes.fill(0)
    closeSync(fd)
  }
}

/**
 * Creates a master key file if there is none.
 * @throws StartError  if the file cannot be created
 */
export function makeKekFile(path: string): void {
  const key = randomBytes(KEY_BYTES)
  try {
    writeKekFile(path, key)
  } finally {
    key.fill(0)
  }
}

/**
 * Writes a draft and links it into place, so that the file is either complete or absent. An existing key is never replaced.
 * @throws StartError  if the file cannot be created
 */
export function writeKekFile(path: string, key: Buffer): void {
  const draft = `${path}.new`
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    // A process that was killed here may have left a draft: part of a key, or a second name of the key itself.
    rmSync(draft, { force: true })
    if (existsSync(path)) return
    const fd = openSync(draft, 'wx', 0o600)
    try {
      writeSync(fd, key)
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    linkSync(draft, path)
    rmSync(draft)
    syncFolder(dirname(path))
  } catch (cause) {
    throw new StartError('The master key (KEK) could not be created at SIGNER_KEK_FILE.', cause)
  }
}

/** Returns whether a path lies in a folder, whose backups would then contain it. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return !isAbsolute(way) && way.split(sep)[0] !== '..'
}

/** Syncs a folder: the name of a new file is on disk only after that. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
