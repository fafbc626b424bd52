import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { redirectOrigin } from '../applications/redirects.ts'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { areTexts } from '../store/column-values.ts'
import { retrying, type Db } from '../store/db.ts'
import { sealOf, type SealedRows } from '../store/seal.ts'
import { inTransaction } from '../store/transaction.ts'

/** Maximum number of keys per consent; those that were allowed something last remain. */
const MAX_KEYS = 20

export type ConsentKey = { accountId: string; clientId: string }

/**
 * `keys`: permissions of the holder of each DPoP key, by its thumbprint. `ways`: the application's `waysOf` when the
 * user consented.
 */
export type ConsentRow = {
  permissions: string[]
  ways: string[]
  keys: Record<string, { permissions: string[]; at: string }>
  seal: string | null
}

type ConsentReader = RowReader & { db: Db }

type Reached = Pick<Application, 'redirectUris' | 'secretHashes'>

/** Returns the ways in which an application can use a consent: the origins of its redirect URIs, and its secrets. */
export const waysOf = ({ redirectUris, secretHashes }: Reached): string[] =>
  [...new Set([...redirectUris.map(redirectOrigin), ...secretHashes.map((hash) => `secret ${hash}`)])].toSorted()

/**
 * Returns the permissions that a user has allowed an application. They are none if the application has since gained a
 * redirect origin or a secret: it may belong to someone whom the user did not allow.
 */
export const readConsent = async (
  app: ConsentReader,
  whose: ConsentKey,
  application: Reached,
): Promise<ReadonlySet<string>> => allowedBy(await readAuthentic(app, whose), application)

/** Returns the same as `readConsent`, from a row that was already read. */
export const allowedBy = (
  known: Pick<ConsentRow, 'permissions' | 'ways'> | null,
  application: Reached,
): ReadonlySet<string> => new Set(standing(known, waysOf(application))?.permissions)

/** Returns the permissions of the holder of a key; null if the user has not allowed that key. */
export async function readConsentForKey(
  app: ConsentReader,
  whose: ConsentKey,
  { key, application }: { key: string; application: Reached },
): Promise<ReadonlySet<string> | null> {
  const allowed = standing(await readAuthentic(app, whose), waysOf(application))?.keys[key]
  return allowed === undefined ? null : new Set(allowed.permissions)
}

/** Returns a consent that was given when the application had all of its current ways; null for any other. */
const standing = <C extends Pick<ConsentRow, 'ways'>>(known: C | null, ways: string[]): C | null =>
  known !== null && ways.every((way) => known.ways.includes(way)) ? known : null

/**
 * Adds permissions to a user's consent, and to its key if one is named. Concurrent calls lose nothing. If the stored
 * consent has no valid seal or no longer holds, its contents are dropped.
 */
export async function addConsent(
  app: ConsentReader & Pick<App, 'clock' | 'sealKeys'>,
  { permissions, key, application, ...whose }: ConsentKey & { permissions: string[]; key?: string | undefined; application: Reached }, // prettier-ignore
): Promise<void> {
  const at = new Date(app.clock.wall()).toISOString()
  const ways = waysOf(application)
  await retrying(() =>
    inTransaction(app.db, async (db) => {
      // Of two concurrent calls, the second waits here or at the lock below, and then sees what the first added.
      await insertNothing({ ...app, db }, whose)
      const row = await rowOf(db, whose).forUpdate().executeTakeFirstOrThrow()
      const known = standing(authenticConsent(app, whose, row), ways) ?? NOTHING
      await write({ ...app, db }, whose, { ...withMore(known, { permissions, key, at }), ways })
    }),
  )
}

/**
 * Stores a consent within a transaction if there is none.
 * @returns false if there is one, which remains unchanged
 */
export async function addMissingConsent(
  app: ConsentReader & Pick<App, 'clock' | 'sealKeys'>,
  { permissions, application, ...whose }: ConsentKey & { permissions: string[]; application: Reached },
): Promise<boolean> {
  if (!(await insertNothing(app, whose))) return false
  await write(app, whose, { permissions, keys: {}, ways: waysOf(application) })
  return true
}

/** Inserts a consent to nothing. Returns whether there was none before. */
async function insertNothing(
  { db, sealKeys }: { db: Db } & Pick<App, 'sealKeys'>,
  whose: ConsentKey,
): Promise<boolean> {
  const { accountId, clientId } = whose
  const nothing = { account_id: accountId, client_id: clientId, permissions: '[]', seal: sealOf(sealKeys, 'consents', sealedRow(whose, NOTHING)) } // prettier-ignore
  const inserted = await db
    .insertInto('consents')
    .values(nothing)
    .onConflict((on) => on.doNothing())
    .returning('client_id')
    .executeTakeFirst()
  return inserted !== undefined
}

async function write(
  { db, clock, sealKeys }: { db: Db } & Pick<App, 'clock' | 'sealKeys'>,
  whose: ConsentKey,
  next: Omit<ConsentRow, 'seal'>,
): Promise<void> {
  await db
    .updateTable('consents')
    .set({
      permissions: JSON.stringify(next.permissions),
      keys: JSON.stringify(next.keys),
      ways: JSON.stringify(next.ways),
      updated_at: new Date(clock.wall()),
      seal: sealOf(sealKeys, 'consents', sealedRow(whose, next)),
    })
    .where('account_id', '=', whose.accountId)
    .where('client_id', '=', whose.clientId)
    .execute()
}

const sealedRow = <C extends Omit<ConsentRow, 'seal'>>(
  { accountId, clientId }: ConsentKey,
  consent: C,
): C & SealedRows['consents'] => ({ ...consent, account_id: accountId, client_id: clientId })

/** Returns a consent whose seal is valid and whose columns have the right form; null for any other. */
export function authenticConsent(app: RowReader, whose: ConsentKey, row: ConsentRow): ConsentRow | null {
  if (!isAuthentic(app, 'consents', sealedRow(whose, row), whose)) return null
  if (isWhole(row)) return row
  app.telemetry.log.error('row_damaged', { table: 'consents', ...whose })
  return null
}

/** Checks the JSON columns: if someone else wrote the row, they can hold anything. */
const isWhole = ({ permissions, keys, ways }: Record<'permissions' | 'keys' | 'ways', unknown>): boolean =>
  areTexts(permissions) && areTexts(ways) && isObject(keys) && Object.values(keys).every(isKey)

const isKey = (key: unknown): key is ConsentRow['keys'][string] =>
  isObject(key) && areTexts(key.permissions) && typeof key.at === 'string'

/** Returns the readable keys of an unverified consent, to list them only. */
export const keysIn = (keys: unknown): [thumbprint: string, allowed: ConsentRow['keys'][string]][] =>
  Object.entries(isObject(keys) ? keys : {}).flatMap(([thumbprint, key]) => (isKey(key) ? [[thumbprint, key]] : []))

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const NOTHING: Omit<ConsentRow, 'seal'> = { permissions: [], keys: {}, ways: [] }

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
  const row = await rowOf(app.db, whose).executeTakeFirst()
  return row === undefined ? null : authenticConsent(app, whose, row)
}

const rowOf = (db: Db, { accountId, clientId }: ConsentKey) =>
  db
    .selectFrom('consents')
    .select(['permissions', 'keys', 'ways', 'seal'])
    .where('account_id', '=', accountId)
    .where('client_id', '=', clientId)
