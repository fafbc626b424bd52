import { sql } from 'kysely'
import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { factsOf } from '../signer-wire/client.ts'
import { slot } from '../state.ts'
import { hasFeed } from './read.ts'

/** What the application asked for. `reference`: its own text. */
type Denied = { request: 'write' | 'signature'; reference: string | null }

const HOUR_MS = 3_600_000
/** users and rules that a process remembers; a forgotten one costs one statement at its next denial */
const MAX_REMEMBERED = 10_000

/**
 * Hour in which this process last stored a denial of a user by a rule, milliseconds since 1970, and the number of
 * denials since.
 */
type Remembered = { hour: number; since: number }
const remembered = slot('denials by policies', (_app: App) => new BoundedMap<string, Remembered>(MAX_REMEMBERED))

/**
 * Runs a request, and notes it for the feed of its application if a rule of the signer denies it. A caller that repeats
 * denied requests causes at most one event and one row per user, rule and hour of the clock; the next event has the
 * number of denials since the last one. The response is the same if the denial cannot be stored.
 */
export async function notingDenial<T>(app: App, caller: Caller, asked: Denied, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError && error.code === 'policy_denied' && hasFeed(app, caller))
      await noteDenial(app, caller, asked, error)
    throw error
  }
}

async function noteDenial(app: App, caller: Caller, asked: Denied, error: AppError): Promise<void> {
  const { accountId, clientId, chainId } = caller
  const rule = factsOf(error).rule ?? ''
  const known = remembered.of(app)
  const key = JSON.stringify([clientId, accountId, rule])
  const hour = Math.floor(app.clock.wall() / HOUR_MS) * HOUR_MS
  const last = known.get(key)
  if (last?.hour === hour) {
    last.since++
    return
  }
  // Set before the statement, so that denials meanwhile only count.
  known.set(key, { hour, since: 0 })
  const count = 1 + (last?.since ?? 0)
  try {
    await sql`
      insert into denials as d (client_id, account_id, rule, chain_id, hour, request, reference, detail, count, since)
      values (${clientId}, ${accountId}::uuid, ${rule}, ${chainId}::bigint, ${new Date(hour)}, ${asked.request}, ${asked.reference}, ${error.message}, ${count}::bigint, 0)
      on conflict (client_id, account_id, rule) do update set
        chain_id = excluded.chain_id, hour = greatest(d.hour, excluded.hour),
        request = excluded.request, reference = excluded.reference, detail = excluded.detail,
        count = case when d.hour < excluded.hour then d.since + excluded.count else d.count end,
        since = case when d.hour < excluded.hour then 0 else d.since + excluded.count end`.execute(app.db)
  } catch (failure) {
    known.delete(key)
    app.telemetry.log.warn('denial_not_noted', { clientId, accountId, rule }, failure)
  }
}
