import type pg from 'pg'
import { isAway, sqlState, unavailable, watch, type Absence } from './away.ts'
import { findPrimary, readHosts, takesWrites, type WritableHost, type Host, type Primary } from './hosts.ts'
import { prepareMarked } from './prepared.ts'
import { boundTime, TIMESTAMPTZ } from './read-time.ts'
import { systemClock, type Clock } from '../clock.ts'

/** milliseconds after which the server ends a statement, if it can be reached */
const STATEMENT_TIMEOUT_MS = 15_000
/**
 * milliseconds without a response after which a connection is destroyed; applies to every statement, COMMIT included
 */
const DEADLINE_MS = 20_000
/** milliseconds to wait for a connection, new or returned */
const CONNECT_MS = 5_000
const IDLE_MS = 30_000

export const INT8 = 20

export type PoolOptions = {
  /** connection string of one server or several; secret, never logged */
  url: string
  /** maximum number of connections */
  pool: number
  /**
   * prepares marked statements (`prepared.ts`); default: true, except behind a pooler that may run each statement on
   * another connection
   */
  prepares?: boolean
  /** `transaction`: a pooler gives each transaction another connection, so no session settings are made */
  pooler?: 'none' | 'transaction'
  deadlineMs?: number
  clock?: Clock
  /** called once when the database becomes unavailable, not for each failure */
  onError: (error: Error) => void
  onBack?: (absence: Absence) => void
  /** called for each failure of an unavailable database, with the original error */
  onFailure?: (error: unknown) => void
  /**
   * called for each lost connection, and for the first connection after an outage: the database that responds next may
   * be older
   */
  onLost?: () => void
  /** called with the time that a request waited for a connection, milliseconds */
  onWait?: (ms: number) => void
  /** called with the name of the primary, if there are several servers */
  onPrimary?: (name: string) => void
  /** called with the names of servers that all take writes; the first one is used */
  onSecondPrimary?: (names: string) => void
  /**
   * called with the names of servers that all take writes; none is used, because it is unknown which was promoted last
   */
  onUndecided?: (names: string) => void
}

/** The part of a pool that Kysely uses. */
export type Pool = { connect(): Promise<pg.PoolClient>; end(): Promise<void>; options: object }

/**
 * Parses an int8: block numbers, nonces, gas and chain ids.
 * @throws Error if it is not a safe integer: the row is damaged
 */
export function readInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error('an int8 column holds an unsafe integer')
  return value
}

/**
 * Opens a pool whose connections respond or are destroyed. Each statement has a deadline on this side too, because a
 * link that hangs reports nothing. A connection that was cut, timed out, or takes no writes is destroyed when it is
 * returned.
 * @throws Error  DATABASE_URL cannot be read
 */
