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

/** A signed-in browser. */
export type Visitor = { user: User; sessionUid: string; signedInAt: number; cameBy: CameBy | null }

/** One whose address may be shown. */
export type ProvenVisitor = Visitor & { user: ProvenUser }

/** @throws address_not_proven */
export const provenVisitor = async (app: App, visitor: Visitor): Promise<ProvenVisitor> => ({
  ...visitor,
  user: await provenUser(app, visitor.user),
})

/** Who is signed in in this browser, by the signed cookie of the authorization server; null when nobody is. */
export async function readVisitor(
  app: IdentityReader,
  provider: Provider,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Visitor | null> {
  // All that it reads of a context is the cookie.
  const context = { req: request.raw, res: reply.raw, secure: false } as unknown as KoaContextWithOIDC
  const session = await provider.Session.get(context)
  const { accountId, uid, loginTs } = session
  const user = accountId === undefined ? null : await ifProven(findUser(app, accountId))
  const cameBy = cameByOf(session)
  if (user === null || !(await stillHolds(app, user, cameBy))) return null
  return { user, sessionUid: uid, signedInAt: loginTs ?? 0, cameBy }
}

/** Spending, and whatever else an unlocked screen alone must not be enough for, takes a sign-in this fresh, seconds. */
const FRESH_SECONDS = 900

/** @param signedInAt  seconds since 1970 */
export const isFresh = (signedInAt: number | undefined, clock: Pick<Clock, 'wall'>, seconds = FRESH_SECONDS): boolean =>
  (signedInAt ?? 0) + seconds > clock.wall() / 1_000

export type ListedSession = { uid: string; signedInAt: Date } & BrowserName

/** Browsers in which someone is signed in, the latest first; 50 at most. */
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
  // No MAC is looked at for a list: what is in it leads to no token.
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

/** Signs one browser of someone out; another person's stays. */
export async function endSession(db: Db, { userId, uid }: { userId: string; uid: string }): Promise<void> {
  await db
    .deleteFrom('oauth_records')
    .where('user_id', '=', userId)
    .where('kind', '=', 'Session')
    .where('uid', '=', uid)
    .execute()
}

/** Signs every browser of someone out, but the one that is named. @returns how many */
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
