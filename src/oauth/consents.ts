import { sql } from 'kysely'
import { retrying, type Db } from '../store/db.ts'

/** What a user has allowed an application so far. */
export async function readConsent(
  db: Db,
  { accountId, clientId }: { accountId: string; clientId: string },
): Promise<ReadonlySet<string>> {
  const row = await retrying(() =>
    db
      .selectFrom('consents')
      .select('permissions')
      .where('account_id', '=', accountId)
      .where('client_id', '=', clientId)
      .executeTakeFirst(),
  )
  return new Set(row?.permissions)
}

/** Remembers that a user allowed this too. */
export async function addConsent(
  db: Db,
  { accountId, clientId, permissions }: { accountId: string; clientId: string; permissions: string[] },
): Promise<void> {
  const all = new Set([...(await readConsent(db, { accountId, clientId })), ...permissions])
  const value = JSON.stringify([...all])
  await retrying(() =>
    db
      .insertInto('consents')
      .values({ account_id: accountId, client_id: clientId, permissions: value })
      .onConflict((on) =>
        on.columns(['account_id', 'client_id']).doUpdateSet({ permissions: value, updated_at: sql<Date>`now()` }),
      )
      .execute(),
  )
}
