import { Kysely, PGliteDialect, PostgresDialect, sql, type Transaction } from 'kysely'
import { AppError } from '../errors.ts'
import { prepareMarked } from './prepared.ts'
import type { Database } from './rows.ts'

/** A database handle: the whole database, or a transaction inside it. Inside a transaction it is called `db` too. */
export type Db = Kysely<Database> | Transaction<Database>
export type RootDb = Kysely<Database>

const INT8 = 20

/** int8 holds block numbers, nonces, gas and chain ids only: all of them safe integers, or the row is damaged. */
function readInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error('an int8 column holds an unsafe integer')
  return value
}

/**
 * Opens PostgreSQL.
 * @param url   connection string; never logged
 * @param pool  connections, at most
 * @param prepares  keeps marked statements parsed (`prepared.ts`); a pooler in between may hand the next one to another connection
 * @param onError  told of errors on idle or checked-out connections: a terminated backend emits one, and without a listener it would end the process
 */
export async function openPostgres({
  url,
  pool,
  prepares = true,
  onError,
}: {
  url: string
  pool: number
  prepares?: boolean
  onError: (error: Error) => void
}): Promise<RootDb> {
  const { default: pg } = await import('pg')
  const clients = new pg.Pool({
    connectionString: url,
    max: pool,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    statement_timeout: 15_000,
    idle_in_transaction_session_timeout: 30_000,
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
        oid === INT8 ? readInt8 : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
    },
  })
  clients.on('error', onError)
  clients.on('connect', (client) => {
    client.on('error', onError)
    if (!prepares) return
    prepareMarked(client)
    // Planned for each execution all the same: a plan that was made while a table was empty took any index, and 16 ms
    // a statement a thousand rows later. And nothing here runs long enough to be worth compiling.
    client.query('set plan_cache_mode = force_custom_plan; set jit = off').catch(onError)
  })
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: clients }) })
}

/**
 * Opens the embedded database in a folder, or in memory from a snapshot.
 * One connection: a query outside an open transaction waits for it, so every function takes its executor.
 */
export async function openEmbedded(place: { dir: string } | { snapshot: Blob }): Promise<RootDb> {
  const { PGlite } = await import('@electric-sql/pglite')
  const parsers = { [INT8]: readInt8 }
  const pglite =
    'dir' in place
      ? await PGlite.create({ dataDir: place.dir, parsers })
      : await PGlite.create({ loadDataDir: place.snapshot, parsers })
  const db = new Kysely<Database>({ dialect: new PGliteDialect({ pglite }) })
  // Kysely closes what it has used: a database destroyed before its first query would stay open and keep the process alive.
  await sql`select 1`.execute(db)
  return db
}

const RETRYABLE = new Set(['40001', '40P01'])
const AWAY = new Set([
  '57P01',
  '57P02',
  '57P03',
  '08000',
  '08003',
  '08006',
  '08001',
  '53300',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
])

/** The SQLSTATE or system code of a database error. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/**
 * Runs idempotent statements again after a serialisation failure or a deadlock (40001, 40P01), up to 5 times,
 * and turns a database that is away into one refusal. What a lost connection at COMMIT did is unknown: the caller
 * of a write repeats with its key and is told the truth.
 * @throws database_unavailable
 */
export async function retrying<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (RETRYABLE.has(sqlState(error) ?? '') && attempt < 5) continue
      throw mapDatabaseError(error)
    }
  }
}

/** Foreign database errors become ours here and nowhere else. */
export function mapDatabaseError(error: unknown): unknown {
  if (error instanceof AppError) return error
  const away =
    AWAY.has(sqlState(error) ?? '') ||
    (error instanceof Error &&
      /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/.test(
        error.message,
      ))
  return away
    ? new AppError('database_unavailable', 'The database does not answer. Repeat the request in a moment.', {
        cause: error,
        retryAfter: 2,
      })
    : error
}
