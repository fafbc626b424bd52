import { randomBytes } from 'node:crypto'
import { PGlite } from '@electric-sql/pglite'
import { PGliteDialect, sql } from 'kysely'
import { sqlState } from '../../src/store/away.ts'
import { handleOf, openPostgres, type RootDb } from '../../src/store/db.ts'
import { migrate } from '../../src/store/migrate.ts'
import { INT8, readInt8 } from '../../src/store/pool.ts'
import { boundTime, parseIso, TIMESTAMPTZ } from '../../src/store/read-time.ts'
import { digestOfMigrations, embeddedTemplate, tarOf, unpackTemplate, type Template } from './embedded-template.ts'

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
  return testCluster === null ? onEmbedded() : onPostgres(testCluster)
}

/** Embedded databases of this process that no test uses, as they were when new: emptying one takes a tenth of opening one. */
const idle: Embedded[] = []
type Embedded = { pglite: PGlite; schema: string; empty: string }

async function onEmbedded(): Promise<TestDatabase> {
  const embedded = idle.pop() ?? (await openEmbedded())
  // Of its own for each test: what a test leaves running finds its handle closed, and not the next test's rows.
  const lent = new Proxy(embedded.pglite, {
    get: (pglite, name: keyof PGlite) => {
      const value: unknown = name === 'close' ? async () => {} : pglite[name]
      return typeof value === 'function' ? value.bind(pglite) : value
    },
  })
  const db = handleOf(new PGliteDialect({ pglite: lent }))
  await sql`select 1`.execute(db)
  return {
    db,
    url: null,
    close: async () => {
      await db.destroy()
      await takeBack(embedded)
    },
  }
}

async function openEmbedded(): Promise<Embedded> {
  const pglite = await PGlite.create({
    loadDataDir: await migratedSnapshot(),
    parsers: { [INT8]: readInt8, [TIMESTAMPTZ]: boundTime(parseIso) },
  })
  const { rows: tables } = await pglite.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public'`,
  )
  const statements: string[] = []
  for (const { name } of tables) {
    statements.push(`delete from "${name}";`)
    const { rows } = await pglite.query(`select from "${name}" limit 1`)
    if (rows.length === 0) continue
    await pglite.exec(`create schema if not exists seed; create table seed."${name}" as table "${name}"`)
    statements.push(`insert into "${name}" select * from seed."${name}";`)
  }
  return { pglite, schema: await schemaOf(pglite), empty: statements.join(' ') }
}

/** A database whose schema a test has changed, or that does not answer, is closed. */
async function takeBack(embedded: Embedded): Promise<void> {
  const { pglite, schema, empty } = embedded
  try {
    await pglite.exec(`rollback; ${empty} reset all`)
    if ((await schemaOf(pglite)) === schema) return void idle.push(embedded)
  } catch {
    // Closed below.
  }
  await pglite.close().catch(() => {})
}

const CATALOGS = ['pg_class', 'pg_attribute', 'pg_constraint', 'pg_proc', 'pg_trigger', 'pg_authid', 'pg_namespace']

/** Returns how many rows each catalog has and the youngest transaction that wrote one: any change of the schema changes it. */
async function schemaOf(pglite: PGlite): Promise<string> {
  const parts = CATALOGS.map((name) => `select '${name}' as name, count(*), max(xmin::text::bigint) from ${name}`)
  const { rows } = await pglite.query(parts.join(' union all '))
  return JSON.stringify(rows, (_key, value) => (typeof value === 'bigint' ? String(value) : value))
}

/** A fresh, empty PostgreSQL database and the way to drop it. */
export const emptyPostgres = (cluster: string): Promise<PostgresDatabase> => createPostgres(cluster, null)

/** A fresh, migrated PostgreSQL database, copied from one that was migrated once for each set of migrations. */
export const migratedPostgres = async (cluster: string): Promise<PostgresDatabase> =>
  createPostgres(cluster, await migratedTemplate(cluster))

export type PostgresDatabase = { url: string; drop(): Promise<void> }

async function createPostgres(cluster: string, template: string | null): Promise<PostgresDatabase> {
  const name = `chatelaine_${randomBytes(6).toString('hex')}`
  const admin = await openPostgres({ url: cluster, pooler: testPooler, pool: 1, onError: () => {} })
  await sql.raw(`create database ${name}${template === null ? '' : ` template ${template}`}`).execute(admin)
  return {
    url: urlOf(cluster, name),
    drop: async () => {
      await sql.raw(`drop database if exists ${name} with (force)`).execute(admin)
      await admin.destroy()
    },
  }
}

/**
 * The name of the database that migrated ones are copied from: it is made once in a cluster for each set of migrations
 * and stays there. A copy takes a tenth of what migrating takes.
 */
function migratedTemplate(cluster: string): Promise<string> {
  const known = templates.get(cluster) ?? findTemplate(cluster)
  templates.set(cluster, known)
  return known
}

const templates = new Map<string, Promise<string>>()

async function findTemplate(cluster: string): Promise<string> {
  const name = `chatelaine_template_${(await digestOfMigrations()).slice(0, 16)}`
  const admin = await openPostgres({ url: cluster, pooler: testPooler, pool: 1, onError: () => {} })
  try {
    const { rows } = await sql`select from pg_database where datname = ${name}`.execute(admin)
    if (rows.length === 0) await makeTemplate(cluster, admin, name)
  } finally {
    await admin.destroy()
  }
  return name
}

async function makeTemplate(cluster: string, admin: RootDb, name: string): Promise<void> {
  const part = `chatelaine_part_${randomBytes(6).toString('hex')}`
  await sql.raw(`create database ${part}`).execute(admin)
  try {
    const db = await openPostgres({ url: urlOf(cluster, part), pooler: testPooler, pool: 1, onError: () => {} })
    await migrate(db).finally(() => db.destroy())
    // Only what nobody is connected to can be copied or renamed, and PgBouncer keeps connections for a while.
    await sql.raw(`alter database ${part} with allow_connections false`).execute(admin)
    await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${part}`.execute(admin)
    // Test files run side by side: made apart, then named whole.
    await sql.raw(`alter database ${part} rename to ${name}`).execute(admin)
  } catch (error) {
    await sql.raw(`drop database if exists ${part} with (force)`).execute(admin)
    if (sqlState(error) !== DUPLICATE_DATABASE) throw error
  }
}

const DUPLICATE_DATABASE = '42P04'

function urlOf(cluster: string, database: string): string {
  const url = new URL(cluster)
  url.pathname = `/${database}`
  return url.href
}

async function onPostgres(cluster: string): Promise<TestDatabase> {
  const { url, drop } = await migratedPostgres(cluster)
  const db = await openPostgres({ url, pooler: testPooler, pool: 8, onError: () => {} })
  return {
    db,
    url,
    close: async () => {
      await db.destroy()
      await drop()
    },
  }
}

/**
 * Puts a migrated embedded database, shut down in order, into a folder that is not there yet.
 */
export async function migratedFolder(dir: string): Promise<void> {
  unpackTemplate(await template(), dir)
}

/** A migrated database, for `openEmbedded` in memory. */
export const migratedSnapshot = async (): Promise<Blob> => tarOf(await template())

// Nine megabytes that every test of a file copies from.
let kept: Promise<Template> | undefined
const template = (): Promise<Template> => (kept ??= embeddedTemplate())
