import type pg from 'pg'
import { isAway, unavailable } from './away.ts'
import { openPool } from './pool.ts'

export type TableColumns = { name: string; columns: string[] }

/** Copies whole tables out and in, within one transaction, as lines in the text format of COPY (PostgreSQL, COPY). */
export type CopySession = {
  query<Row>(text: string, parameters?: unknown[]): Promise<Row[]>
  /** yields a table's rows in pieces of whole lines, about 4 MiB each; returns the number of rows */
  copyOut(table: TableColumns): AsyncGenerator<Buffer, number>
  /** @param lines  whole lines @returns number of rows stored */
  copyIn(table: TableColumns, lines: Buffer): Promise<number>
}

/** `snapshot`: reads what was committed at its beginning, and blocks nobody. `write`: commits everything or nothing. */
export type CopyAccess = 'snapshot' | 'write'

/** Location of a database: PostgreSQL at a connection string, or the embedded one in a folder. */
export type DatabasePlace = { url: string; pooler: 'none' | 'transaction' } | { dir: string }

const BEGIN: Record<CopyAccess, string> = {
  snapshot: 'begin transaction isolation level repeatable read, read only',
  write: 'begin',
}

/** Settings for this transaction only: both databases write the same text for a value, and no time-out ends it. */
const SETTINGS = [
  ...["timezone = 'UTC'", "datestyle = 'ISO, MDY'", "intervalstyle = 'postgres'", "bytea_output = 'hex'"],
  ...['extra_float_digits = 1', 'statement_timeout = 0', 'idle_in_transaction_session_timeout = 0'],
]

/** Restoring builds indexes of millions of rows; the default is 64 MB. */
const INDEX_MEMORY = "maintenance_work_mem = '256MB'"

/** bytes of lines in one piece */
const PIECE_BYTES = 4 * 1_048_576
/** milliseconds; building the index of a large table takes minutes */
const DEADLINE_MS = 86_400_000
/** pages of 8 KiB per statement: the embedded database returns the whole result in one buffer */
const PAGES = 256

/**
 * Works in one transaction on a separate connection. An error rolls everything back.
 * @throws Error  DATABASE_URL cannot be read
 * @throws database_unavailable
 */
