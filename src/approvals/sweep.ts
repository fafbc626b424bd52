import { sql } from 'kysely'
import type { Db } from '../store/db.ts'

/**
 * Days for which a question that nobody decided can be read after it expired. An application can store up to 32 KiB with each
 * question at no cost, and a repeat of the request creates a new question.
 */
const UNDECIDED_DAYS = 1
/** Days for an approved one: the user can look back over a week. The signature has a row of its own, which is never deleted. */
const APPROVED_DAYS = 7

/**
 * Deletes old questions, except those that were denied. A denial is final for its idempotency key, and a key of a
 * signature stands for one signature forever, so a denial has no end. Each costs a decision of a user, so they are few.
 * @returns how many it deleted
 */
export async function deleteOldApprovals(db: Db, limit: number): Promise<bigint> {
  const old = sql`select id from approvals
    where expires_at < now() - make_interval(days => ${UNDECIDED_DAYS})
      and (state = 'waiting' or (state = 'approved' and expires_at < now() - make_interval(days => ${APPROVED_DAYS}))) limit ${limit}`
  const { numAffectedRows } = await sql`delete from approvals where id in (${old})`.execute(db)
  return numAffectedRows ?? 0n
}
