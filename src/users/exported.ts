import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import type { Signer } from '../signer-wire/client.ts'
import { MAX_HELD, type HeldElsewhere, type KeyExport, type OpenExport } from '../signer-wire/wire.ts'
import type { Db } from '../store/db.ts'
import { eachMinute } from './each-minute.ts'
import { findNamed } from './find.ts'
import type { ExportState } from './wire.ts'

/**
 * Exports the key of an account, sealed, and marks the account as exported. Sets the mark before the request to the
 * signer. So after a crash, an account may be marked although its key was not exported, but never the reverse. The mark
 * of an exported key is permanent: only the request that set a mark removes it, and only if the key was certainly not
 * exported.
 * @throws the signer's rejection; the mark is then unchanged
 */
export async function takeKey(
  { db, signer, clock }: Pick<App, 'db' | 'signer' | 'clock'>,
  { accountId, userId, token }: { accountId: string; userId: UserId; token: string },
): Promise<Awaited<ReturnType<Signer['takeKey']>>> {
  const at = clock.wall()
  const isOurs = await markFirst(db, accountId, new Date(at))
  try {
    const sealed = await signer.takeKey({ token })
    // Use a time that no concurrent request uses, because such a request may still remove its own mark.
    await markLeft(db, accountId, new Date(Math.max(clock.wall(), at + 1)))
    return sealed
  } catch (error) {
    // An unknown result is not a rejection: the signer may have sealed the key.
    if (!(error instanceof AppError) || error.code === 'signer_unavailable') throw error
    const state = await signer.keyExport({ userId })
    if (state.exportedAt !== null) await settleExported(db, accountId, state)
    else if (isOurs) await takeBack(db, accountId, new Date(at))
    throw error
  }
}

/**
 * Sets the mark from the signer's ledger. If the ledger has no export, the mark remains, because the ledger may be
 * older.
 */
export async function settleExported(db: Db, accountId: string, { exportedAt }: KeyExport): Promise<void> {
  if (exportedAt !== null) await markLeft(db, accountId, new Date(exportedAt))
}

/**
 * Position to which a process has read the signer's ledger, the ledger's last restore, and whether the stored
 * statements were reported since.
 */
export type ExportedPlace = { through: number; restored?: string; isTold?: boolean }

/**
 * Marks the accounts whose keys were exported according to the signer's ledger, from a position in the ledger on. These
 * are exports by `export-all`, and exports during which a process of the server crashed. Stores the signer's statement
 * about each for `tellHeldElsewhere`.
 * @returns the number of newly marked accounts
 * @throws signer_unavailable, database_unavailable
 */
export async function markExported({ db, signer }: Pick<App, 'db' | 'signer'>, place: ExportedPlace): Promise<number> {
  let marked = 0
  for (;;) {
    const { exported, through, isEnd, restored } = await signer.exported({ after: place.through })
    if (restored !== place.restored) {
      const isOther = place.restored !== undefined
      Object.assign(place, { restored, isTold: false })
      if (isOther) place.through = 0
      if (isOther) continue
    }
    for (const one of exported) {
      if (!one.isBrought) marked += await markUser(db, one.userId, new Date(one.at))
      await keepStatement(db, one)
    }
    const isOlder = through < place.through
    place.through = isOlder ? 0 : through
    if (isEnd && !isOlder) return marked
  }
}

/**
 * Reports to the signer which keys are held elsewhere, by its own stored statements. A signer that was restored from a
 * backup may have lost them, and would reject high nonces of these accounts. Once for each process and restore.
 * @returns `taken`: number of statements that the signer lacked; `refused`: number that it rejects, because another
 *   signer made them
 * @throws signer_unavailable, database_unavailable
 */
export async function tellHeldElsewhere(
  { db, signer }: Pick<App, 'db' | 'signer'>,
  place: ExportedPlace,
): Promise<{ taken: number; refused: number }> {
  const told = { taken: 0, refused: 0 }
  if (place.isTold === true) return told
  for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
    const rows = await db.selectFrom('accounts').select(['account_id', 'user_id', 'elsewhere']).where('elsewhere', 'is not', null).where('account_id', '>', after).orderBy('account_id').limit(MAX_HELD).execute() // prettier-ignore
    if (rows.length > 0) {
      const accounts = rows.flatMap(({ user_id: userId, elsewhere }) => {
        const kept = readKeptStatement(elsewhere!)
        return kept === null ? [] : [{ userId, ...kept }]
      })
      const { taken, refused } = await signer.heldElsewhere({ accounts })
      told.taken += taken
      told.refused += refused + rows.length - accounts.length
    }
    if (rows.length < MAX_HELD) break
    after = rows.at(-1)!.account_id
  }
  place.isTold = true
  return told
}

