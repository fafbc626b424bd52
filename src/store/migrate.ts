import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { sqlState } from './away.ts'
import type { RootDb } from './db.ts'

const FOLDER = new URL('../../migrations/', import.meta.url)

export type Migration = { number: number; name: string; text: string; sha256: string }

/** Reads the numbered SQL files, in order. */
export async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => /^\d{4}_\w+\.sql$/.test(name)).toSorted()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, FOLDER), 'utf8')
      return { number: Number(name.slice(0, 4)), name, text, sha256: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/**
 * Migrates the database, each migration in its own transaction. Replicas that start together wait for each other on the
 * primary key of the first row.
 * @param others  migrations instead of this program's, for tests
 * @throws Error  if an applied migration was changed since, or the database is newer than this program
 */
export async function migrate(db: RootDb, others?: readonly Migration[]): Promise<void> {
  await createLedger(db)
  const migrations = others ?? (await readMigrations())
  // One query at nearly every start, instead of a transaction per migration.
  const applied = await db.selectFrom('migrations').select(['number', 'sha256']).execute()
  const known = new Map(applied.map(({ number, sha256 }) => [number, sha256]))
  for (const migration of migrations) {
    const sha256 = known.get(migration.number)
    if (sha256 === undefined) await apply(db, migration)
    else assertSame(migration, sha256)
  }
  assertNotNewer(known, migrations)
}

/** How the migrations of a database differ from those of this program. */
type MigrationDifferences = {
  /** names of migrations that the database lacks */
  missing: string[]
  /** names of applied migrations that were changed since */
  changed: string[]
  /** newest migration of the database, if this program does not have it */
  newer: number | null
}

/** Compares the migrations of a database with those of this program. It writes nothing. */
export async function compareMigrations(db: RootDb): Promise<MigrationDifferences> {
  const migrations = await readMigrations()
  const { rows } = await sql<{ isThere: boolean }>`select to_regclass('migrations') is not null as "isThere"`.execute(
    db,
  )
  const applied = rows[0]!.isThere ? await db.selectFrom('migrations').select(['number', 'sha256']).execute() : []
  const known = new Map(applied.map(({ number, sha256 }) => [number, sha256]))
  const newest = Math.max(0, ...known.keys())
  return {
    missing: migrations.filter(({ number }) => !known.has(number)).map(({ name }) => name),
    changed: migrations
      .filter(({ number, sha256 }) => (known.get(number) ?? sha256) !== sha256)
      .map(({ name }) => name),
    newer: newest > migrations.at(-1)!.number ? newest : null,
  }
}

function assertNotNewer(known: ReadonlyMap<number, string>, migrations: readonly Migration[]): void {
  const newest = Math.max(...known.keys())
  if (newest > migrations.at(-1)!.number)
    throw new Error(
      `the database was created by a newer version: it has migration ${newest}, this program ends at ${migrations.at(-1)!.number}`,
    )
}

/**
 * Checks that the tables are as this version needs them, for a program whose role may not change tables.
 * @throws Error  naming the command that migrates them
 */
export async function assertMigrated(db: RootDb): Promise<void> {
  const applied = await db.selectFrom('migrations').select(['number', 'sha256']).execute()
  const known = new Map(applied.map(({ number, sha256 }) => [number, sha256]))
  const migrations = await readMigrations()
  for (const migration of migrations) {
    const sha256 = known.get(migration.number)
    if (sha256 === undefined)
      throw new Error(
        `the database lacks migration ${migration.name}: run chatelaine database roles as the owner of the tables`,
      )
    assertSame(migration, sha256)
  }
  assertNotNewer(known, migrations)
}

function assertSame({ name, sha256 }: Migration, applied: string): void {
  if (applied !== sha256) throw new Error(`migration ${name} was changed after it had been applied to this database`)
}

const LEDGER =
  'create table if not exists migrations (number int primary key, name text not null, sha256 text not null, applied_at timestamptz not null default now())'

/** Applies migrations inside an open transaction, to a database that no one else uses yet. */
export async function migrateWithin(
  query: (text: string, parameters?: unknown[]) => Promise<unknown>,
  migrations: readonly Migration[],
): Promise<void> {
  await query(LEDGER)
  for (const { number, name, sha256, text } of migrations) {
    await query('insert into migrations (number, name, sha256) values ($1, $2, $3)', [number, name, sha256])
    for (const statement of statementsOf(text)) await query(statement)
  }
}

/** Creates the table of applied migrations if it does not exist. */
export async function createLedger(db: RootDb): Promise<void> {
  try {
    await sql.raw(LEDGER).execute(db)
  } catch (error) {
    // "if not exists" is not atomic in PostgreSQL. If replicas create the table together, the loser gets one of these
    // errors. Which one depends on how far the winner was: the name in an index, the table, or the row type of the same
    // name.
    if (!['23505', '42P07', '42710'].includes(sqlState(error) ?? '')) throw error
  }
}

async function apply(root: RootDb, migration: Migration): Promise<void> {
  await root.transaction().execute(async (db) => {
    const { number, name, sha256 } = migration
    const mine = await db
      .insertInto('migrations')
      .values({ number, name, sha256 })
      .onConflict((on) => on.column('number').doNothing())
      .returning('number')
      .executeTakeFirst()
    if (mine === undefined) {
      const done = await db
        .selectFrom('migrations')
        .select('sha256')
        .where('number', '=', number)
        .executeTakeFirstOrThrow()
      assertSame(migration, done.sha256)
      return
    }
    for (const statement of statementsOf(migration.text)) await sql.raw(statement).execute(db)
  })
}

/** Splits a migration into statements. They end with a semicolon at the end of a line, outside of function bodies ($$). */
function statementsOf(text: string): string[] {
  const statements = ['']
  for (const [index, part] of text
    .replaceAll(/^\s*--.*$/gm, '')
    .split('$$')
    .entries()) {
    const [first = '', ...others] = index % 2 === 1 ? [`$$${part}$$`] : part.split(/;[ \t]*$/m)
    statements.push(`${statements.pop()}${first}`, ...others)
  }
  return statements.map((statement) => statement.trim()).filter((statement) => statement !== '')
}
