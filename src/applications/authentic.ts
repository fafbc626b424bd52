import type { Selectable } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { retrying, type Db } from '../store/db.ts'
import { isMacRight, macOf, type MacedRow, type RowContent, type RowKeys } from '../store/row-mac.ts'
import type { Database } from '../store/rows.ts'
import { inTransaction } from '../store/transaction.ts'

/** What it takes to write an application that the authorization server believes. */
export type ApplicationWriter = Pick<App, 'rowKeys'> & { db: Db }

/** A row as the table has it. */
export type StoredApplication = Selectable<Database['applications']>

/**
 * What the MAC of an application covers: everything by which it is given tokens, and what people are shown of it. Not what it may
 * use of the API (quotas, weight, budgets of sponsors), which leads to no token.
 */
const applicationContent = (row: StoredApplication): RowContent => [
  'applications',
  row.client_id,
  row.name,
  row.chain_id,
  row.kind,
  row.redirect_uris,
  row.permissions,
  row.allowed_origins,
  row.secret_hashes,
  row.logo_uri,
  row.needs_pkce,
  row.needs_dpop,
  row.suspended_at !== null,
  row.issuers,
  row.post_logout_redirect_uris,
  row.is_first_party,
]

/** Whether an application is as it was registered. */
export const isApplicationAuthentic = (app: RowReader, row: StoredApplication): boolean =>
  isAuthentic(app, { clientId: row.client_id }, { content: applicationContent(row), mac: row.mac })

/**
 * Changes an application, and writes the MAC of what it is then. In one transaction, with its row locked. What someone else has
 * changed is not made right by changing more of it.
 * @throws application_not_authentic, and what `work` throws
 */
export const changeApplication = <T>(
  { db: root, rowKeys }: ApplicationWriter,
  clientId: string,
  work: (db: Db) => Promise<T>,
): Promise<T> =>
  retrying(() =>
    inTransaction(root, async (db) => {
      const before = await lockedRow(db, clientId)
      if (before !== null && rowKeys !== null && !isMacRight(rowKeys, applicationContent(before), before.mac))
        throw new AppError(
          'application_not_authentic',
          `The stored application ${clientId} is not as it was registered.`,
        )
      const done = await work(db)
      await writeMac({ db, rowKeys }, clientId)
      return done
    }),
  )

/** Writes the MAC of what an application is now. @returns whether there is one */
export async function writeMac({ db, rowKeys }: ApplicationWriter, clientId: string): Promise<boolean> {
  const row = await lockedRow(db, clientId)
  if (row === null) return false
  await db
    .updateTable('applications')
    .set({ mac: macOf(rowKeys, applicationContent(row)) })
    .where('client_id', '=', clientId)
    .execute()
  return true
}

async function lockedRow(db: Db, clientId: string): Promise<StoredApplication | null> {
  // PostgreSQL refuses NUL, and no client id is this long.
  if (clientId.length > 255 || clientId.includes('\0')) return null
  const query = db.selectFrom('applications').selectAll().where('client_id', '=', clientId).forUpdate()
  return (await query.executeTakeFirst()) ?? null
}

/** Applications of one page. */
const PAGE = 200

/** Every application, to look at its MAC and write another; not where it was changed since it was read. */
export async function* macedApplications(root: Db): AsyncGenerator<MacedRow & { row: StoredApplication }> {
  let after = ''
  for (;;) {
    const rows = await root
      .selectFrom('applications')
      .selectAll()
      .where('client_id', '>', after)
      .orderBy('client_id')
      .limit(PAGE)
      .execute()
    for (const row of rows) yield { row, content: applicationContent(row), mac: row.mac, write: rewriteMac(root, row) }
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last.client_id
  }
}

const rewriteMac = (root: Db, row: StoredApplication) => (keys: RowKeys) =>
  retrying(() =>
    inTransaction(root, async (db) => {
      const now = await lockedRow(db, row.client_id)
      const isSame = now !== null && macOf(keys, applicationContent(now)) === macOf(keys, applicationContent(row))
      return isSame && writeMac({ db, rowKeys: keys }, row.client_id)
    }),
  )
