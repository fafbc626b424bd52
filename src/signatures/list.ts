import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { toHex } from '../hex.ts'
import type { Caller } from '../http/bearer.ts'
import { cutPage, foreignCursor, isMoment, readPageCursor } from '../http/cursor.ts'
import { isId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { momentText } from '../store/read-time.ts'
import type { OwnSignature } from './wire.ts'

/** The signatures of a user: for one application, or on one network for all of them. */
type SignatureScope = { accountId: string; clientId: string } | { accountId: string; chainId: number }

/**
 * Returns the signatures of the caller for this application, newest first. Uses the index (account, application, time,
 * id).
 * @throws invalid_cursor
 */
export async function listSignatures(
  { db }: Pick<App, 'db'>,
  { accountId, clientId }: Pick<Caller, 'accountId' | 'clientId'>,
  page: PageQuery,
): Promise<{ signatures: OwnSignature[]; nextCursor: string | null }> {
  const { rows, nextCursor } = await readRows(db, { accountId, clientId }, page)
  return { signatures: rows.map(toWire), nextCursor }
}

/**
 * Returns one signature of the caller for this application.
 * @throws not_found
 */
export async function readSignature(
  { db }: Pick<App, 'db'>,
  { accountId, clientId }: Pick<Caller, 'accountId' | 'clientId'>,
  id: string,
): Promise<OwnSignature> {
  const row = isId(id) ? await signed(db, { accountId, clientId }).where('id', '=', id).executeTakeFirst() : undefined
  if (row === undefined)
    throw new AppError('not_found', 'This application has no signature with this id of this user. Check the id.')
  return toWire(row)
}

/**
 * Returns the signatures of a user on a network for all applications, newest first. Uses the index (account, time, id).
 * @throws invalid_cursor
 */
export async function listSignaturesOfAccount(
  { db }: Pick<App, 'db'>,
  scope: { accountId: string; chainId: number },
  page: PageQuery,
): Promise<{ entries: (OwnSignature & { clientId: string })[]; nextCursor: string | null }> {
  const { rows, nextCursor } = await readRows(db, scope, page)
  return { entries: rows.map((row) => ({ ...toWire(row), clientId: row.client_id })), nextCursor }
}

type PageQuery = { limit: number; cursor?: string | undefined }

async function readRows(db: Db, scope: SignatureScope, { limit, cursor }: PageQuery) {
  const after = cursor === undefined ? null : placeOf(cursor)
  const rows = await signed(db, scope)
    .$if(after !== null, (query) =>
      query.where(sql<boolean>`(created_at, id) < (${after![0]}::timestamptz, ${after![1]})`),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const { page, nextCursor } = cutPage(rows, limit, ({ since, id }) => ['signatures', since, id])
  return { rows: page, nextCursor }
}

const signed = (db: Db, scope: SignatureScope) =>
  db
    .selectFrom('signatures')
    .select([
      'id',
      'client_id',
      'kind',
      'content',
      'hash',
      'class',
      'summary',
      'rule',
      'signature',
      'created_at',
      'reference',
    ])
    .select(momentText('created_at').as('since'))
    .where('account_id', '=', scope.accountId)
    .where('signature', 'is not', null)
    .$if('clientId' in scope, (query) => query.where('client_id', '=', (scope as { clientId: string }).clientId))
    .$if('chainId' in scope, (query) => query.where('chain_id', '=', (scope as { chainId: number }).chainId))

type SignatureRow = Awaited<ReturnType<ReturnType<typeof signed>['execute']>>[number]

const toWire = ({
  id,
  kind,
  content,
  hash,
  class: name,
  summary,
  rule,
  signature,
  created_at: at,
  reference,
}: SignatureRow) => ({
  id,
  signature: toHex(signature!),
  hash: toHex(hash),
  class: name,
  rule: rule!,
  kind,
  content,
  summary,
  createdAt: at.toISOString(),
  reference,
})

/** @throws invalid_cursor  if the cursor belongs to another list */
function placeOf(cursor: string): [since: string, id: string] {
  const [list, since, id] = readPageCursor(cursor, ['string', 'string', 'string']) as [string, string, string]
  if (list !== 'signatures' || !isMoment(since) || !isId(id)) throw foreignCursor()
  return [since, id]
}
