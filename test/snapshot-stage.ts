import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { makeIdentity, readIdentities, readRecipient } from '../src/backup/age.ts'
import { readArchive, writeArchive } from '../src/backup/archive.ts'
import { backupDatabase } from '../src/snapshot/backup.ts'
import type { SnapshotFile } from '../src/snapshot/files.ts'
import { restoreDatabase } from '../src/snapshot/restore.ts'
import { withCopySession, type CopySession, type DatabasePlace } from '../src/store/copy.ts'
import { emptyPostgres, migratedFolder, migratedPostgres, testCluster, testPooler } from './kit/database.ts'

/** Databases to back up and to restore into, a folder for what is between, and keys that open it. */
export type SnapshotStage = {
  folder: string
  keys: ReturnType<typeof makeIdentity>
  /** a migrated database that nobody has open */
  migrated(kind?: DatabaseKind): Promise<DatabasePlace>
  /** where nothing is yet */
  empty(kind?: DatabaseKind): Promise<DatabasePlace>
  /** a backup of it, at a path of its own */
  backup(from: DatabasePlace, files?: SnapshotFile[]): Promise<string>
  restore(file: string, to: DatabasePlace, folder?: string): ReturnType<typeof restoreDatabase<void>>
  /** the entries of a backup, changed, sealed anew to the same recipient */
  forge(file: string, change: (entries: Entry[]) => Entry[]): Promise<string>
}
export type DatabaseKind = 'postgres' | 'embedded'
export type Entry = { name: string; content: Buffer }

/** Of the database that the tests run on, and of the embedded one. */
export const kinds: DatabaseKind[] = testCluster === null ? ['embedded'] : ['postgres', 'embedded']

export function snapshotStage(t: TestContext): SnapshotStage {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-snapshot-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const keys = makeIdentity()
  let count = 0
  const next = (name: string) => join(folder, `${name}-${++count}`)
  const at = async (kind: DatabaseKind, open: typeof emptyPostgres): Promise<DatabasePlace> => {
    const { url, drop } = await open(testCluster!)
    t.after(drop)
    return { url, pooler: testPooler }
  }
  async function backup(from: DatabasePlace, files: SnapshotFile[] = []): Promise<string> {
    const to = next('backup')
    await backupDatabase(from, { to, recipients: [readRecipient(keys.recipient)], files, program: '0.0.0', now: Date.now }) // prettier-ignore
    return to
  }
  return {
    folder,
    keys,
    async migrated(kind = kinds[0]!) {
      if (kind === 'postgres') return at(kind, migratedPostgres)
      const dir = next('db')
      await migratedFolder(dir)
      return { dir }
    },
    empty: async (kind = kinds[0]!) => (kind === 'postgres' ? at(kind, emptyPostgres) : { dir: next('db') }),
    backup,
    restore: (file, to, files) =>
      restoreDatabase(to, { file, identities: readIdentities(keys.identity), folder: files ?? null }, async () => {}),
    async forge(file, change) {
      const entries: Entry[] = []
      for await (const { name, data } of readArchive(file, readIdentities(keys.identity))) {
        const pieces: Uint8Array[] = []
        for await (const piece of data) pieces.push(piece)
        entries.push({ name, content: Buffer.concat(pieces) })
      }
      const forged = next('forged')
      const files = change(entries).map(({ name, content }) => ({ name, size: content.length, data: once(content) }))
      await writeArchive(forged, { recipients: [readRecipient(keys.recipient)], files, at: 0 })
      return forged
    },
  }
}

async function* once(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}

/** What is in a place, whatever it is. */
export const inside = <T>(place: DatabasePlace, work: (session: CopySession) => Promise<T>): Promise<T> =>
  withCopySession(place, 'write', work)

/** Whether nothing is there: no folder of a database, or a database without a table. */
export async function isEmpty(place: DatabasePlace): Promise<boolean> {
  if ('dir' in place) return !existsSync(place.dir) && !existsSync(`${place.dir}.partial`)
  return inside(place, async ({ query }) => (await query(`select from pg_class where relnamespace = current_schema()::regnamespace`)).length === 0) // prettier-ignore
}

/** A folder on a disk of its own that has so many bytes; null where this user may not make one. */
export function smallDisk(t: TestContext, bytes: number): string | null {
  const disk = mkdtempSync(join(tmpdir(), 'chatelaine-disk-'))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', disk])
  t.after(() => {
    if (status === 0) spawnSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true, force: true })
  })
  return status === 0 ? disk : null
}
