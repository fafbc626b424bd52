import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every, type Rounds } from '../clock.ts'
import type { Db } from '../store/db.ts'
import type { Clocked } from './decide.ts'

/** milliseconds between two rounds: the longest that an event follows the expiry */
const EVERY_MS = 5_000
/** maximum number of rows that one statement changes */
const BATCH = 2_000

/**
 * Days for which an undecided question is stored after it expired. They are few, because an application can store up to 32 KiB with
 * each question. A repeat of the request creates a new question.
 */
const UNDECIDED_DAYS = 1
/** Days for which an approved question is stored, so that the user can read it later. The signature's own row is never deleted. */
const APPROVED_DAYS = 7

/** Expires questions that their users did not answer in time, and deletes old ones. Any number of replicas may run it. */
export function startApprovalSweep(app: Pick<App, 'db' | 'clock' | 'telemetry'>): Rounds {
  return every(app.clock, EVERY_MS, async () => {
    try {
      await expireApprovals(app)
      await deleteOldApprovals(app.db, BATCH)
    } catch (error) {
      app.telemetry.log.warn('approvals_not_swept', {}, error)
    }
  })
}

/**
 * Stores that questions have expired, which is an event. A question that is answered at the same time is either answered or expired:
 * both statements change it only while it waits. Uses the index of waiting questions.
 */
export async function expireApprovals({ db, clock }: Clocked): Promise<void> {
  const due = sql`select id from approvals where state = 'waiting' and expires_at <= ${new Date(clock.wall())}
    order by expires_at limit ${BATCH} for update skip locked`
  await sql`update approvals set state = 'expired' where state = 'waiting' and id in (${due})`.execute(db)
}

/**
 * Deletes old questions, except denied ones: a denial is final for its idempotency key. There are few, because a user made each
 * decision. A waiting one expires first, so that its expiry has an event.
 * @returns the number of deleted questions
 */
export async function deleteOldApprovals(db: Db, limit: number): Promise<bigint> {
  const old = sql`select id from approvals
    where expires_at < now() - make_interval(days => ${UNDECIDED_DAYS})
      and (state = 'expired' or (state = 'approved' and expires_at < now() - make_interval(days => ${APPROVED_DAYS}))) limit ${limit}`
  const { numAffectedRows } = await sql`delete from approvals where id in (${old})`.execute(db)
  return numAffectedRows ?? 0n
}