export async function openPool(options: PoolOptions): Promise<Pool> {
  const { url, pool: max, pooler = 'none', prepares = pooler === 'none', deadlineMs = DEADLINE_MS } = options
  const { clock = systemClock, onError, onBack = () => {}, onFailure = () => {} } = options
  const { onLost = () => {}, onWait = () => {} } = options
  const { default: pg } = await import('pg')
  const { list, mustTakeWrites } = readHosts(url)
  const primary = list.length > 1 ? findPrimary(clock, list, { onChange, onSecond, onUndecided }) : only(list[0]!)
  const seen = watch({ ticks: clock.ticks, onAway: onError, onBack })
  const spent = new WeakSet<pg.ClientBase>()
  const generations = new WeakMap<pg.ClientBase, number>()
  const lent = new Set<pg.ClientBase>()
  let target: WritableHost = { ...list[0]!, generation: primary.generation() }

  const readTime = boundTime(pg.types.getTypeParser(TIMESTAMPTZ))
  const clients = new pg.Pool({
    Client: begin as unknown as new () => pg.Client,
    max,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    // A pooler rejects session settings that it cannot restore between transactions; there they must be set on the
    // role.
    ...(pooler === 'none'
      ? { statement_timeout: STATEMENT_TIMEOUT_MS, idle_in_transaction_session_timeout: 30_000 }
      : {}),
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
        oid === INT8
          ? readInt8
          : oid === TIMESTAMPTZ
            ? readTime
            : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
    },
    onConnect: prepare,
  })
  // An idle connection that ends is not a failure: the next request opens another. Without a listener, the error ends
  // the process.
  clients.on('error', () => {})

  /**
   * Begins a connection. Records its generation now: if another server is promoted during the connect, this connection
   * leads to the old one.
   */
  function begin(config: pg.ClientConfig): pg.Client {
    const client = new pg.Client({ ...config, connectionString: target.url })
    generations.set(client, target.generation)
    return client
  }

  function lost(): void {
    primary.forget()
    onLost()
  }

  function onChange(name: string): void {
    options.onPrimary?.(name)
    leave('another server is the primary now')
    onLost()
  }

  function onSecond(names: string): void {
    options.onSecondPrimary?.(names)
  }

  function onUndecided(names: string): void {
    options.onUndecided?.(names)
    leave('which server is the primary is unknown')
  }

  /** Cuts connections in use to the former primary: a commit there would be confirmed and then lost. */
  function leave(why: string): void {
    for (const client of lent) if (!isCurrent(client)) cut(client, why)
  }

  function isCurrent(client: pg.ClientBase): boolean {
    return generations.get(client) === primary.generation()
  }

  /** Prepares every new connection before its first use. */
  async function prepare(client: pg.ClientBase): Promise<void> {
    client.on('error', lost)
    if (clients.totalCount === 1) onLost()
    if (prepares) prepareMarked(client)
    setDeadline(client)
    if (mustTakeWrites && !(await takesWrites(client)))
      throw Object.assign(new Error('the server does not accept writes'), { code: '25006' })
    // Plans each execution, also of prepared statements. A plan made while a table is empty uses the wrong index: a
    // thousand rows later it costs 16 ms per statement. No statement here runs long enough for JIT compilation to pay
    // off.
    if (pooler === 'none') await client.query('set plan_cache_mode = force_custom_plan; set jit = off')
  }

  function setDeadline(client: pg.ClientBase): void {
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>
    const late = () => cut(client, `no answer within ${deadlineMs / 1_000} s`)
    const timed = async (...args: unknown[]): Promise<unknown> => {
      const timer = clock.after(deadlineMs, late)
      try {
        const result = await query(...args)
        seen.answered()
        return result
      } catch (error) {
        if (!isAway(error)) throw error
        if (sqlState(error) !== '57014') giveUp(client)
        throw failed(error)
      } finally {
        timer.cancel()
      }
    }
    client.query = timed as typeof client.query
  }

  function giveUp(client: pg.ClientBase): void {
    spent.add(client)
    lost()
  }

  function failed(error: unknown): Error {
    seen.failed(error)
    onFailure(error)
    return unavailable(error)
  }

  function take(): Promise<pg.PoolClient> {
    return list.length === 1 ? clients.connect() : takeCurrent()
  }

  /** Returns a connection to the current primary, and closes connections to earlier ones. */
  async function takeCurrent(): Promise<pg.PoolClient> {
    for (;;) {
      target = await primary.find()
      const client = await clients.connect()
      if (isCurrent(client)) return client
      client.release(true)
    }
  }

  return {
    async connect() {
      const since = clock.ticks()
      try {
        const client = await take()
        const { release } = client
        lent.add(client)
        client.release = (why) => {
          lent.delete(client)
          release(why || spent.has(client) || !isCurrent(client))
        }
        return client
      } catch (error) {
        primary.forget()
        // Whatever the reason (name, password or link), the request itself is not at fault.
        throw failed(error)
      } finally {
        onWait(clock.ticks() - since)
      }
    },
    end: () => clients.end(),
    options: {},
  }
}

/** A single server. If a load balancer or a moving address is in front, that decides which server it is. */
const only = (host: Host): Primary => {
  const found = Promise.resolve({ ...host, generation: 0 })
  return { find: () => found, forget: () => {}, generation: () => 0 }
}

/** Ends a connection immediately, with all pending statements. A regular end would wait for their responses. */
function cut(client: pg.ClientBase, why: string): void {
  const { connection } = client as unknown as { connection: pg.Connection }
  connection.stream.destroy(Object.assign(new Error(why), { code: 'ETIMEDOUT' }))
}
