import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { WrappedAccount, WrappedDataKey, WrappedKey } from '../signer-wire/wire.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { eachMinute } from './each-minute.ts'
import { readKeptStatement } from './exported.ts'

/** Stores the wrapped key of a new account, before its address is returned to anyone. An existing row remains. */
export async function storeWrappedKey(db: Db, { key, dataKey }: WrappedAccount): Promise<void> {
  await db
    // Do not lock an existing row: all sign-ups of a day share a data key.
    .with('data_key', (db) =>
      db
        .insertInto('wrapped_data_keys')
        .values(dataKeyRow(dataKey))
        .onConflict((on) => on.doNothing()),
    ) // prettier-ignore
    .insertInto('wrapped_keys')
    .values(keyRow(key))
    .onConflict((on) => on.doNothing())
    .execute()
}

/**
 * Copies the wrapped keys that the signer has and the database lacks: keys of accounts created while the database was
 * unavailable, and all keys after the signer wrapped them again. If the stored address of a user differs from the
 * key's, the key is not copied; the log names the user.
 * @returns number of copied keys
 * @throws signer_unavailable, database_unavailable
 */
export async function copyWrappedKeys({
  db,
  signer,
  telemetry,
}: Pick<App, 'db' | 'signer' | 'telemetry'>): Promise<number> {
  let copied = 0
  for (;;) {
    const { generation, through } = await db.selectFrom('wrapped_keys_copied').selectAll().executeTakeFirstOrThrow()
    const page = await signer.wrapped({ after: through })
    const isAnew = page.generation !== generation
    if (isAnew && through > 0) {
      await moveTo(db, { generation: page.generation, through: 0 })
      continue
    }
    await storePage(db, page)
    // Report before the page counts as copied: a repeated error is better than a lost one.
    for (const userId of await ofAnotherAddress(db, page.keys))
      telemetry.log.error('wrapped_key_of_another_address', { userId })
    if (isAnew || page.through !== through) await moveTo(db, page)
    copied += page.keys.length
    if (!page.isEnd) continue
    await dropUnused(db, page.dataKeys)
    return copied
  }
}

const moveTo = (db: Db, { generation, through }: { generation: number; through: number }) =>
  db.updateTable('wrapped_keys_copied').set({ generation, through }).execute()

async function storePage(db: Db, { keys, dataKeys }: { keys: WrappedKey[]; dataKeys: WrappedDataKey[] }) {
  if (dataKeys.length > 0)
    await db
      .insertInto('wrapped_data_keys')
      .values(dataKeys.map(dataKeyRow))
      // After a change of the master key, the old master key must not open newly stored keys.
      .onConflict((on) =>
        on
          .column('id')
          .doUpdateSet({
            provider: (eb) => eb.ref('excluded.provider'),
            wrapped: (eb) => eb.ref('excluded.wrapped'),
          })
          .whereRef('wrapped_data_keys.wrapped', '<>', 'excluded.wrapped'),
      )
      .execute()
  if (keys.length > 0)
    await db
      .insertInto('wrapped_keys')
      .values(keys.map(keyRow))
      .onConflict((on) =>
        on
          .column('user_id')
          .doUpdateSet({
            version: (eb) => eb.ref('excluded.version'),
            data_key_id: (eb) => eb.ref('excluded.data_key_id'),
            wrapped: (eb) => eb.ref('excluded.wrapped'),
            iv: (eb) => eb.ref('excluded.iv'),
            tag: (eb) => eb.ref('excluded.tag'),
          })
          // A signer that lost its disk may have made another account for a user: retain the key of the account with
          // the funds.
          .whereRef('wrapped_keys.address', '=', 'excluded.address')
          .where(sql<boolean>`wrapped_keys.wrapped <> excluded.wrapped`),
      )
      .execute()
}

