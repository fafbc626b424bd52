import type { Selectable } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { retrying, type Db } from '../store/db.ts'
import { isSealed, sealOf } from '../store/seal.ts'
import type { Database } from '../store/rows.ts'
import { inTransaction } from '../store/transaction.ts'

/** The parts of an App that are needed to write an application and to seal it. */
export type ApplicationWriter = Pick<App, 'sealKeys'> & { db: Db }

export type StoredApplication = Selectable<Database['applications']>

/** Returns whether an application is as it was registered. */
export const isApplicationAuthentic = (app: RowReader, row: StoredApplication): boolean =>
  isAuthentic(app, 'applications', row, { clientId: row.client_id })

/**
 * Changes an application and seals the result, in one transaction with its row locked. A row without a valid seal is
 * rejected: the new seal would also cover changes by an attacker.
 * @throws application_not_authentic, and the errors of `work`
 */
export const changeApplication = <T>(
  { db: root, sealKeys }: ApplicationWriter,
  clientId: string,
  work: (db: Db) => Promise<T>,
): Promise<T> =>
  retrying(() =>
    inTransaction(root, async (db) => {
      const before = await lockedRow(db, clientId)
      if (before !== null && !isSealed(sealKeys, 'applications', before))
        throw new AppError(
          'application_not_authentic',
          `The database row of the application ${clientId} was not written by the authorization server. Nothing was changed. Review the row: \`chatelaine auth-keys authenticate-rows\`.`,
        )
      const done = await work(db)
      await sealApplication({ db, sealKeys }, clientId)
      return done
    }),
  )

/** Seals the current row of an application, if there is one. */
export async function sealApplication({ db, sealKeys }: ApplicationWriter, clientId: string): Promise<void> {
  const row = await lockedRow(db, clientId)
  if (row === null) return
  await db
    .updateTable('applications')
    .set({ seal: sealOf(sealKeys, 'applications', row) })
    .where('client_id', '=', clientId)
    .execute()
}

async function lockedRow(db: Db, clientId: string): Promise<StoredApplication | null> {
  // PostgreSQL rejects NUL, and no client id is this long.
  if (clientId.length > 255 || clientId.includes('\0')) return null
  const query = db.selectFrom('applications').selectAll().where('client_id', '=', clientId).forUpdate()
  return (await query.executeTakeFirst()) ?? null
}
