import { sql } from 'kysely'
import type { Db } from '../store/db.ts'

/** days for which a question can be read after it expired */
const KEPT_DAYS = 30

/**
 * Deletes old questions, except those that were denied. A denial is final for its idempotency key, and a key of a
 * signature stands for one signature forever, so a denial has no end. Each costs a decision of a user, so they are few.
 * @returns how many it deleted
 */
export async function deleteOldApprovals(db: Db, limit: number): Promise<bigint> {
  const old = sql`select id from approvals
    where expires_at < now() - make_interval(days => ${KEPT_DAYS}) and state <> 'denied' limit ${limit}`
  const { numAffectedRows } = await sql`delete from approvals where id in (${old})`.execute(db)
  return numAffectedRows ?? 0n
}
