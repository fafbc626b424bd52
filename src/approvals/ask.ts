import { isDeepStrictEqual } from 'node:util'
import type { App } from '../app.ts'
import { AppError, type ApprovalLink } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { keyReused } from '../http/idempotency-key.ts'
import { approvalIdOf } from '../ids.ts'
import type { ApprovalContent } from '../store/column-values.ts'
import type { Db } from '../store/db.ts'
import type { Clocked } from './decide.ts'

/** minutes that a question waits for its user */
const OPEN_MINUTES = 30

/** seconds for which the signer accepts an approval token: long enough for one repeat of the request */
export const APPROVAL_TOKEN_SECONDS = 60

export type NewQuestion = {
  caller: Pick<Caller, 'accountId' | 'clientId' | 'chainId'>
  /** id of the signature or transaction that the request would make */
  intentId: string
  content: ApprovalContent
  /** the signer's rule that asks */
  rule: string
  /** IP address of the request */
  askedFrom: string | null
}

/**
 * Asks the user to approve a request, and returns the page where the user decides. An intent has one open question:
 * asking again, also concurrently, returns the same one.
 * @throws approval_denied  if the user denied this intent, however long ago
 */
export async function askApproval(
  app: Clocked & Pick<App, 'authOrigin'>,
  { caller, intentId, content, rule, askedFrom }: NewQuestion,
): Promise<ApprovalLink> {
  const newest = await newestOf(app.db, intentId)
  if (newest?.state === 'denied') throw denied()
  const isOpen = newest !== null && (isWaiting(app, newest) || shownToken(app, newest) !== null)
  if (isOpen) return linkTo(app, newest)
  const now = app.clock.wall()
  const asked = { id: approvalIdOf(intentId, newest?.id ?? null), expires_at: new Date(now + OPEN_MINUTES * 60_000) }
  const made = await app.db
    .insertInto('approvals')
    .values({
      ...asked,
      intent_id: intentId,
      account_id: caller.accountId,
      client_id: caller.clientId,
      chain_id: caller.chainId,
      content: JSON.stringify(content),
      rule,
      asked_from: askedFrom,
      state: 'waiting',
      created_at: new Date(now),
    })
    .onConflict((on) => on.doNothing())
    .returning(['id', 'expires_at'])
    .executeTakeFirst()
  // A concurrent request has asked the same question, and its time counts.
  return linkTo(app, made ?? (await newestOf(app.db, intentId)) ?? asked)
}

/**
 * Returns the approval token to show the signer for an intent. Null: the user has not approved it, or approved it more
 * than a minute ago.
 * @throws approval_denied  if the user denied this intent
 * @throws idempotency_key_reused  if the user was asked about another content
 */
export async function shownApproval(app: Clocked, intentId: string, content: ApprovalContent): Promise<string | null> {
  const newest = await newestOf(app.db, intentId)
  if (newest === null) return null
  if (!isDeepStrictEqual(newest.content, content)) throw keyReused()
  if (newest.state === 'denied') throw denied()
  return shownToken(app, newest)
}

type Newest = NonNullable<Awaited<ReturnType<typeof newestOf>>>

/** Returns the newest question about an intent. Uses the index (intent, time). */
async function newestOf(db: Db, intentId: string) {
  const row = await db
    .selectFrom('approvals')
    .select(['id', 'state', 'content', 'token', 'expires_at', 'decided_at'])
    .where('intent_id', '=', intentId)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row ?? null
}

const isWaiting = ({ clock }: Clocked, { state, expires_at: expiresAt }: Newest): boolean =>
  state === 'waiting' && expiresAt.getTime() > clock.wall()

function shownToken({ clock }: Clocked, { state, token, decided_at: decidedAt }: Newest): string | null {
  const isFresh = decidedAt !== null && decidedAt.getTime() + APPROVAL_TOKEN_SECONDS * 1_000 > clock.wall()
  return state === 'approved' && isFresh ? token : null
}

const linkTo = (app: Pick<App, 'authOrigin'>, { id, expires_at: expiresAt }: { id: string; expires_at: Date }) => ({
  id,
  url: approvalUrl(app, id),
  expiresAt: expiresAt.toISOString(),
})

/** Returns the page of the authorization server where the user decides. */
export const approvalUrl = ({ authOrigin }: Pick<App, 'authOrigin'>, id: string): string =>
  `${authOrigin}/account/approvals/${id}`

const denied = (): AppError =>
  new AppError(
    'approval_denied',
    'The user denied this request. Nothing was signed. Use a new idempotency key only if the user starts over.',
  )
