import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every, type Rounds } from '../clock.ts'
import type { Db } from '../store/db.ts'

/** Days for which an unsigned request is stored: as long as an undecided question. */
const KEPT_DAYS = 1
const EVERY_MS = 3_600_000
/** maximum number of rows that one statement deletes */
const BATCH = 2_000

/**
 * Deletes unsigned requests. If the signer's ledger has a signature for one of them, a repeat with the same key restores the row with
 * that signature.
 */
export function startUnsignedSweep({ db, clock, telemetry }: Pick<App, 'db' | 'clock' | 'telemetry'>): Rounds {
  return every(clock, EVERY_MS, () =>
    deleteUnsigned(db).catch((error: unknown) => telemetry.log.warn('unsigned_messages_not_deleted', {}, error)),
  )
}

/** Deletes one batch. */
export async function deleteUnsigned(db: Db): Promise<void> {
  const old = sql`select id from signatures
    where signature is null and created_at < now() - make_interval(days => ${KEPT_DAYS}) limit ${BATCH}`
  await sql`delete from signatures where id in (${old})`.execute(db)
}
