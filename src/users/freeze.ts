import type { App } from '../app.ts'
import { ACCOUNT_FROZEN, AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import type { RootDb } from '../store/db.ts'
import { laterThan } from '../store/later-than.ts'
import { findNamed } from './find.ts'
import type { FreezeState } from './wire.ts'

/**
 * Freezes an account: it moves nothing any more, here and in the signer, everywhere within seconds, and its ways to sign
 * in do not change. What was sent before is followed to its end. Frozen again it stays as it was. The sign-ins of before
 * are ended by oauth/sign-out.ts.
 * @param userId  the user, by any identity of theirs
 * @throws not_found
 */
export const freezeAccount = (db: RootDb, userId: UserId): Promise<FreezeState> => set(db, userId, { isFrozen: true })

/** Lets a frozen account continue, and the signer know that it may. @throws not_found */
export const unfreezeAccount = (db: RootDb, userId: UserId): Promise<FreezeState> =>
  set(db, userId, { isFrozen: false })

/** Whether an account is frozen. @throws not_found */
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

/** Every account that is frozen, the longest frozen first. All at once: each process holds them all to refuse them. */
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

/**
 * Notes that every sign-in of before counts for nothing. By the clock of this process, as sign-ins are.
 */
export async function noteSignedOut({ clock, db }: Pick<App, 'clock' | 'db'>, accountId: string): Promise<void> {
  await db
    .updateTable('accounts')
    .set({ signed_out_at: new Date(clock.wall()) })
    .where('account_id', '=', accountId)
    .execute()
}

/**
 * Stops who would change the ways to sign in of a frozen account, or delete what is known of its owner.
 * @throws account_frozen
 */
export async function assertChangeable(db: RootDb, accountId: string): Promise<void> {
  const row = await db.selectFrom('accounts').select('frozen_at').where('account_id', '=', accountId).executeTakeFirst()
  if ((row?.frozen_at ?? null) !== null) throw new AppError('account_frozen', ACCOUNT_FROZEN)
}

/** Each time after the one before (later-than.ts). */
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
