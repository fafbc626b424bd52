import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Another program of ours holds the folder. */
export class FolderInUse extends Error {
  /** process id, and the machine or container where that is another one; `?` until the holder has said it */
  readonly holder: string
  constructor(folder: string, holder: string) {
    super(`${folder} is held by process ${holder}`)
    this.name = 'FolderInUse'
    this.holder = holder
  }
}

const SQLITE_BUSY = 5

/** A lock that nobody refers to would end with the next garbage collection. */
const held = new Set<DatabaseSync>()

/**
 * Takes a folder for this process alone. The lock is one of the operating system, on a file of its own that SQLite holds
 * open: it ends with the process, however that ends, and holds between containers that share the folder, where process
 * ids say nothing. Who holds it is written beside it, for people: nothing is decided by that.
 * @param file  of the lock
 * @returns the way to give it back
 * @throws FolderInUse
 */
export function lockFolder(folder: string, file = 'folder.lock'): () => void {
  const path = join(folder, file)
  const holderPath = `${path}.holder`
  const mine = `${process.pid} ${hostname()}\n`
  const lock = new DatabaseSync(path, { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    writeFileSync(holderPath, mine)
    held.add(lock)
  } catch (error) {
    lock.close()
    if ((error as { errcode?: unknown }).errcode === SQLITE_BUSY) throw new FolderInUse(folder, readHolder(holderPath))
    throw error
  }
  return () => {
    // Before the lock ends: behind it another holder may have written there.
    rmSync(holderPath, { force: true })
    held.delete(lock)
    lock.close()
  }
}

function readHolder(path: string): string {
  try {
    const [, pid, host] = /^(\d+) (\S+)$/.exec(readFileSync(path, 'utf8').trim()) ?? []
    if (pid === undefined) return '?'
    return host === hostname() ? pid : `${pid} on ${host}`
  } catch {
    return '?'
  }
}
