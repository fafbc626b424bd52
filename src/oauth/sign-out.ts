import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { RootDb } from '../store/db.ts'
import { findNamed } from '../users/find.ts'
import { freezeAccount, noteSignedOut } from '../users/freeze.ts'
import type { FreezeState } from '../users/wire.ts'
import { AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import { endGrant, revokeGrant } from './revoke.ts'
import { endSessions } from './sessions.ts'
import type { SignedOut } from './wire.ts'
import { type Clock } from '../clock.ts'

type SignedInAccount = { accountId: string; userId: UserId }
/** How to end a grant: with immediate notice to this process and the signer, or in the database alone. */
export type End = { clock: Clock; end: (grantId: string) => Promise<void> }

/** Ends grants in a server: this process and the signer learn of it immediately. */
export const endIn = (app: App): End => ({ clock: app.clock, end: (grantId) => revokeGrant(app, grantId) })

/** Ends grants in a command: the servers and the signer learn of it within seconds. */
export const endInDatabase = (db: RootDb, clock: Clock): End => ({ clock, end: (grantId) => endGrant(db, grantId) })

/**
 * Signs a user out everywhere: every browser, and every application with all its tokens. Consents remain. The sign-out
 * is recorded first, so that a sign-in in progress does not outlast it.
 * @param wanted  any identity of the user
 * @throws not_found
 */
export async function signOut(db: RootDb, end: End, wanted: UserId): Promise<SignedOut> {
  const user = await findNamed(db, wanted)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  await noteSignedOut({ clock: end.clock, db }, user.accountId)
  return { userId: user.userId, ...(await endAll(db, end, user)) }
}

/** Freezes an account and signs its user out everywhere. For a frozen account, it only signs out. @throws not_found */
export async function freezeAndSignOut(
  db: RootDb,
  end: End,
  wanted: UserId,
  freeze: () => Promise<FreezeState> = () => freezeAccount(db, wanted),
): Promise<FreezeState> {
  const frozen = await freeze()
  await signOut(db, end, frozen.userId)
  return frozen
}

async function endAll(
  db: RootDb,
  { end }: End,
  { userId }: Pick<SignedInAccount, 'userId'>,
): Promise<Omit<SignedOut, 'userId'>> {
  const browsers = await endSessions(db, { userId, except: null })
  const grants = await grantsOf(db, userId)
  for (const { grantId } of grants) await end(grantId)
  return { browsers, applications: grants.length }
}

/**
 * Ends what a removed identity was used for: browsers, applications and all their tokens. Sessions and grants without a
 * recorded identity end with it.
 * @param except  a session that remains signed in; null: none
 */
export async function endIdentity(
  app: App,
  { userId }: SignedInAccount,
  { identity, except }: { identity: UserId; except: string | null },
): Promise<void> {
  const { db } = app
  await db
    .deleteFrom('oauth_records')
    .where('user_id', '=', userId)
    .where('kind', '=', 'Session')
    .where(sql<boolean>`(payload->'amr' is null or payload->'amr'->>0 = ${identity})`)
    .$if(except !== null, (query) => query.where('uid', '!=', except))
    .execute()
  for (const grant of await grantsOf(db, userId))
    if (grant.identity === null || grant.identity === identity) await revokeGrant(app, grant.grantId)
}

/** Returns the live sign-ins of applications, each with the identity that the user signed in with. */
export async function grantsOf(
  db: RootDb,
  userId: UserId,
): Promise<{ grantId: string; clientId: string; identity: string | null }[]> {
  const rows = await db
    .selectFrom('oauth_records')
    .select(['client_id', 'grant_id', 'payload'])
    .where('user_id', '=', userId)
    .where('kind', '=', 'Grant')
    .where('expires_at', '>', sql<Date>`now()`)
    .execute()
  return rows.map(({ grant_id, client_id, payload }) => {
    // A forged payload must not prevent a sign-out.
    const identity = (payload as typeof payload | null)?.identity
    return { grantId: grant_id!, clientId: client_id!, identity: typeof identity === 'string' ? identity : null }
  })
}
