import { sql } from 'kysely'
import type { App } from '../app.ts'
import { cutPage, readPageCursor } from '../http/cursor.ts'
import { isId } from '../ids.ts'
import type { ApprovalContent } from '../store/column-values.ts'
import type { Db } from '../store/db.ts'
import { momentText } from '../store/read-time.ts'
import type { ApprovalState } from './wire.ts'

export type Clocked = Pick<App, 'db' | 'clock'>

export type { ApprovalState } from './wire.ts'

/** A question to a user. The page and the approval token contain nothing else. */
export type ApprovalQuestion = {
  id: string
  /** id of the signature or transaction that the request would make */
  intentId: string
  accountId: string
  clientId: string
  chainId: number
  content: ApprovalContent
  /** the signer's rule that asks */
  rule: string
  /** IP address of the request */
  askedFrom: string | null
  state: ApprovalState
  createdAt: Date
  expiresAt: Date
  decidedAt: Date | null
}

/** Returns a question; null if there is none with this id. The caller checks whose it is. */
export async function readApproval(app: Clocked, id: string): Promise<ApprovalQuestion | null> {
  if (!isId(id)) return null
  const row = await questions(app.db).where('approval.id', '=', id).executeTakeFirst()
  return row === undefined ? null : toQuestion(app, row)
}

/** maximum number of decided and expired questions in a list */
const LISTED = 50
/** maximum number of open questions in a list */
const MAX_WAITING = 200

/**
 * Returns a user's open questions (at most 200) and the last 50 questions, newest first. Uses the index (account, time).
 */
export async function listApprovals(app: Clocked, accountId: string): Promise<ApprovalQuestion[]> {
  const ofAccount = questions(app.db).where('approval.account_id', '=', accountId)
  const [waiting, last] = await Promise.all([
    ofAccount
      .where('approval.state', '=', 'waiting')
      .where('approval.expires_at', '>', new Date(app.clock.wall()))
      .orderBy('approval.created_at', 'desc')
      .limit(MAX_WAITING)
      .execute(),
    ofAccount.orderBy('approval.created_at', 'desc').limit(LISTED).execute(),
  ])
  const byId = new Map([...waiting, ...last].map((row) => [row.id, toQuestion(app, row)]))
  return [...byId.values()].toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
}

/** Returns the number of a user's open questions. Uses the index (account, time). */
export async function countWaiting({ db, clock }: Clocked, accountId: string): Promise<number> {
  const { waiting } = await db
    .selectFrom('approvals')
    .select((row) => row.fn.countAll<number>().as('waiting'))
    .where('account_id', '=', accountId)
    .where('state', '=', 'waiting')
    .where('expires_at', '>', new Date(clock.wall()))
    .executeTakeFirstOrThrow()
  return Number(waiting)
}

/**
 * Returns a page of a user's questions on a network, newest first. Uses the index (account, time).
 * @throws invalid_cursor
 */
export async function listAllApprovals(
  app: Clocked,
  { accountId, chainId }: { accountId: string; chainId: number },
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ entries: ApprovalQuestion[]; nextCursor: string | null }> {
  const [since, id] = cursor === undefined ? [null, null] : readPageCursor(cursor, ['string', 'string'])
  const rows = await questions(app.db)
    .select(momentText('created_at').as('since'))
    .where('approval.account_id', '=', accountId)
    .where('approval.chain_id', '=', chainId)
    .$if(since !== null, (query) => query.where(sql<boolean>`(created_at, id) < (${since}::timestamptz, ${id})`))
    .orderBy('approval.created_at', 'desc')
    .orderBy('approval.id', 'desc')
    .limit(limit + 1)
    .execute()
  const { page, nextCursor } = cutPage(rows, limit, (row) => [row.since, row.id])
  return { entries: page.map((row) => toQuestion(app, row)), nextCursor }
}

/** A decision; `token`: the approval token for the signer. */
export type UserDecision = { decision: 'approved'; token: string } | { decision: 'denied'; token: null }

/**
 * Stores a user's decision. It is one statement, so a question is decided once.
 * @returns true if the decision took effect; false if the question is another user's, was decided, or has expired
 */
export async function decide(
  { db, clock }: Clocked,
  { id, accountId, decision, token }: { id: string; accountId: string } & UserDecision,
): Promise<boolean> {
  const now = new Date(clock.wall())
  const { numUpdatedRows } = await db
    .updateTable('approvals')
    .set({ state: decision, token, decided_at: now })
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('state', '=', 'waiting')
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/**
 * Selects whether an intent is used: it has a signature, or a write with signed bytes. A cancellation that fills its nonce does not
 * count. Uses the primary keys, and the index of attempts by transaction.
 */
const IS_USED = sql<boolean>`exists (select 1 from signatures where id = approval.intent_id and signature is not null)
  or exists (select 1 from attempts where transaction_id = approval.intent_id and not is_cancel)
  or exists (select 1 from operations where id = approval.intent_id and state not in ('BOUND', 'VACANT'))`

const questions = (db: Db) =>
  db
    .selectFrom('approvals as approval')
    .select(['id', 'intent_id', 'account_id', 'client_id', 'chain_id', 'content', 'rule', 'asked_from', 'state'])
    .select(['created_at', 'expires_at', 'decided_at', IS_USED.as('is_used')])

type ApprovalRow = Awaited<ReturnType<ReturnType<typeof questions>['execute']>>[number]

const toQuestion = ({ clock }: Pick<App, 'clock'>, row: ApprovalRow): ApprovalQuestion => ({
  id: row.id,
  intentId: row.intent_id,
  accountId: row.account_id,
  clientId: row.client_id,
  chainId: row.chain_id,
  content: row.content,
  rule: row.rule,
  askedFrom: row.asked_from,
  state: stateOf(row, clock.wall()),
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  decidedAt: row.decided_at,
})

function stateOf({ state, is_used: isUsed, expires_at: expiresAt }: ApprovalRow, now: number): ApprovalState {
  if (state === 'waiting') return expiresAt.getTime() > now ? 'waiting' : 'expired'
  return state === 'approved' && isUsed ? 'used' : state
}
