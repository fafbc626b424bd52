import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every, type Rounds } from '../clock.ts'
import { retrying, type RootDb } from '../store/db.ts'

/** milliseconds between two rounds; each round deletes everything that is due */
const EVERY_MS = 60_000
/** events per database transaction */
const BATCH = 2_000

/** Deletes events that are older than EVENTS_DAYS, and what is stored so that they do not repeat. */
export function startEventSweep(app: Pick<App, 'clock' | 'db' | 'telemetry' | 'config'>): Rounds {
  return every(app.clock, EVERY_MS, async () => {
    try {
      const feeds = await app.db.selectFrom('feeds').select('client_id').execute()
      for (const { client_id: clientId } of feeds)
        while ((await deleteOldEvents(app.db, clientId, app.config.EVENTS_DAYS)) === BATCH);
      await deleteOldStates(app.db, app.config.EVENTS_DAYS)
    } catch (error) {
      app.telemetry.log.warn('events_not_deleted', {}, error)
    }
  })
}

/**
 * Deletes the oldest events of a feed, and stores up to which. A reader with an earlier cursor gets `cursor_expired`.
 * @returns the number of deleted events, at most 2,000
 */
export async function deleteOldEvents(root: RootDb, clientId: string, days: number): Promise<number> {
  return retrying(() =>
    root.transaction().execute(async (db) => {
      const { rows } = await sql<{ seq: number }>`
        select seq from feeds where client_id = ${clientId} for update`.execute(db)
      if (rows.length === 0) return 0
      const { rows: gone } = await sql<{ seq: number }>`
        delete from events where client_id = ${clientId} and seq in (
          select seq from (select seq, at from events where client_id = ${clientId} order by seq limit ${BATCH}::int) as oldest
          where at < now() - make_interval(days => ${days}::int))
        returning seq`.execute(db)
      if (gone.length === 0) return 0
      const through = gone.reduce((most, { seq }) => Math.max(most, seq), 0)
      await sql`update feeds set trimmed = greatest(trimmed, ${through}::bigint) where client_id = ${clientId}`.execute(
        db,
      )
      return gone.length
    }),
  )
}

/** Deletes one batch of denials and low balances each, without an event for so many days. Uses their indexes of times. */
export async function deleteOldStates(db: RootDb, days: number): Promise<void> {
  const before = sql`now() - make_interval(days => ${days}::int)`
  await sql`delete from denials where (client_id, account_id, rule) in (
    select client_id, account_id, rule from denials where hour < ${before} limit ${BATCH}::int)`.execute(db)
  await sql`delete from low_balances where (client_id, account_id, kind) in (
    select client_id, account_id, kind from low_balances where at < ${before} limit ${BATCH}::int)`.execute(db)
}
