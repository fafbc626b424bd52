/**
 * backup: file format of a backup: a `tar` archive, encrypted to recipients with age.
 * Owns: both formats, and that a backup file is either complete or absent.
 * Does not own: the content, which is the signer's store (`signer/programs/backup.ts`).
 */

import { createHash, type KeyObject } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { seal, unseal } from './age.ts'
import { ArchiveError, pack, unpack, type PackedFile } from './tar.ts'

/**
 * Writes an archive to a path that must not exist. It writes a draft, syncs it to disk and renames it. Only this OS user can read
 * the file.
 * @param at  milliseconds since 1970
 * @returns its length in bytes, and its SHA-256 in hexadecimal digits
 * @throws ArchiveError  if the file already exists
 */
export async function writeArchive(
  path: string,
  {
    recipients,
    files,
    at,
  }: { recipients: KeyObject[]; files: Iterable<PackedFile> | AsyncIterable<PackedFile>; at: number },
): Promise<{ bytes: number; sha256: string }> {
  if (existsSync(path)) throw new ArchiveError(`${path} already exists. A backup is never overwritten.`)
  const draft = `${path}.partial`
  // A process that was killed may have left a draft.
  await rm(draft, { force: true })
  const handle = await open(draft, 'wx', 0o600)
  const digest = createHash('sha256')
  let bytes = 0
  try {
    for await (const piece of seal(recipients, pack(files, Math.floor(at / 1_000)))) {
      await handle.writeFile(piece)
      digest.update(piece)
      bytes += piece.length
    }
    await handle.sync()
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  } finally {
    await handle.close()
  }
  await rename(draft, path)
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
  return { bytes, sha256: digest.digest('hex') }
}

/**
 * Reads the files of an archive; the caller must read each to its end. Do not use any of them before this has ended.
 * @throws AgeError, ArchiveError
 */
export const readArchive = (path: string, identities: KeyObject[]): AsyncGenerator<PackedFile> =>
  unpack(unseal(identities, createReadStream(path, { highWaterMark: 1_048_576 })))
