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
 * The key of an account, sealed, and the account marked as exported. Marked before the signer is asked: a process that dies in
 * between leaves an account that counts as exported and may not be, never one that is and does not count. A key that left does not
 * come back, so only the request that set a mark takes it back, and only while nobody else has the key.
 * @throws what the signer refuses it with; the mark is then what it was
 */
export async function takeKey(
  { db, signer, clock }: Pick<App, 'db' | 'signer' | 'clock'>,
  { accountId, userId, token }: { accountId: string; userId: UserId; token: string },
): Promise<Awaited<ReturnType<Signer['takeKey']>>> {
  const at = clock.wall()
  const isOurs = await markFirst(db, accountId, new Date(at))
  try {
    const sealed = await signer.takeKey({ token })
    // Another time than that of any request under way: that one may be removed yet.
    await markLeft(db, accountId, new Date(Math.max(clock.wall(), at + 1)))
    return sealed
  } catch (error) {
    // Unknown is not refused: the signer may have sealed it.
    if (!(error instanceof AppError) || error.code === 'signer_unavailable') throw error
    const state = await signer.keyExport({ userId })
    if (state.exportedAt !== null) await settleExported(db, accountId, state)
    else if (isOurs) await takeBack(db, accountId, new Date(at))
    throw error
  }
}

/** The mark as the signer's ledger has it; where that knows of no export, as it was: the ledger may be an older one. */
export async function settleExported(db: Db, accountId: string, { exportedAt }: KeyExport): Promise<void> {
  if (exportedAt !== null) await markLeft(db, accountId, new Date(exportedAt))
}

/** Where a process is in the ledger of the signer, the last restore of that, and whether it was told since what was kept here. */
export type ExportedPlace = { through: number; restored?: string; isTold?: boolean }

/**
 * Marks the accounts whose keys left by the signer's ledger, after a place in it: those that its own user took out with
 * `export-all`, and a key whose person did not come back after a process died here. What the signer has signed of each is kept for
 * `tellHeldElsewhere`.
 * @returns how many counted as exported by it for the first time
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
 * Tells the signer which keys are elsewhere, too, by its own word that was kept: one that was restored from before has lost it, and would refuse
 * nonces of these accounts that lie far ahead. Once for each process and restore.
 * @returns how many it had not known, and how many it does not believe: another signer said so
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

/** The reverse of what `keepStatement` stores; null where it cannot be that: one row holds up nobody else's. */
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

/** When the key of an account left; null: never, as far as this database knows. */
export async function readExported(db: Db, accountId: string): Promise<Date | null> {
  const row = await db
    .selectFrom('accounts')
    .select('exported_at')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.exported_at ?? null
}

/**
 * Requests for keys that are under way, the newest 500 of them, the oldest first. Of the signer, which counts their delay.
 * @returns `total`: how many there are
 */
export async function listExports({ signer }: Pick<App, 'signer'>): Promise<{ exports: ExportState[]; total: number }> {
  const { exports, total } = await signer.keyExports()
  return { exports: exports.map(exportWire), total }
}

/**
 * Ends the request for someone's key; where there is none it does nothing.
 * @param wanted  the user, by any identity of theirs
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

/** @returns whether the mark is this request's: there was none. Said again after its answer was lost it is not, and stays. */
async function markFirst(db: Db, accountId: string, at: Date): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('accounts')
    .set({ exported_at: at })
    .where('account_id', '=', accountId)
    .where('exported_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Forwards only. */
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

/** A key that was brought and has left since has left. */
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

/** Marks whose keys left: an export by a person is marked at once, one by the signer's operator by this. */
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
      if (taken > 0) log.info('held_elsewhere_told', { accounts: taken })
      if (refused > 0) log.warn('held_elsewhere_refused', { accounts: refused })
      return marked
    },
    done: (accounts) => log.info('accounts_marked_exported', { accounts }),
    failed: (error) => log.warn('exports_not_read', {}, error),
  })
}
