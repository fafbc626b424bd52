/**
 * store: PostgreSQL or the embedded database as one handle.
 * Owns: connections and failover between hosts, retries, migrations, the types of all rows (`rows.ts`).
 * Does not own: queries. SQL is in the verb that needs it.
 * Tables: migrations.
 */

import {
  Kysely,
  PGliteDialect,
  PostgresDialect,
  sql,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  type Transaction,
} from 'kysely'
import { AppError } from '../errors.ts'
import { isAway, sqlState, unavailable } from './away.ts'
import { INT8, openPool, readInt8, type PoolOptions } from './pool.ts'
import { boundTime, parseIso, TIMESTAMPTZ } from './read-time.ts'
import type { Database } from './rows.ts'
import { systemClock } from '../clock.ts'

/** A database handle: the whole database, or a transaction inside it. Inside a transaction it is called `db` too. */
export type Db = Kysely<Database> | Transaction<Database>
export type RootDb = Kysely<Database>

/** Opens PostgreSQL: `pool.ts` has the options. @throws Error  DATABASE_URL cannot be read */
export async function openPostgres(options: PoolOptions): Promise<RootDb> {
  const pool = await openPool(options)
  return handleOf(new PostgresDialect({ pool }))
}

/**
 * Opens the embedded database in a folder, or in memory from a snapshot.
 * One connection: a query outside an open transaction waits for it, so every function takes its executor.
 */
export async function openEmbedded(place: { dir: string } | { snapshot: Blob }): Promise<RootDb> {
  const { PGlite } = await import('@electric-sql/pglite')
  const parsers = { [INT8]: readInt8, [TIMESTAMPTZ]: boundTime(parseIso) }
  const pglite =
    'dir' in place
      ? await PGlite.create({ dataDir: place.dir, parsers })
      : await PGlite.create({ loadDataDir: place.snapshot, parsers })
  const db = handleOf(new PGliteDialect({ pglite }))
  // Kysely closes what it has used: a database destroyed before its first query would stay open and keep the process alive.
  await sql`select 1`.execute(db)
  return db
}

const RETRYABLE = new Set(['40001', '40P01'])
const MAX_TRIES = 5
/** milliseconds, doubled with each try; of two that got in each other's way, chance lets one go first */
const BACK_OFF_MS = 10

/**
 * A handle on a database. A statement outside a transaction runs again after a serialisation failure or a deadlock, and a
 * database that is away is one refusal, `database_unavailable`. Statements of a transaction fail as they fail: `retrying`
 * runs the transaction again.
 */
export const handleOf = (dialect: Dialect): RootDb =>
  new Kysely<Database>({
    dialect: {
      createDriver: () => retryingDriver(dialect.createDriver()),
      createQueryCompiler: () => dialect.createQueryCompiler(),
      createAdapter: () => dialect.createAdapter(),
      createIntrospector: (db) => dialect.createIntrospector(db),
    },
  })

class RetryingConnection implements DatabaseConnection {
  readonly inner: DatabaseConnection
  isInTransaction = false
  constructor(inner: DatabaseConnection) {
    this.inner = inner
  }
  executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const execute = () => this.inner.executeQuery<R>(query)
    return this.isInTransaction ? execute() : retrying(execute)
  }
  streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<R>> {
    return this.inner.streamQuery<R>(query, chunkSize)
  }
}

function retryingDriver(driver: Driver): Driver {
  const innerOf = (connection: DatabaseConnection) => (connection as RetryingConnection).inner
  const ends = (connection: DatabaseConnection) => () =>
    void ((connection as RetryingConnection).isInTransaction = false)
  return {
    init: () => driver.init(),
    destroy: () => driver.destroy(),
    acquireConnection: () =>
      driver.acquireConnection().then(
        (connection) => new RetryingConnection(connection),
        (error: unknown) => Promise.reject(mapDatabaseError(error)),
      ),
    releaseConnection: (connection) => driver.releaseConnection(innerOf(connection)),
    beginTransaction(connection, settings) {
      ;(connection as RetryingConnection).isInTransaction = true
      return driver.beginTransaction(innerOf(connection), settings)
    },
    commitTransaction: (connection) => driver.commitTransaction(innerOf(connection)).finally(ends(connection)),
    rollbackTransaction: (connection) => driver.rollbackTransaction(innerOf(connection)).finally(ends(connection)),
  }
}

/**
 * Runs an idempotent transaction again after a serialisation failure or a deadlock (40001, 40P01), up to 5 times within
 * 150 ms, and turns a database that is away into one refusal. What a lost connection at COMMIT did is unknown: the
 * caller of a write repeats with its key and gets the truth.
 * @throws database_unavailable
 */
export async function retrying<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!RETRYABLE.has(sqlState(error) ?? '') || attempt === MAX_TRIES) throw mapDatabaseError(error)
      await systemClock.sleep(Math.random() * BACK_OFF_MS * 2 ** (attempt - 1))
    }
  }
}

/** Foreign database errors become ours here and in `pool.ts`, nowhere else. */
export function mapDatabaseError(error: unknown): unknown {
  if (error instanceof AppError) return error
  return isAway(error) || RETRYABLE.has(sqlState(error) ?? '') ? unavailable(error) : error
}
