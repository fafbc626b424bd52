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

/** A database handle: the whole database, or an open transaction. Inside a transaction, the handle is called `db` as well. */
export type Db = Kysely<Database> | Transaction<Database>
export type RootDb = Kysely<Database>

/** Opens PostgreSQL with the options of `pool.ts`. @throws Error  DATABASE_URL cannot be read */
export async function openPostgres(options: PoolOptions): Promise<RootDb> {
  const pool = await openPool(options)
  return handleOf(new PostgresDialect({ pool }))
}

/**
 * Opens the embedded database in a folder, or in memory from a snapshot. It has a single connection: a query outside an
 * open transaction waits until that ends. A transaction that awaits such a query would hang, so every function takes
 * its handle.
 */
export async function openEmbedded(place: { dir: string } | { snapshot: Blob }): Promise<RootDb> {
  const { PGlite } = await import('@electric-sql/pglite')
  const parsers = { [INT8]: readInt8, [TIMESTAMPTZ]: boundTime(parseIso) }
  const pglite =
    'dir' in place
      ? await PGlite.create({ dataDir: place.dir, parsers })
      : await PGlite.create({ loadDataDir: place.snapshot, parsers })
  const db = handleOf(new PGliteDialect({ pglite }))
  // Kysely closes only what it has used: if it were destroyed before its first query, the database would keep the
  // process alive.
  await sql`select 1`.execute(db)
  return db
}

const RETRYABLE = new Set(['40001', '40P01'])
const MAX_TRIES = 5
/** milliseconds, doubled with each try; randomized, so that two conflicting transactions do not retry together */
const BACK_OFF_MS = 10

/**
 * Creates a handle. A statement outside a transaction is retried after a serialization failure or a deadlock. If the
 * database is unavailable, it fails with `database_unavailable`. Statements inside a transaction are not retried: use
 * `retrying` for the whole transaction.
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
 * Retries an idempotent transaction after a serialization failure or a deadlock (40001, 40P01), up to 5 times within
 * 150 ms. If the connection is lost at COMMIT, the outcome is unknown: the client of a write learns it by a retry with
 * the same key.
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

/** Maps foreign database errors to ours. This happens only here and in `pool.ts`. */
export function mapDatabaseError(error: unknown): unknown {
  if (error instanceof AppError) return error
  return isAway(error) || RETRYABLE.has(sqlState(error) ?? '') ? unavailable(error) : error
}
