import { sql, type RawBuilder } from 'kysely'
import { retrying, type Db } from '../store/db.ts'

/** Keys of one consent that are remembered: those that were allowed something last. */
const MAX_KEYS = 20

type ConsentKey = { accountId: string; clientId: string }

/** What a user has allowed an application so far. */
export const readConsent = async (db: Db, whose: ConsentKey): Promise<ReadonlySet<string>> =>
  new Set((await readRow(db, whose))?.permissions)

/** What a user has allowed the program that holds a key; null where they have not said yes to that key. */
export async function readConsentForKey(db: Db, whose: ConsentKey, key: string): Promise<ReadonlySet<string> | null> {
  const known = (await readRow(db, whose))?.keys[key]
  return known === undefined ? null : new Set(known.permissions)
}

/** Remembers that a user allowed this too, and to whose key, whatever they allow in another browser at the same moment. */
export async function addConsent(
  db: Db,
  { accountId, clientId, permissions, key }: ConsentKey & { permissions: string[]; key?: string | undefined },
): Promise<void> {
  const all = [...new Set(permissions)]
  const keys = key === undefined ? {} : { [key]: { permissions: all, at: new Date().toISOString() } }
  await retrying(() =>
    sql`
      insert into consents (account_id, client_id, permissions, keys)
      values (${accountId}, ${clientId}, ${JSON.stringify(all)}::jsonb, ${JSON.stringify(keys)}::jsonb)
      on conflict (account_id, client_id) do update set
        updated_at = now(),
        permissions = ${union(sql`consents.permissions`, sql`excluded.permissions`)},
        keys = (
          select coalesce(jsonb_object_agg(key, value), '{}') from (
            select key, value from (
              select key, value from jsonb_each(consents.keys) where not excluded.keys ? key
              union all
              select key, jsonb_build_object('at', value -> 'at', 'permissions',
                ${union(sql`coalesce(consents.keys -> key -> 'permissions', '[]'::jsonb)`, sql`(value -> 'permissions')`)})
              from jsonb_each(excluded.keys)
            ) as every order by value ->> 'at' desc limit ${MAX_KEYS}::int
          ) as newest)`.execute(db),
  )
}

/** An array of JSON with what another has beside it, each once. */
const union = (known: RawBuilder<unknown>, more: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`${known} || (select coalesce(jsonb_agg(fresh.one), '[]') from jsonb_array_elements(${more}) as fresh (one)
    where not ${known} @> fresh.one)`

const readRow = (db: Db, { accountId, clientId }: ConsentKey) =>
  retrying(() =>
    db
      .selectFrom('consents')
      .select(['permissions', 'keys'])
      .where('account_id', '=', accountId)
      .where('client_id', '=', clientId)
      .executeTakeFirst(),
  )
