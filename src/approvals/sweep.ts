import { sql } from 'kysely'
import type { Db } from '../store/db.ts'

/**
 * Days for which an undecided question is stored after it expired. They are few, because an application can store up to 32 KiB with
 * each question. A repeat of the request creates a new question.
 */
const UNDECIDED_DAYS = 1
/** Days for which an approved question is stored, so that the user can read it later. The signature's own row is never deleted. */
const APPROVED_DAYS = 7

/**
 * Deletes old questions, except denied ones: a denial is final for its idempotency key. There are few, because a user made each
 * decision.
 * @returns the number of deleted questions
 */
export async function deleteOldApprovals(db: Db, limit: number): Promise<bigint> {
  const old = sql`select id from approvals
    where expires_at < now() - make_interval(days => ${UNDECIDED_DAYS})
      and (state = 'waiting' or (state = 'approved' and expires_at < now() - make_interval(days => ${APPROVED_DAYS}))) limit ${limit}`
  const { numAffectedRows } = await sql`delete from approvals where id in (${old})`.execute(db)
  return numAffectedRows ?? 0n
}
