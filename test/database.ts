import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { sql } from 'kysely'
import { openEmbedded, openPostgres, type RootDb } from '../src/store/db.ts'
import { migrate, readMigrations } from '../src/store/migrate.ts'

export type TestDatabase = {
  db: RootDb
  /** connection string when it is PostgreSQL */
  url: string | null
  close(): Promise<void>
}

/** The cluster to test on, or null for the embedded database. */
export const testCluster = process.env.TEST_DATABASE_URL ?? null

/** `transaction` when TEST_DATABASE_URL leads through PgBouncer in that mode; the service is told so by its setting. */
export const testPooler = process.env.TEST_DATABASE_POOLER === 'transaction' ? 'transaction' : 'none'

/** A fresh, migrated database of its own: embedded in memory, or on the PostgreSQL cluster of TEST_DATABASE_URL. */
export async function testDatabase(): Promise<TestDatabase> {
  if (testCluster !== null) return onPostgres(testCluster)
  const db = await openEmbedded({ snapshot: await migratedSnapshot() })
  return { db, url: null, close: () => db.destroy() }
}

/** A fresh, empty PostgreSQL database and the way to drop it. */
export async function emptyPostgres(cluster: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `chatelaine_${randomBytes(6).toString('hex')}`
  const admin = await openPostgres({ url: cluster, pooler: testPooler, pool: 1, onError: () => {} })
  await sql.raw(`create database ${name}`).execute(admin)
  const url = new URL(cluster)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: async () => {
      await sql.raw(`drop database if exists ${name} with (force)`).execute(admin)
      await admin.destroy()
    },
  }
}

async function onPostgres(cluster: string): Promise<TestDatabase> {
  const { url, drop } = await emptyPostgres(cluster)
  const db = await openPostgres({ url, pooler: testPooler, pool: 8, onError: () => {} })
  await migrate(db)
  return {
    db,
    url,
    close: async () => {
      await db.destroy()
      await drop()
    },
  }
}

/** A migrated embedded database opens in about a second, a first start takes several: made once for each set of migrations. */
export async function migratedSnapshot(): Promise<Blob> {
  const digest = createHash('sha256')
  for (const { sha256 } of await readMigrations()) digest.update(sha256)
  const file = join(tmpdir(), `chatelaine-snapshot-${digest.digest('hex').slice(0, 16)}.tar`)
  try {
    return new Blob([await readFile(file)])
  } catch {
    const folder = await mkdtemp(join(tmpdir(), 'chatelaine-migrate-'))
    const db = await openEmbedded({ dir: folder })
    await migrate(db)
    await db.destroy()
    const pglite = await PGlite.create({ dataDir: folder })
    const snapshot = await pglite.dumpDataDir('none')
    await pglite.close()
    await rm(folder, { recursive: true })
    // Test files run side by side: written apart, then moved into place whole.
    const part = `${file}.${process.pid}`
    await writeFile(part, Buffer.from(await snapshot.arrayBuffer()))
    await rename(part, file)
    return snapshot
  }
}