/** Returns the users whose stored key has another address. */
async function ofAnotherAddress(db: Db, keys: WrappedKey[]): Promise<string[]> {
  if (keys.length === 0) return []
  const users = keys.map(({ userId }) => userId)
  const rows = await db
    .selectFrom('wrapped_keys')
    .select(['user_id', 'address'])
    .where('user_id', 'in', users)
    .execute()
  const kept = new Map(rows.map(({ user_id, address }) => [user_id, toHex(address)]))
  return users.filter((userId, n) => kept.get(userId) !== keys[n]!.address.toLowerCase())
}

/** Deletes data keys that the signer no longer has and no stored key needs. Uses the index of `data_key_id`. */
async function dropUnused(db: Db, dataKeys: WrappedDataKey[]): Promise<void> {
  await db
    .deleteFrom('wrapped_data_keys')
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('wrapped_keys').select('user_id').whereRef('data_key_id', '=', 'wrapped_data_keys.id'))),
    )
    .$if(dataKeys.length > 0, (query) =>
      query.where(
        'id',
        'not in',
        dataKeys.map(({ id }) => fromHex(id)),
      ),
    ) // prettier-ignore
    .execute()
}

/** Copies keys each minute that the signer made or wrapped again. A new key is also stored with its account. */
export function startCopyingKeys(app: Pick<App, 'clock' | 'db' | 'signer' | 'telemetry'>): { stop(): Promise<void> } {
  const { log } = app.telemetry
  return eachMinute({
    clock: app.clock,
    work: () => copyWrappedKeys(app),
    done: (keys) => log.info('wrapped_keys_copied', { keys }),
    failed: (error) => log.warn('wrapped_keys_not_copied', {}, error),
  })
}

/** Keys per page of an export. */
const EXPORT_PAGE = 1_000

/** Yields lines of JSON for `chatelaine signer restore-keys`: data keys first, and at the end the number of keys. */
export async function* exportWrappedKeys(db: Db): AsyncGenerator<string> {
  const dataKeys = await db.selectFrom('wrapped_data_keys').selectAll().orderBy('epoch').execute()
  for (const { id, epoch, provider, wrapped, created_at } of dataKeys) {
    const dataKey: WrappedDataKey = {
      id: toHex(id),
      epoch,
      provider,
      wrapped: toHex(wrapped),
      createdAt: created_at.getTime(),
    }
    yield JSON.stringify({ dataKey })
  }
  let keys = 0
  for (let after = ''; ;) {
    const rows = await db.selectFrom('wrapped_keys as kept').leftJoin('accounts as account', 'account.user_id', 'kept.user_id').selectAll('kept').select(['account.attestation', 'account.elsewhere']).where('kept.user_id', '>', after).orderBy('kept.user_id').limit(EXPORT_PAGE).execute() // prettier-ignore
    for (const { user_id: userId, address, version, data_key_id, wrapped, iv, tag, attestation, elsewhere } of rows) {
      const key: WrappedKey = { userId, address: toHex(address), version, dataKeyId: toHex(data_key_id), wrapped: toHex(wrapped), iv: toHex(iv), tag: toHex(tag), attestation: attestation === null ? null : toHex(attestation), elsewhere: elsewhere === null ? null : readKeptStatement(elsewhere) } // prettier-ignore
      yield JSON.stringify({ key })
    }
    keys += rows.length
    if (rows.length < EXPORT_PAGE) break
    after = rows.at(-1)!.user_id
  }
  yield JSON.stringify({ end: { keys } })
}

const dataKeyRow = ({ id, epoch, provider, wrapped, createdAt }: WrappedDataKey) => ({
  id: fromHex(id),
  epoch,
  provider,
  wrapped: fromHex(wrapped),
  created_at: new Date(createdAt),
})

const keyRow = ({ userId, address, version, dataKeyId, wrapped, iv, tag }: WrappedKey) => ({
  user_id: userId,
  address: fromHex(address),
  version,
  data_key_id: fromHex(dataKeyId),
  wrapped: fromHex(wrapped),
  iv: fromHex(iv),
  tag: fromHex(tag),
})
