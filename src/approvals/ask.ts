import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError, type ApprovalLink } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { approvalIdOf } from '../ids.ts'
import type { ApprovalContent } from '../store/column-values.ts'
import type { Db } from '../store/db.ts'
import type { Clocked } from './decide.ts'

/** minutes that a question waits for its user */
const OPEN_MINUTES = 30

/** Maximum number of open questions of one application for one user: more than a user can decide in OPEN_MINUTES. */
const MAX_WAITING = 20

/** seconds for which the signer accepts an approval token: long enough for one repeat of the request */
export const APPROVAL_TOKEN_SECONDS = 60

export type NewQuestion = {
  caller: Pick<Caller, 'accountId' | 'clientId' | 'chainId'>
  /** id of the signature or transaction that the request would make */
  intentId: string
  content: ApprovalContent
  /** SHA-256 of the request of a write; null for a message */
  requestHash: Buffer | null
  /** the signer's rule that asks */
  rule: string
  /** IP address of the request */
  askedFrom: string | null
}

/**
 * Asks the user to approve a request, and returns the page where the user decides. An intent has at most one open question for the
 * same content. Further and concurrent requests get the same question.
 * @returns `isNew`: whether this request asked the user
 * @throws approval_denied  if the user denied this intent, however long ago
 * @throws rate_limited  if MAX_WAITING questions of the application wait for this user
 */
export async function askApproval(
  app: Clocked & Pick<App, 'authOrigin'>,
  { caller, intentId, content, requestHash, rule, askedFrom }: NewQuestion,
): Promise<{ link: ApprovalLink; isNew: boolean }> {
  const newest = await newestOf(app.db, intentId)
  if (newest?.state === 'denied') throw denied()
  const isOpen = newest !== null && (isWaiting(app, newest) || shownToken(app, newest) !== null)
  // After an unsigned request is deleted, its key can be used for another message. The user must see that message's question.
  if (isOpen && isDeepStrictEqual(newest.content, content)) return { link: linkTo(app, newest), isNew: false }
  await assertFewWait(app, caller)
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
      request_hash: requestHash,
      rule,
      asked_from: askedFrom,
      state: 'waiting',
      created_at: new Date(now),
    })
    .onConflict((on) => on.doNothing())
    .returning(['id', 'expires_at'])
    .executeTakeFirst()
  // A concurrent request has stored the same question. Its expiry applies.
  return { link: linkTo(app, made ?? (await newestOf(app.db, intentId)) ?? asked), isNew: made !== undefined }
}

/**
 * Asserts that an application can ask its user one more question. Each concurrent request can exceed the limit by one. Uses the index
 * (account, time).
 * @throws rate_limited  until the oldest question expires
 */
async function assertFewWait({ db, clock }: Clocked, { accountId, clientId }: NewQuestion['caller']): Promise<void> {
  const now = clock.wall()
  const waiting = await db
    .selectFrom('approvals')
    .select('expires_at')
    .where('account_id', '=', accountId)
    .where('client_id', '=', clientId)
    .where('state', '=', 'waiting')
    .where('created_at', '>', new Date(now - OPEN_MINUTES * 60_000))
    .where('expires_at', '>', new Date(now))
    .orderBy('created_at')
    .limit(MAX_WAITING)
    .execute()
  if (waiting.length < MAX_WAITING) return
  throw new AppError(
    'rate_limited',
    `The user has not decided about ${MAX_WAITING} earlier requests of this application. Nothing was signed, and the user was not asked. Retry when the user has decided about one, or after \`Retry-After\` seconds, when the oldest expires.`,
    { retryAfter: Math.ceil((waiting[0]!.expires_at.getTime() - now) / 1_000) },
  )
}

/**
 * Returns the newest question about an intent; null if the user was not asked.
 * @returns `token`: to show the signer; null if the user has not approved, or approved more than a minute ago
 * @throws approval_denied  if the user denied this intent
 */
export async function askedApproval(
  app: Clocked,
  intentId: string,
): Promise<{ content: ApprovalContent; requestHash: Buffer | null; token: string | null } | null> {
  const newest = await newestOf(app.db, intentId)
  if (newest?.state === 'denied') throw denied()
  if (newest === null) return null
  const { content, request_hash: hash } = newest
  return { content, requestHash: hash === null ? null : Buffer.from(hash), token: shownToken(app, newest) }
}

type Newest = NonNullable<Awaited<ReturnType<typeof newestOf>>>

/** Returns the newest question about an intent; a denied one if there is any, because a denial is final. Uses the index (intent, time). */
async function newestOf(db: Db, intentId: string) {
  const row = await db
    .selectFrom('approvals')
    .select(['id', 'state', 'content', 'request_hash', 'token', 'expires_at', 'decided_at'])
    .where('intent_id', '=', intentId)
    .orderBy(sql`(state = 'denied')`, 'desc')
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
