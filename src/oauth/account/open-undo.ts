import { randomUUID } from 'node:crypto'
import type { App } from '../../app.ts'
import { sha256 } from '../../sha256.ts'
import type { Db } from '../../store/db.ts'
import type { ConsentKey } from '../consents.ts'

/** Time in which a revocation can be undone, in milliseconds. */
export const UNDO_MS = 300_000

/**
 * The open undo of an account and an application: that of the last revocation, and only until it is used. It is one
 * record, whose key is the account and the application, so there is never a second one.
 */
const KIND = 'Undo'

const hashOf = ({ accountId, clientId }: ConsentKey): Buffer => sha256(JSON.stringify([accountId, clientId]))

/** Opens the undo of a revocation, in place of any earlier one. Returns its id. */
export async function openUndo(
  { db, clock }: { db: Db } & Pick<App, 'clock'>,
  { userId, ...whose }: ConsentKey & { userId: string },
): Promise<string> {
  const revocation = randomUUID()
  const expiresAt = new Date(clock.wall() + UNDO_MS)
  const values = { uid: revocation, user_id: userId, expires_at: expiresAt }
  await db
    .insertInto('oauth_records')
    .values({ kind: KIND, id_hash: hashOf(whose), grant_id: null, client_id: null, payload: '{}', ...values })
    .onConflict((on) => on.columns(['kind', 'id_hash']).doUpdateSet(values))
    .execute()
  return revocation
}

/** Ends the open undo of an account and an application, if there is one. */
export async function endUndo(db: Db, whose: ConsentKey): Promise<void> {
  await db.deleteFrom('oauth_records').where('kind', '=', KIND).where('id_hash', '=', hashOf(whose)).execute()
}

/** Ends all open undos of a user. */
export async function endUndosOf(db: Db, userId: string): Promise<void> {
  await db.deleteFrom('oauth_records').where('kind', '=', KIND).where('user_id', '=', userId).execute()
}

/** Returns whether the undo of a revocation is still open. */
export async function isUndoOpen(
  db: Db,
  { revocation, ...whose }: ConsentKey & { revocation: string },
): Promise<boolean> {
  const row = await db
    .selectFrom('oauth_records')
    .select('uid')
    .where('kind', '=', KIND)
    .where('id_hash', '=', hashOf(whose))
    .executeTakeFirst()
  return row?.uid === revocation
}

/** Uses the undo of a revocation. Of parallel uses on any replica, one returns true. */
export async function useUndo(db: Db, { revocation, ...whose }: ConsentKey & { revocation: string }): Promise<boolean> {
  const used = await db
    .deleteFrom('oauth_records')
    .where('kind', '=', KIND)
    .where('id_hash', '=', hashOf(whose))
    .where('uid', '=', revocation)
    .returning('uid')
    .executeTakeFirst()
  return used !== undefined
}
