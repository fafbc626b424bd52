import type { App } from '../app.ts'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { areTexts } from '../store/column-values.ts'
import { retrying, type Db } from '../store/db.ts'
import { macOf, type RowContent } from '../store/row-mac.ts'
import { inTransaction } from '../store/transaction.ts'

/** Keys of one consent that are remembered: those that were allowed something last. */
const MAX_KEYS = 20

export type ConsentKey = { accountId: string; clientId: string }

/** `keys`: what was allowed to programs that hold a key, by its thumbprint. */
export type ConsentRow = {
  permissions: string[]
  keys: Record<string, { permissions: string[]; at: string }>
  mac: string | null
}

type ConsentReader = RowReader & { db: Db }

/** What a user has allowed an application so far. */
export const readConsent = async (app: ConsentReader, whose: ConsentKey): Promise<ReadonlySet<string>> =>
  new Set((await readAuthentic(app, whose))?.permissions)

/** What a user has allowed the program that holds a key; null where they have not said yes to that key. */
export async function readConsentForKey(
  app: ConsentReader,
  whose: ConsentKey,
  key: string,
): Promise<ReadonlySet<string> | null> {
  const known = (await readAuthentic(app, whose))?.keys[key]
  return known === undefined ? null : new Set(known.permissions)
}

/**
 * Remembers that a user allowed this too, and to whose key, whatever they allow in another browser at the same moment. What
 * someone else wrote into the row before is not kept.
 */
export async function addConsent(
  app: ConsentReader & Pick<App, 'clock' | 'rowKeys'>,
  { permissions, key, ...whose }: ConsentKey & { permissions: string[]; key?: string | undefined },
): Promise<void> {
  const { accountId, clientId } = whose
  const at = new Date(app.clock.wall()).toISOString()
  await retrying(() =>
    inTransaction(app.db, async (db) => {
      // The second of two waits here, or at the lock below, for what the first one has allowed.
      const nothing = { account_id: accountId, client_id: clientId, permissions: '[]', mac: macOf(app.rowKeys, consentContent(whose, NOTHING)) } // prettier-ignore
      await db
        .insertInto('consents')
        .values(nothing)
        .onConflict((on) => on.doNothing())
        .execute()
      const row = await rowOf(db, whose).forUpdate().executeTakeFirstOrThrow()
      const next = withMore(authenticConsent(app, whose, row) ?? NOTHING, { permissions, key, at })
      await db
        .updateTable('consents')
        .set({
          permissions: JSON.stringify(next.permissions),
          keys: JSON.stringify(next.keys),
          updated_at: new Date(app.clock.wall()),
          mac: macOf(app.rowKeys, consentContent(whose, next)),
        })
        .where('account_id', '=', accountId)
        .where('client_id', '=', clientId)
        .execute()
    }),
  )
}

/** What the MAC of a consent covers. */
export const consentContent = (
  { accountId, clientId }: ConsentKey,
  { permissions, keys }: Pick<ConsentRow, 'permissions' | 'keys'>,
): RowContent => ['consents', accountId, clientId, permissions, keys]

/** A consent as it was read; null for one that someone else wrote, or that is none. */
export function authenticConsent(app: RowReader, whose: ConsentKey, row: ConsentRow): ConsentRow | null {
  if (!isAuthentic(app, whose, { content: consentContent(whose, row), mac: row.mac })) return null
  if (isWhole(row)) return row
  app.telemetry.log.error('row_damaged', { table: 'consents', ...whose })
  return null
}

/** The columns are JSON: anything, where someone else wrote. */
const isWhole = ({ permissions, keys }: Record<'permissions' | 'keys', unknown>): boolean =>
  areTexts(permissions) && isObject(keys) && Object.values(keys).every(isKey)

const isKey = (key: unknown): key is ConsentRow['keys'][string] =>
  isObject(key) && areTexts(key.permissions) && typeof key.at === 'string'

/** For who only lists them: what of the column can be read. */
export const keysIn = (keys: unknown): [thumbprint: string, allowed: ConsentRow['keys'][string]][] =>
  Object.entries(isObject(keys) ? keys : {}).flatMap(([thumbprint, key]) => (isKey(key) ? [[thumbprint, key]] : []))

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const NOTHING: Pick<ConsentRow, 'permissions' | 'keys'> = { permissions: [], keys: {} }

function withMore(
  known: Pick<ConsentRow, 'permissions' | 'keys'>,
  { permissions, key, at }: { permissions: string[]; key: string | undefined; at: string },
): Pick<ConsentRow, 'permissions' | 'keys'> {
  const both = (before: string[] = []) => [...new Set([...before, ...permissions])]
  const keys =
    key === undefined ? known.keys : { ...known.keys, [key]: { permissions: both(known.keys[key]?.permissions), at } }
  const newest = Object.entries(keys).toSorted(([, one], [, other]) => (one.at > other.at ? -1 : 1))
  return { permissions: both(known.permissions), keys: Object.fromEntries(newest.slice(0, MAX_KEYS)) }
}

async function readAuthentic(app: ConsentReader, whose: ConsentKey): Promise<ConsentRow | null> {
  const row = await retrying(() => rowOf(app.db, whose).executeTakeFirst())
  return row === undefined ? null : authenticConsent(app, whose, row)
}

const rowOf = (db: Db, { accountId, clientId }: ConsentKey) =>
  db
    .selectFrom('consents')
    .select(['permissions', 'keys', 'mac'])
    .where('account_id', '=', accountId)
    .where('client_id', '=', clientId)
