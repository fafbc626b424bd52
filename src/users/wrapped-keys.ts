import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { WrappedAccount, WrappedDataKey, WrappedKey } from '../signer-wire/wire.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { eachMinute } from './each-minute.ts'
import { readKeptStatement } from './exported.ts'

/** Stores the key of an account that was just made, before anyone is told its address; nothing where it is there. */
export async function storeWrappedKey(db: Db, { key, dataKey }: WrappedAccount): Promise<void> {
  await db
    // Nothing is locked where it is there already: all sign-ups of a day share a data key.
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
 * Copies what the signer has and the database has not: accounts made while the database was away, and all of them when the signer
 * wrapped them anew. One of another address than the database keeps of its
 * user stays out, and the log names the user.
 * @returns how many came
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
    // Before the page is counted as copied: said again rather than never.
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
      // By another master key: the old one shall open nothing that is kept from now on.
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
          // A signer that lost its disk may have made another account for someone: the key of the one with the funds stays.
          .whereRef('wrapped_keys.address', '=', 'excluded.address')
          .where(sql<boolean>`wrapped_keys.wrapped <> excluded.wrapped`),
      )
      .execute()
}

/** Users whose key here is that of another address. */
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

/** Data keys that the signer has no more, and no key needs. Over the index of `data_key_id`. */
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

/** Copies what the signer made or wrapped anew: what it makes comes with its answer too. */
export function startCopyingKeys(app: Pick<App, 'clock' | 'db' | 'signer' | 'telemetry'>): { stop(): Promise<void> } {
  const { log } = app.telemetry
  return eachMinute({
    clock: app.clock,
    work: () => copyWrappedKeys(app),
    done: (keys) => log.info('wrapped_keys_copied', { keys }),
    failed: (error) => log.warn('wrapped_keys_not_copied', {}, error),
  })
}

/** Keys at a time in an export. */
const EXPORT_PAGE = 1_000

/** Lines of JSON for `chatelaine signer restore-keys`: data keys first, and a last line that says how many keys there are. */
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
