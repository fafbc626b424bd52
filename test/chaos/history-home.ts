import type { ChildProcess } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { Hex } from '../../src/ids.ts'
import { fromHex } from '../../src/hex.ts'
import { openEmbedded, type RootDb } from '../../src/store/db.ts'
import { migratedFolder, testCluster, testDatabase } from '../kit/database.ts'
import { throughProcess } from './statements.ts'

/** Where lives are stored, and how many processes may share one. */
export type Home = {
  processes: 1 | 2
  /** what a process has to know of it */
  env: () => Record<string, string>
  /** Makes room for a life: empty tables, and these accounts. */
  begin(accounts: Record<Hex, string>): Promise<void>
  /** Told of each new process: on the embedded database only it can be asked. */
  adopt(child: ChildProcess): void
  /** the tables while processes live; a question fails when the one that is asked dies */
  db: RootDb
  /** What the last process left behind. */
  leftBehind(): Promise<{ db: RootDb; close(): Promise<void> }>
  close(): Promise<void>
}

/** On the PostgreSQL cluster of TEST_DATABASE_URL, or embedded in a folder. */
export const openHome = (): Promise<Home> => (testCluster === null ? embeddedHome() : postgresHome())

async function postgresHome(): Promise<Home> {
  const { db, url, close } = await testDatabase()
  return {
    ...{ processes: 2, db, close, adopt: () => {} },
    env: () => ({ CHAOS_DATABASE: url! }),
    begin: (accounts) => empty(db, accounts),
    leftBehind: async () => ({ db, close: async () => {} }),
  }
}

export async function empty(db: RootDb, accounts: Record<Hex, string>): Promise<void> {
  for (const table of ['accounts', 'blocks', 'cursors', 'history_cursors', 'transfers', 'tokens', 'networks'] as const)
    await db.deleteFrom(table).execute()
  const rows = Object.entries(accounts).map(([address, account_id]) => ({
    ...{ account_id, user_id: `DEV-${address}`, address: fromHex(address as Hex) },
  }))
  await db.insertInto('accounts').values(rows).execute()
}

export async function embeddedHome(): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-life-'))
  const [template, dir] = [join(folder, 'template'), join(folder, 'life')]
  await migratedFolder(template)
  let asked: ChildProcess | null = null
  return {
    processes: 1,
    env: () => ({ CHAOS_FOLDER: dir }),
    begin: async (accounts) => {
      await rm(dir, { recursive: true, force: true })
      await cp(template, dir, { recursive: true })
      const db = await openEmbedded({ dir })
      await empty(db, accounts)
      await db.destroy()
    },
    adopt: (child) => (asked = child),
    db: throughProcess(() => asked),
    leftBehind: async () => {
      const db = await openEmbedded({ dir })
      return { db, close: () => db.destroy() }
    },
    close: () => rm(folder, { recursive: true, force: true }),
  }
}

/** As if the lease of a dead process were over: nobody waits four seconds for it here. */
export const expireLease = async (db: RootDb): Promise<void> => {
  await db
    .updateTable('cursors')
    .set({ lease_until: sql<Date>`now() - interval '1 second'` })
    .execute()
}
