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

/** Remembers that a user allowed this too, whatever they allow in another browser at the same moment. */
export async function addConsent(
  db: Db,
  { accountId, clientId, permissions }: { accountId: string; clientId: string; permissions: string[] },
): Promise<void> {
  await retrying(() =>
    sql`
      insert into consents (account_id, client_id, permissions)
      values (${accountId}, ${clientId}, ${JSON.stringify([...new Set(permissions)])}::jsonb)
      on conflict (account_id, client_id) do update set updated_at = now(), permissions = consents.permissions || (
        select coalesce(jsonb_agg(fresh.one), '[]') from jsonb_array_elements(excluded.permissions) as fresh (one)
        where not consents.permissions @> fresh.one
      )`.execute(db),
  )
}
