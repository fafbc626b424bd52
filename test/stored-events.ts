import { sql } from 'kysely'
import type { Db } from '../src/store/db.ts'
import { until } from './kit/until.ts'

/**
 * Adds events to the end of a feed, as the sequencer does: `transaction.mined`, numbered by `data.id` (`tx_7`).
 * @param from   number of the first one
 * @param bytes  length of a text in the data of each
 */
export async function storeEvents(
  db: Db,
  { clientId, accountId = null, from, count, bytes = 0 }: { clientId: string; accountId?: string | null; from: number; count: number; bytes?: number }, // prettier-ignore
): Promise<void> {
  // One statement: a reader finds an event when its feed ends after it.
  await sql`
    with feed as (
      insert into feeds (client_id, seq) values (${clientId}, ${count}::bigint)
      on conflict (client_id) do update set seq = feeds.seq + ${count}::bigint returning seq
    )
    insert into events (client_id, seq, id, type, subject, account_id, chain_id, is_own, data, at)
    select ${clientId}, feed.seq - ${count}::bigint + n, gen_random_uuid(), 'transaction.mined', 'transaction:' || n, ${accountId}::uuid, 31337, false,
      jsonb_build_object('id', 'tx_' || (${from}::bigint + n - 1), 'text', repeat('x', ${bytes}::int)), now()
    from feed, generate_series(1, ${count}::int) as n`.execute(db)
}

/** Waits until all changes so far are events: signing in is one, and its event could arrive where a test looks for another. */
export const untilNumbered = (db: Db, withinMs?: number): Promise<true> =>
  until('all changes have numbers', async () => (await sql`select from facts limit 1`.execute(db)).rows.length === 0, withinMs) // prettier-ignore
