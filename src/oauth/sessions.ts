import type { FastifyReply, FastifyRequest } from 'fastify'
import type { KoaContextWithOIDC, Provider } from 'oidc-provider'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Clock } from '../clock.ts'
import type { Db } from '../store/db.ts'
import { ifProven, type IdentityReader } from '../users/proven-identity.ts'
import { findUser, provenUser, type ProvenUser, type User } from '../users/find.ts'
import type { BrowserName } from './browser-name.ts'
import { cameByOf, stillHolds, type CameBy } from './came-by.ts'

/** A signed-in browser. `signedInAt`: seconds since 1970. */
export type Visitor = { user: User; sessionUid: string; signedInAt: number; cameBy: CameBy | null }

/** A visitor whose address is verified and may be shown. */
export type ProvenVisitor = Visitor & { user: ProvenUser }

/** Verifies the address of a visitor. @throws address_not_proven */
export const provenVisitor = async (app: App, visitor: Visitor): Promise<ProvenVisitor> => ({
  ...visitor,
  user: await provenUser(app, visitor.user),
})

/** Returns the user of this browser's session, from the authorization server's signed cookie; null if there is none. */
export async function readVisitor(
  app: IdentityReader,
  provider: Provider,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Visitor | null> {
  // `Session.get` reads nothing but the cookie from its context.
  const context = { req: request.raw, res: reply.raw, secure: false } as unknown as KoaContextWithOIDC
  const session = await provider.Session.get(context)
  const { accountId, uid, loginTs } = session
  const user = accountId === undefined ? null : await ifProven(findUser(app, accountId))
  const cameBy = cameByOf(session)
  if (user === null || !(await stillHolds(app, user, cameBy))) return null
  return { user, sessionUid: uid, signedInAt: loginTs ?? 0, cameBy }
}

/** Maximum age of a sign-in, in seconds, for spending and whatever else an unlocked screen must not suffice for. */
const FRESH_SECONDS = 900

/** Returns whether a sign-in is recent. @param signedInAt  seconds since 1970 */
export const isFresh = (signedInAt: number | undefined, clock: Pick<Clock, 'wall'>, seconds = FRESH_SECONDS): boolean =>
  (signedInAt ?? 0) + seconds > clock.wall() / 1_000

export type ListedSession = { uid: string; signedInAt: Date } & BrowserName

/** Lists the browsers in which a user is signed in, latest first, at most 50. */
export async function listSessions(db: Db, userId: string): Promise<ListedSession[]> {
  const rows = await db
    .selectFrom('oauth_records')
    .select(['uid', 'payload', 'created_at'])
    .where('user_id', '=', userId)
    .where('kind', '=', 'Session')
    .where('expires_at', '>', sql<Date>`now()`)
    .orderBy('created_at', 'desc')
    .limit(50)
    .execute()
  // The seals are not checked: nothing in this list leads to a token.
  const isTime = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 253_402_300_800
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)
  return rows.map(({ uid, payload, created_at }) => {
    const { loginTs, browser, system } = ((payload as unknown) ?? {}) as typeof payload
    return {
      uid: uid!,
      signedInAt: isTime(loginTs) ? new Date(loginTs * 1_000) : created_at,
      browser: text(browser),
      system: text(system),
    }
  })
}

/** Signs out one browser of this user. */
export async function endSession(db: Db, { userId, uid }: { userId: string; uid: string }): Promise<void> {
  await db
    .deleteFrom('oauth_records')
    .where('user_id', '=', userId)
    .where('kind', '=', 'Session')
    .where('uid', '=', uid)
    .execute()
}

/** Signs out every browser of a user except the named session. @returns how many */
export async function endSessions(
  db: Db,
  { userId, except }: { userId: string; except: string | null },
): Promise<number> {
  const gone = await db
    .deleteFrom('oauth_records')
    .where('user_id', '=', userId)
    .where('kind', '=', 'Session')
    .$if(except !== null, (query) => query.where('uid', '!=', except))
    .returning('uid')
    .execute()
  return gone.length
}
