import type { App } from '../app.ts'
import { ACCOUNT_FROZEN, AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import type { RootDb } from '../store/db.ts'
import { laterThan } from '../store/later-than.ts'
import { findNamed } from './find.ts'
import type { FreezeState } from './wire.ts'

/**
 * Freezes an account: within seconds it cannot send anything, here and in the signer, and its identities cannot be
 * changed. Transactions already sent are still followed. Idempotent. oauth/sign-out.ts ends the existing sign-ins.
 * @param userId  any identity of the user
 * @throws not_found
 */
export const freezeAccount = (db: RootDb, userId: UserId): Promise<FreezeState> => set(db, userId, { isFrozen: true })

/** Unfreezes an account, here and in the signer. @throws not_found */
export const unfreezeAccount = (db: RootDb, userId: UserId): Promise<FreezeState> =>
  set(db, userId, { isFrozen: false })

/** Returns since when an account is frozen, if it is. @throws not_found */
export async function readFreezable(db: RootDb, wanted: UserId): Promise<FreezeState> {
  const user = await findNamed(db, wanted)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  const row = await db
    .selectFrom('accounts')
    .select('frozen_at')
    .where('account_id', '=', user.accountId)
    .executeTakeFirstOrThrow()
  return { userId: user.userId, frozenAt: row.frozen_at?.toISOString() ?? null }
}

/**
 * Lists the frozen accounts, longest frozen first, without pages: each process holds them all to reject their requests.
 */
export async function listFrozen(db: RootDb): Promise<FreezeState[]> {
  const rows = await db
    .selectFrom('accounts')
    .select(['user_id', 'frozen_at'])
    .where('frozen_at', 'is not', null)
    .orderBy('frozen_at')
    .orderBy('user_id')
    .execute()
  return rows.map((row) => ({ userId: row.user_id, frozenAt: row.frozen_at!.toISOString() }))
}

/** Ends the validity of all earlier sign-ins. Uses the clock of this process, as sign-ins do. */
export async function noteSignedOut({ clock, db }: Pick<App, 'clock' | 'db'>, accountId: string): Promise<void> {
  await db
    .updateTable('accounts')
    .set({ signed_out_at: new Date(clock.wall()) })
    .where('account_id', '=', accountId)
    .execute()
}

/**
 * Checks that the identities of an account may change and its user may be deleted: it is not frozen.
 * @throws account_frozen
 */
export async function assertChangeable(db: RootDb, accountId: string): Promise<void> {
  const row = await db.selectFrom('accounts').select('frozen_at').where('account_id', '=', accountId).executeTakeFirst()
  if ((row?.frozen_at ?? null) !== null) throw new AppError('account_frozen', ACCOUNT_FROZEN)
}

/** Stores a time that is later than the previous one (later-than.ts). */
async function set(db: RootDb, wanted: UserId, { isFrozen }: { isFrozen: boolean }): Promise<FreezeState> {
  const user = await findNamed(db, wanted)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  const { accountId, userId } = user
  await db
    .updateTable('accounts')
    .set(isFrozen ? { frozen_at: laterThan('unfrozen_at') } : { frozen_at: null, unfrozen_at: laterThan('frozen_at') })
    .where('account_id', '=', accountId)
    .where('frozen_at', isFrozen ? 'is' : 'is not', null)
    .execute()
  return readFreezable(db, userId)
}
