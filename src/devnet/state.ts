import { createReadStream, createWriteStream } from 'node:fs'
import { open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { rpc } from './rpc.ts'

/**
 * Returns the paths of the chain's state files. `saved`: written by us while the chain runs, by rename, gzipped (1/6 of
 * the size, and a checksum that detects a truncated file). `exit`: written by anvil in place when it ends; a SIGKILL
 * can truncate it.
 */
export const stateFiles = (dir: string) => ({
  saved: join(dir, 'chain-state.json.gz'),
  exit: join(dir, 'chain-exit.json'),
  load: join(dir, 'chain-load.json'),
})

/**
 * Saves the state of the chain atomically. It takes 20 ms for 350 kB at 2,000 blocks, and 110 ms for 1.9 MB at 12,000.
 */
export async function saveState(dir: string, rpcUrl: string): Promise<void> {
  const hex = await rpc<string>(rpcUrl, 'anvil_dumpState')
  const { saved } = stateFiles(dir)
  const file = await open(`${saved}.new`, 'w')
  try {
    await file.writeFile(Buffer.from(hex.slice(2), 'hex'))
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${saved}.new`, saved)
}

/**
 * Returns the states from which a chain can start, newest first. `unpack` writes the state as a plain file and returns
 * its path, or null if the file is truncated.
 */
export async function statesToTry(dir: string): Promise<{ name: string; unpack: () => Promise<string | null> }[]> {
  const files = stateFiles(dir)
  const states = await Promise.all([
    describe(files.exit, async () => ((await lastByte(files.exit)) === '}' ? files.exit : null)),
    describe(files.saved, () => gunzip(files.saved, files.load)),
  ])
  return states.filter((state) => state !== null).toSorted((a, b) => b.writtenAtMs - a.writtenAtMs)
}

/**
 * Cleans up after a start: the state that anvil wrote at its last exit becomes the saved one. So the next exit cannot
 * overwrite the only copy.
 * @param loaded  the file from which the chain started; null for a new chain
 */
export async function settleState(dir: string, loaded: string | null): Promise<void> {
  const files = stateFiles(dir)
  if (loaded === files.exit) {
    await pipeline(createReadStream(files.exit), createGzip({ level: 1 }), createWriteStream(`${files.saved}.new`))
    await rename(`${files.saved}.new`, files.saved)
  }
  if (loaded === null) await rename(files.saved, `${files.saved}.unreadable`).catch(ignoreMissing)
  await Promise.all([rm(files.exit, { force: true }), rm(files.load, { force: true })])
}

async function describe(path: string, unpack: () => Promise<string | null>) {
  try {
    return { name: path, writtenAtMs: (await stat(path)).mtimeMs, unpack }
  } catch (error) {
    ignoreMissing(error)
    return null
  }
}

async function gunzip(from: string, to: string): Promise<string | null> {
  try {
    await pipeline(createReadStream(from), createGunzip(), createWriteStream(to))
    return to
  } catch {
    return null
  }
}

async function lastByte(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, Math.max(0, size - 1))
    return buffer.toString('latin1')
  } finally {
    await file.close()
  }
}

function ignoreMissing(error: unknown): void {
  if ((error as { code?: string }).code !== 'ENOENT') throw error
}
