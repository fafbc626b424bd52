import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Thrown if another Chatelaine process has locked the folder. */
export class FolderInUse extends Error {
  /** process id, followed by the machine or container if it is another one; `?` if the holder has not written it yet */
  readonly holder: string
  constructor(folder: string, holder: string) {
    super(`${folder} is held by process ${holder}`)
    this.name = 'FolderInUse'
    this.holder = holder
  }
}

const SQLITE_BUSY = 5

/** Open locks. Without a reference, garbage collection would close the file and so release the lock. */
const held = new Set<DatabaseSync>()

/**
 * Locks a folder for this process. SQLite holds an operating system lock on a file, which ends with the process,
 * however that ends. The lock also works between containers that share the folder, where process ids are not
 * comparable. The holder's name is written to a file beside it, for messages only.
 * @param file  name of the lock file in the folder
 * @returns     a function that releases the lock
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
    // Remove the name before the lock ends: afterwards another holder may have written its own.
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
