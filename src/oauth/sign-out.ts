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
/** How an end of a grant is made known: to this process and the signer, or in the database alone. */
export type End = { clock: Clock; end: (grantId: string) => Promise<void> }

/** In a server, which tells its own doors and the signer immediately. */
export const endIn = (app: App): End => ({ clock: app.clock, end: (grantId) => revokeGrant(app, grantId) })

/** In a command: the servers and the signer learn of it within seconds. */
export const endInDatabase = (db: RootDb, clock: Clock): End => ({ clock, end: (grantId) => endGrant(db, grantId) })

/**
 * Signs someone out everywhere: every browser, and every application with all its tokens. What they allowed stays
 * allowed. In this order: what is under way when it is noted counts for nothing when it is done.
 * @param wanted  the user, by any identity of theirs
 * @throws not_found
 */
export async function signOut(db: RootDb, end: End, wanted: UserId): Promise<SignedOut> {
  const user = await findNamed(db, wanted)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  await noteSignedOut({ clock: end.clock, db }, user.accountId)
  return { userId: user.userId, ...(await endAll(db, end, user)) }
}

/** Freezes an account and signs its owner out everywhere. Frozen again, only the latter. @throws not_found */
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
 * Ends what came by an identity that was removed: browsers, applications and all their tokens. What is too old to have
 * noted how it came ends with it.
 * @param except  the session in which it was removed, which stays when it did not come that way
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

/** Sign-ins of applications that still work, each with the identity it came by. */
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
    // What someone else wrote there must not keep a person from being signed out.
    const identity = (payload as typeof payload | null)?.identity
    return { grantId: grant_id!, clientId: client_id!, identity: typeof identity === 'string' ? identity : null }
  })
}
