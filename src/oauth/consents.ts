import { sql } from 'kysely'
import { retrying, type Db } from '../store/db.ts'

/** Keys of one consent that are remembered: those that were allowed something last. */
const MAX_KEYS = 20

type Whose = { accountId: string; clientId: string }

/** What a user has allowed an application so far. */
export const readConsent = async (db: Db, whose: Whose): Promise<ReadonlySet<string>> =>
  new Set((await readRow(db, whose))?.permissions)

/** What a user has allowed the program that holds a key; null where they have not said yes to that key. */
export async function readConsentForKey(db: Db, whose: Whose, key: string): Promise<ReadonlySet<string> | null> {
  const known = (await readRow(db, whose))?.keys[key]
  return known === undefined ? null : new Set(known.permissions)
}

/** Remembers that a user allowed this too, and to whose key. */
export async function addConsent(
  db: Db,
  { accountId, clientId, permissions, key }: Whose & { permissions: string[]; key?: string | undefined },
): Promise<void> {
  const row = await readRow(db, { accountId, clientId })
  const all = JSON.stringify([...new Set([...(row?.permissions ?? []), ...permissions])])
  const keys = JSON.stringify(key === undefined ? (row?.keys ?? {}) : withKey(row?.keys ?? {}, key, permissions))
  await retrying(() =>
    db
      .insertInto('consents')
      .values({ account_id: accountId, client_id: clientId, permissions: all, keys })
      .onConflict((on) =>
        on.columns(['account_id', 'client_id']).doUpdateSet({ permissions: all, keys, updated_at: sql<Date>`now()` }),
      )
      .execute(),
  )
}

type Keys = Record<string, { permissions: string[]; at: string }>

function withKey(keys: Keys, key: string, permissions: string[]): Keys {
  const all = [...new Set([...(keys[key]?.permissions ?? []), ...permissions])]
  const newest = Object.entries({ ...keys, [key]: { permissions: all, at: new Date().toISOString() } })
    .toSorted(([, a], [, b]) => (a.at < b.at ? 1 : -1))
    .slice(0, MAX_KEYS)
  return Object.fromEntries(newest)
}

const readRow = (db: Db, { accountId, clientId }: Whose) =>
  retrying(() =>
    db
      .selectFrom('consents')
      .select(['permissions', 'keys'])
      .where('account_id', '=', accountId)
      .where('client_id', '=', clientId)
      .executeTakeFirst(),
  )
