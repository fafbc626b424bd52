import type pg from 'pg'
import { isAway, sqlState, unavailable, watch, type Absence } from './away.ts'
import { findPrimary, readHosts, takesWrites, type WritableHost, type Host, type Primary } from './hosts.ts'
import { prepareMarked } from './prepared.ts'
import { boundTime, TIMESTAMPTZ } from './read-time.ts'
import { systemClock, type Clock } from '../clock.ts'

/** milliseconds; the server ends a statement itself, where it can still be reached */
const STATEMENT_TIMEOUT_MS = 15_000
/** milliseconds after which a statement, COMMIT included, counts as unanswered and its connection is destroyed */
const DEADLINE_MS = 20_000
/** milliseconds to get a connection, a new one or one that others give back */
const CONNECT_MS = 5_000
const IDLE_MS = 30_000

export const INT8 = 20

export type PoolOptions = {
  /** connection string, of one server or several; never logged */
  url: string
  /** connections, at most */
  pool: number
  /** keeps marked statements parsed (`prepared.ts`); default: where no pooler may hand the next one to another connection */
  prepares?: boolean
  /** `transaction`: a pooler in between gives each transaction another connection, so nothing is set on one */
  pooler?: 'none' | 'transaction'
  deadlineMs?: number
  clock?: Clock
  /** called once when the database goes away, not of each failure */
  onError: (error: Error) => void
  onBack?: (absence: Absence) => void
  /** called with each failure of a database that is away, as it said it */
  onFailure?: (error: unknown) => void
  /** called for each connection that was lost, and of the first after none: what answers next may be an older database */
  onLost?: () => void
  /** called with how long each has waited for a connection, milliseconds */
  onWait?: (ms: number) => void
  /** called with the name of the server that takes writes, where there are several */
  onPrimary?: (name: string) => void
  /** called with the names of servers that all take writes, the one that is used first */
  onSecondPrimary?: (names: string) => void
  /** called with the names of servers that all take writes, of which none is used: which was promoted is unknown */
  onUndecided?: (names: string) => void
}

/** What Kysely uses of a pool. */
export type Pool = { connect(): Promise<pg.PoolClient>; end(): Promise<void>; options: object }

/** int8 holds block numbers, nonces, gas and chain ids only: all of them safe integers, or the row is damaged. */
export function readInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error('an int8 column holds an unsafe integer')
  return value
}

/**
 * Connections to PostgreSQL that are known to answer, or are no more: each statement has a deadline here too, because a
 * link that hangs says nothing, and a connection that was cut off, timed out, or answered that it takes no writes is
 * destroyed instead of being given back.
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
    // A pooler refuses what it does not know to restore between transactions: there they belong to the role.
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
  // An idle connection that ends is no failure: the next request opens another. Without a listener it ended the process.
  clients.on('error', () => {})

  /**
   * Begins a connection. Whom it leads to is written down now: while it connects another server may be promoted, and
   * then it still leads to the old one.
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

  /** Ends what still works on a server that is not used any more: what commits there would be confirmed and then be gone. */
  function leave(why: string): void {
    for (const client of lent) if (!isCurrent(client)) cut(client, why)
  }

  function isCurrent(client: pg.ClientBase): boolean {
    return generations.get(client) === primary.generation()
  }

  /** What every new connection goes through before it is used. */
  async function prepare(client: pg.ClientBase): Promise<void> {
    client.on('error', lost)
    if (clients.totalCount === 1) onLost()
    if (prepares) prepareMarked(client)
    setDeadline(client)
    if (mustTakeWrites && !(await takesWrites(client)))
      throw Object.assign(new Error('the server does not accept writes'), { code: '25006' })
    // Planned for each execution all the same: a plan that was made while a table was empty took any index, and 16 ms
    // a statement a thousand rows later. And nothing here runs long enough to be worth compiling.
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

  /** Of several servers the one that is the primary now; connections to an earlier one end here. */
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
        // Whatever it was, name, password or link: without a connection nothing is wrong with a request.
        throw failed(error)
      } finally {
        onWait(clock.ticks() - since)
      }
    },
    end: () => clients.end(),
    options: {},
  }
}

/** One server: whatever is in front of it, a balancer or a moved address, decides which that is. */
const only = (host: Host): Primary => {
  const found = Promise.resolve({ ...host, generation: 0 })
  return { find: () => found, forget: () => {}, generation: () => 0 }
}

/** Ends a connection immediately, with what waits for its answer. A polite end would wait for the one that does not answer. */
function cut(client: pg.ClientBase, why: string): void {
  const { connection } = client as unknown as { connection: pg.Connection }
  connection.stream.destroy(Object.assign(new Error(why), { code: 'ETIMEDOUT' }))
}