export async function withCopySession<T>(
  place: DatabasePlace,
  access: CopyAccess,
  work: (session: CopySession) => Promise<T>,
): Promise<T> {
  const { session, close } = 'dir' in place ? await openEmbeddedSession(place.dir) : await openPostgresSession(place)
  try {
    await session.query(BEGIN[access])
    try {
      for (const setting of SETTINGS) await session.query(`set local ${setting}`)
      if (access === 'write' && 'url' in place) await session.query(`set local ${INDEX_MEMORY}`)
      const result = await work(session)
      await session.query('commit')
      return result
    } catch (error) {
      // A lost connection has rolled back already.
      await session.query('rollback').catch(() => {})
      throw error
    }
  } finally {
    await close()
  }
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
const listOf = (columns: string[]): string => columns.map(quoted).join(', ')

type OpenSession = { session: CopySession; close(): Promise<void> }

async function openEmbeddedSession(dir: string): Promise<OpenSession> {
  const { PGlite } = await import('@electric-sql/pglite')
  const pglite = await PGlite.create({ dataDir: dir })
  async function query<Row>(text: string, parameters: unknown[] = []): Promise<Row[]> {
    return (await pglite.query<Row>(text, parameters)).rows
  }
  return {
    session: {
      query,
      async *copyOut({ name, columns }) {
        const [size] = await query<{ pages: number }>(`select pg_relation_size('${quoted(name)}'::regclass) / current_setting('block_size')::int as pages`) // prettier-ignore
        let rows = 0
        for (let page = 0; page < Number(size!.pages); page += PAGES) {
          const { blob, affectedRows = 0 } = await pglite.query(
            `copy (select ${listOf(columns)} from ${quoted(name)} where ctid >= '(${page},0)' and ctid < '(${page + PAGES},0)') to '/dev/blob'`,
          )
          rows += affectedRows
          if (affectedRows > 0) yield Buffer.from(await blob!.arrayBuffer())
        }
        return rows
      },
      async copyIn({ name, columns }, lines) {
        const text = `copy ${quoted(name)} (${listOf(columns)}) from '/dev/blob'`
        const { affectedRows = 0 } = await pglite.query(text, [], { blob: new Blob([Uint8Array.from(lines)]) })
        return affectedRows
      },
    },
    close: () => pglite.close(),
  }
}

async function openPostgresSession(place: { url: string; pooler: 'none' | 'transaction' }): Promise<OpenSession> {
  const pool = await openPool({ ...place, pool: 1, prepares: false, deadlineMs: DEADLINE_MS, onError: () => {} })
  const client = await pool.connect().catch(async (error: unknown) => {
    await pool.end()
    throw error
  })
  return {
    session: {
      query: async <Row>(text: string, parameters: unknown[] = []) =>
        (await client.query(text, parameters)).rows as Row[],
      copyOut: ({ name, columns }) =>
        copyOut(client, `copy (select ${listOf(columns)} from ${quoted(name)}) to stdout`),
      copyIn: ({ name, columns }, lines) =>
        copyIn(client, `copy ${quoted(name)} (${listOf(columns)}) from stdin`, lines),
    },
    close: async () => {
      client.release(true)
      await pool.end()
    },
  }
}

/**
 * The interface that node-postgres requires of a query that uses the copy protocol.
 * Source: its lib/client.js; PostgreSQL, COPY Operations
 */
type Copying = {
  submit(connection: pg.Connection): void
  handleCopyInResponse(connection: pg.Connection): void
  handleCopyData(message: { chunk: Buffer }, connection: pg.Connection): void
  handleCommandComplete(message: { text: string }): void
  handleReadyForQuery(): void
  handleError(error: Error): void
}
type CopyConnection = pg.Connection & {
  query(text: string): void
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

const rowsOf = ({ text }: { text: string }): number => Number(/^COPY (\d+)$/.exec(text)?.[1] ?? 0)
const mapped = (error: Error): Error => (isAway(error) ? unavailable(error) : error)
const start = (client: pg.PoolClient, copying: Copying): void => void client.query(copying as unknown as pg.Submittable)

/**
 * Reads the connection no faster than the rows are used. At most one piece waits in memory, beside the socket's buffer.
 */
async function* copyOut(client: pg.PoolClient, text: string): AsyncGenerator<Buffer, number> {
  let piece = Buffer.allocUnsafe(PIECE_BYTES)
  let length = 0
  let rows = 0
  let end: { error: Error | null } | null = null
  let wake = () => {}
  const { connection } = client as unknown as { connection: pg.Connection }

  start(client, {
    submit: (to) => (to as CopyConnection).query(text),
    handleCopyInResponse: () => {},
    handleCopyData({ chunk }) {
      if (length + chunk.length > piece.length) {
        const larger = Buffer.allocUnsafe(Math.max(2 * piece.length, length + chunk.length))
        piece.copy(larger, 0, 0, length)
        piece = larger
      }
      // Copy at once, because the connection reuses the chunk's memory.
      length += chunk.copy(piece, length)
      if (length < PIECE_BYTES) return
      connection.stream.pause()
      wake()
    },
    handleCommandComplete(message) {
      rows = rowsOf(message)
    },
    handleReadyForQuery() {
      end = { error: null }
      wake()
    },
    handleError(error) {
      end = { error: mapped(error) }
      wake()
    },
  })

  try {
    for (;;) {
      if (end === null && length < PIECE_BYTES) await new Promise<void>((resolve) => (wake = resolve))
      const ended = end as { error: Error | null } | null
      if (ended?.error) throw ended.error
      if (length > 0) {
        // Each message is one row (PostgreSQL, COPY Operations), so a piece ends with a whole row.
        const lines = piece.subarray(0, length)
        piece = Buffer.allocUnsafe(PIECE_BYTES)
        length = 0
        yield lines
      }
      if (ended !== null) return rows
      connection.stream.resume()
    }
  } finally {
    // The remaining rows are not read, so the connection cannot be used again.
    if (end === null) connection.stream.destroy()
  }
}

const SENT_BYTES = 262_144

function copyIn(client: pg.PoolClient, text: string, lines: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    let rows = 0
    start(client, {
      submit: (to) => (to as CopyConnection).query(text),
      handleCopyInResponse(to) {
        for (let at = 0; at < lines.length; at += SENT_BYTES)
          (to as CopyConnection).sendCopyFromChunk(lines.subarray(at, at + SENT_BYTES))
        ;(to as CopyConnection).endCopyFrom()
      },
      handleCopyData: () => {},
      handleCommandComplete(message) {
        rows = rowsOf(message)
      },
      handleReadyForQuery: () => resolve(rows),
      handleError: (error) => reject(mapped(error)),
    })
  })
}