/**
 * Parses a statement that `keepStatement` stored; null if it is malformed, so that one bad row does not block the
 * others.
 */
export function readKeptStatement(text: string): Omit<HeldElsewhere, 'userId'> | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const { at, isBrought, statement, ...more } = value as Partial<Record<keyof HeldElsewhere, unknown>>
  const isStatement =
    Number.isSafeInteger(at) &&
    (at as number) >= 0 &&
    typeof isBrought === 'boolean' &&
    typeof statement === 'string' &&
    /^0x[0-9a-f]{128}$/.test(statement) &&
    Object.keys(more).length === 0
  return isStatement ? (value as Omit<HeldElsewhere, 'userId'>) : null
}

/** Returns when the key of an account was exported; null: never, as far as this database knows. */
export async function readExported(db: Db, accountId: string): Promise<Date | null> {
  const row = await db
    .selectFrom('accounts')
    .select('exported_at')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.exported_at ?? null
}

/**
 * Lists the newest 500 open key exports, oldest first. Reads them from the signer, which counts their delay.
 * @returns `total`: number of all open key exports
 */
export async function listExports({ signer }: Pick<App, 'signer'>): Promise<{ exports: ExportState[]; total: number }> {
  const { exports, total } = await signer.keyExports()
  return { exports: exports.map(exportWire), total }
}

/**
 * Cancels the key export of a user. Does nothing if the user has none.
 * @param wanted  any identity of the user
 * @throws not_found
 */
export async function cancelExport({ db, signer }: Pick<App, 'db' | 'signer'>, wanted: UserId): Promise<ExportState> {
  const user = await findNamed(db, wanted)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  const { userId } = user
  return exportWire({ ...(await signer.cancelKey({ userId, by: 'operator' })), userId })
}

const exportWire = ({ userId, state, askedAt, readyAt, lapsesAt, exportedAt }: OpenExport): ExportState => ({
  userId,
  state,
  askedAt: timeOf(askedAt),
  readyAt: timeOf(readyAt),
  lapsesAt: timeOf(lapsesAt),
  exportedAt: timeOf(exportedAt),
})

const timeOf = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

/** Sets the mark if there is none. @returns whether this call set it; also false if a retry follows a lost response */
async function markFirst(db: Db, accountId: string, at: Date): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('accounts')
    .set({ exported_at: at })
    .where('account_id', '=', accountId)
    .where('exported_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Sets the mark, or moves it to a later time. */
async function markLeft(db: Db, accountId: string, at: Date): Promise<void> {
  await db
    .updateTable('accounts')
    .set({ exported_at: at })
    .where('account_id', '=', accountId)
    .where((eb) => eb.or([eb('exported_at', 'is', null), eb('exported_at', '<', at)]))
    .execute()
}

async function takeBack(db: Db, accountId: string, mine: Date): Promise<void> {
  await db
    .updateTable('accounts')
    .set({ exported_at: null })
    .where('account_id', '=', accountId)
    .where('exported_at', '=', mine)
    .execute()
}

async function markUser(db: Db, userId: string, at: Date): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable('accounts')
    .set({ exported_at: at })
    .where('user_id', '=', userId)
    .where('exported_at', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** Stores a statement. An exported key that was imported before counts as exported, not as imported. */
async function keepStatement(db: Db, { userId, at, isBrought, statement }: HeldElsewhere): Promise<void> {
  const elsewhere = JSON.stringify({ at, isBrought, statement })
  await db
    .updateTable('accounts')
    .set({ elsewhere })
    .where('user_id', '=', userId)
    .where((eb) => eb.or([eb('elsewhere', 'is', null), eb('elsewhere', '<>', elsewhere)]))
    .$if(isBrought, (query) =>
      query.where((eb) => eb.or([eb('elsewhere', 'is', null), eb('elsewhere', 'like', '%"isBrought":true%')])),
    )
    .execute()
}

/** Marks accounts each minute whose keys the signer's operator exported. Exports by users are marked immediately. */
export function startMarkingExports(app: Pick<App, 'clock' | 'db' | 'signer' | 'telemetry'>): {
  stop(): Promise<void>
} {
  const { log } = app.telemetry
  const place: ExportedPlace = { through: 0 }
  return eachMinute({
    clock: app.clock,
    async work() {
      const marked = await markExported(app, place)
      const { taken, refused } = await tellHeldElsewhere(app, place)
      if (taken > 0) log.info('key_export_reported', { accounts: taken })
      if (refused > 0) log.warn('key_exports_rejected', { accounts: refused })
      return marked
    },
    done: (accounts) => log.info('accounts_marked_exported', { accounts }),
    failed: (error) => log.warn('exports_not_read', {}, error),
  })
}
