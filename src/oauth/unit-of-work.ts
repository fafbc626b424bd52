import { errors, Provider, type AdapterPayload, type KoaContextWithOIDC } from 'oidc-provider'
import type { App } from '../app.ts'
import type { UserId } from '../ids.ts'
import type { IdentityReader } from '../users/proven-identity.ts'
import { findUser, type User } from '../users/find.ts'
import { redeem, storeRecords, type NewRecord, type PresentedRecord, type RecordKey } from './record-writes.ts'
import { sha256 } from '../sha256.ts'

/**
 * What one request to the authorization server has read beside what it asked for, and what it has still to write.
 *
 * The library reads and writes record by record. A sign-in is one thing all the same: its grant, its code and its
 * session are written by one statement, and so are the use of a code and the refresh token that comes of it. All is
 * written before the request is answered. Nothing here outlives the request.
 */
export type UnitOfWork = {
  users: Map<UserId, User>
  grants: Map<string, AdapterPayload>
  /** what a person has allowed the application of this request, and whether it is noted that they use it */
  consent: KnownConsent | null
  /** the grant of this request rests on what was allowed before, and nobody is asked: it has to be there still */
  restsOn: { accountId: string; clientId: string } | null
  /** records that are written with the session */
  fresh: NewRecord[]
  /** records that end when those are written */
  ended: RecordKey[]
  /** the code or refresh token that this request came with */
  presented: PresentedRecord | null
  /** the same, to be used up with the refresh token that follows it */
  used: PresentedRecord | null
}

type KnownConsent = {
  accountId: string
  clientId: string
  permissions: string[]
  ways: string[]
  isNoted: boolean
}

/**
 * The session that a request came with, or has written: SHA-256 of its id. The library writes it at the end. By its context of
 * one request, which is the library's and not ours to add fields to; gone with it.
 */
const foundSessions = new WeakMap<object, string>()

/** Remembers that a session was there when the request began. */
export function noteSession(id: string): void {
  const ctx = Provider.ctx
  if (ctx !== undefined) foundSessions.set(ctx, sha256(id).toString('hex'))
}

const ROUTES = new Set(['authorization', 'resume', 'token'])
/** by the library's context, too */
const open = new WeakMap<object, UnitOfWork>()

/** The work of the request that is being answered; null where it is none that signs someone in or gives tokens. */
export function unitOfWork(): UnitOfWork | null {
  const ctx = Provider.ctx
  if (ctx === undefined || !ROUTES.has(ctx.oidc.route)) return null
  const known = open.get(ctx)
  if (known !== undefined) return known
  const work: UnitOfWork = {
    users: new Map(),
    grants: new Map(),
    consent: null,
    restsOn: null,
    fresh: [],
    ended: [],
    presented: null,
    used: null,
  }
  open.set(ctx, work)
  return work
}

/** Whether this request ends by writing its session, so that what belongs to it can wait for that. */
export function willWriteSession(): boolean {
  const ctx = Provider.ctx
  if (ctx === undefined || (ctx.oidc.route !== 'authorization' && ctx.oidc.route !== 'resume')) return false
  const session = ctx.oidc.session as (KoaContextWithOIDC['oidc']['session'] & SessionMarks) | undefined
  if (session === undefined || session.destroyed === true) return false
  // What the person said on the pages becomes part of the session in this request.
  return session.new !== true || session.touched === true || ctx.oidc.entities.Interaction?.result?.login !== undefined
}

/** As the library decides whether a session is written. */
type SessionMarks = { new?: boolean; touched?: boolean; destroyed?: boolean }

/** A user, read once in a request. */
export async function userInRequest(app: IdentityReader, userId: UserId): Promise<User | null> {
  const work = unitOfWork()
  const known = work?.users.get(userId)
  if (known !== undefined) return known
  const user = await findUser(app, userId)
  if (user !== null) work?.users.set(userId, user)
  return user
}

/** Writes what waits, and this. All of it is there afterwards, or nothing. */
export async function writeWith({ db }: Pick<App, 'db'>, record: NewRecord): Promise<void> {
  const work = unitOfWork()
  const { fresh, ended } = work === null ? { fresh: [], ended: [] } : takeWrites(work)
  const ctx = Provider.ctx
  const session = (ctx === undefined ? undefined : foundSessions.get(ctx)) ?? null
  try {
    await storeRecords(db, { fresh: [...fresh, record], ended, grounds: { session, consent: work?.restsOn ?? null } })
    // The library may write it again, under the id that it has now.
    if (ctx !== undefined) foundSessions.set(ctx, record.id_hash)
  } catch (error) {
    // An answer may be there already, with a code that is worth nothing.
    Provider.ctx?.remove('location')
    throw error
  }
}

/** Writes what still waits when a request is over, on whichever way it ended. To be used before everything else. */
export function writeAtEnd(provider: Provider, app: App): void {
  provider.use(async (ctx, next) => {
    try {
      await next()
    } finally {
      const work = open.get(ctx)
      if (work !== undefined) await finish(app, work, ctx.status)
    }
  })
}

async function finish(app: App, work: UnitOfWork, status: number): Promise<void> {
  const { fresh, ended, used } = takeWrites(work)
  try {
    if (fresh.length + ended.length > 0) await storeRecords(app.db, { fresh, ended })
    // Anyone who came with it was refused, after it had counted as used.
    if (used !== null) await redeem(app, used, null)
  } catch (error) {
    if (error instanceof errors.InvalidGrant && status >= 400) return
    app.telemetry.log.error('oauth_failed', {}, error)
    throw error
  }
}

function takeWrites(work: UnitOfWork): Pick<UnitOfWork, 'fresh' | 'ended' | 'used'> {
  const { fresh, ended, used } = work
  Object.assign(work, { fresh: [], ended: [], used: null })
  return { fresh, ended, used }
}
