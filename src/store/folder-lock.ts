import { link, readFile, rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Another program of ours holds the folder. */
export class FolderInUse extends Error {
  readonly pid: number
  constructor(folder: string, pid: number) {
    super(`${folder} is in use by process ${pid}`)
    this.name = 'FolderInUse'
    this.pid = pid
  }
}

/**
 * Takes a folder for this process alone: the embedded database has no lock of its own, and two programs on one
 * folder would destroy it. The lock names a process and when it started, so one left by SIGKILL is not honoured,
 * nor is a process id that was given to another program since.
 * @returns the way to give it back
 * @throws FolderInUse
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const path = join(folder, 'lock')
  const mine = `${process.pid} ${await startedAt(process.pid)}\n`
  const draft = `${path}.${process.pid}`
  await writeFile(draft, mine)
  try {
    // link() fails when the name exists: of two programs that start together one gets it.
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        await link(draft, path)
        return async () => {
          if ((await readFile(path, 'utf8').catch(() => '')) === mine) await unlink(path)
        }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
        await removeStale(folder, path)
      }
    }
    throw new FolderInUse(folder, 0)
  } finally {
    await unlink(draft)
  }
}

async function removeStale(folder: string, path: string): Promise<void> {
  const held = await readFile(path, 'utf8').catch(() => '')
  const [pid = '', started = ''] = held.trim().split(' ')
  if (held !== '' && (await startedAt(Number(pid))) === started) throw new FolderInUse(folder, Number(pid))
  const aside = `${path}.stale.${process.pid}`
  await rename(path, aside).catch(() => {})
  await unlink(aside).catch(() => {})
}

/** When a process started, in clock ticks since boot; where /proc is missing, only whether it lives. */
async function startedAt(pid: number): Promise<string> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The name in brackets may hold spaces; field 22 is the start time, a zombie ("Z") is dead.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? 'gone' : fields[19]!
  } catch {
    if (process.platform === 'linux') return 'gone'
  }
  try {
    process.kill(pid, 0)
    return 'alive'
  } catch {
    return 'gone'
  }
}
