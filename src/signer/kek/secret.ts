import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { whoElseReads } from '../../secret-file.ts'
import { KekUnavailable } from './provider.ts'

const MAX_BYTES = 65_536

/**
 * Reads a PIN, a token or credentials from a file that only the signer's OS user can read, without newlines at its end. The caller
 * must zero it. The file is read at each use, because another program may renew it.
 * @throws KekUnavailable  naming the setting, never the content
 */
export function readSecret(path: string, setting: string): Buffer {
  const bytes = Buffer.alloc(MAX_BYTES + 1)
  let fd: number | null = null
  try {
    fd = openSync(path, 'r')
    const stat = fstatSync(fd)
    const others = whoElseReads(stat)
    if (others !== null) throw new KekUnavailable(`${setting} is readable by ${others}: chmod 600 it.`)
    const length = stat.isFile() ? readSync(fd, bytes, 0, bytes.length, 0) : 0
    if (length === 0 || length > MAX_BYTES) throw new KekUnavailable(`${setting} must be a file that is not empty.`)
    let end = length
    while (end > 0 && (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x0d)) end -= 1
    return Buffer.from(bytes.subarray(0, end))
  } catch (error) {
    if (error instanceof KekUnavailable) throw error
    throw new KekUnavailable(`${setting} cannot be read.`, error)
  } finally {
    bytes.fill(0)
    if (fd !== null) closeSync(fd)
  }
}

/** Reads a token that is sent as a header. @throws KekUnavailable  naming the setting */
export function readToken(file: string, setting: string): string {
  const bytes = readSecret(file, setting)
  try {
    const token = bytes.toString('latin1')
    if (!/^[\x21-\x7e]+$/.test(token)) throw new KekUnavailable(`${setting} must hold one token and nothing else.`)
    return token
  } finally {
    bytes.fill(0)
  }
}
