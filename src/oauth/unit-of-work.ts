import { errors, Provider, type AdapterPayload, type KoaContextWithOIDC } from 'oidc-provider'
import type { App } from '../app.ts'
import type { UserId } from '../ids.ts'
import type { IdentityReader } from '../users/proven-identity.ts'
import { findUser, type User } from '../users/find.ts'
import { redeem, storeRecords, type NewRecord, type PresentedRecord, type RecordKey } from './record-writes.ts'
import { sha256 } from '../sha256.ts'

/**
 * The records that one request to the authorization server has read ahead, and those that it has still to write.
 *
 * The library reads and writes record by record. Here, one statement writes the grant, code and session of a sign-in,
 * and one uses up a code and stores its refresh token. Everything is written before the response. Nothing outlives the
 * request.
 */
export type UnitOfWork = {
  users: Map<UserId, User>
  grants: Map<string, AdapterPayload>
  /** the user's consent to the application of this request, and whether their use of it is noted */
  consent: KnownConsent | null
  /**
   * the consent that the grant of this request relies on without asking: it must still exist when the grant is written
   */
  restsOn: { accountId: string; clientId: string } | null
  /** records to write with the session */
  fresh: NewRecord[]
  /** records to delete when `fresh` is written */
  ended: RecordKey[]
  /** the code or refresh token that this request came with */
  presented: PresentedRecord | null
  /** the same, if it is to be used up with its successor */
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
 * SHA-256 of the id of the session that a request came with or has written. The library writes the session at the end.
 * It is stored by the library's request context, to which we cannot add fields, and ends with it.
 */
const foundSessions = new WeakMap<object, string>()

/** Notes the session that the request came with. */
export function noteSession(id: string): void {
  const ctx = Provider.ctx
  if (ctx !== undefined) foundSessions.set(ctx, sha256(id).toString('hex'))
}

const ROUTES = new Set(['authorization', 'resume', 'token'])
/** by the library's request context */
const open = new WeakMap<object, UnitOfWork>()

/** Returns the unit of work of the current request; null unless the request signs in or issues tokens. */
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

/** Returns whether this request will write its session, so that other records can be written with it. */
export function willWriteSession(): boolean {
  const ctx = Provider.ctx
  if (ctx === undefined || (ctx.oidc.route !== 'authorization' && ctx.oidc.route !== 'resume')) return false
  const session = ctx.oidc.session as (KoaContextWithOIDC['oidc']['session'] & SessionMarks) | undefined
  if (session === undefined || session.destroyed === true) return false
  // The result of the pages becomes part of the session in this request.
  return session.new !== true || session.touched === true || ctx.oidc.entities.Interaction?.result?.login !== undefined
}

/** Fields by which the library decides whether to write a session. */
type SessionMarks = { new?: boolean; touched?: boolean; destroyed?: boolean }

/** Reads a user, once per request. */
export async function userInRequest(app: IdentityReader, userId: UserId): Promise<User | null> {
  const work = unitOfWork()
  const known = work?.users.get(userId)
  if (known !== undefined) return known
  const user = await findUser(app, userId)
  if (user !== null) work?.users.set(userId, user)
  return user
}

/** Writes the pending records and this one: all or none. */
export async function writeWith({ db }: Pick<App, 'db'>, record: NewRecord): Promise<void> {
  const work = unitOfWork()
  const { fresh, ended } = work === null ? { fresh: [], ended: [] } : takeWrites(work)
  const ctx = Provider.ctx
  const session = (ctx === undefined ? undefined : foundSessions.get(ctx)) ?? null
  try {
    await storeRecords(db, { fresh: [...fresh, record], ended, grounds: { session, consent: work?.restsOn ?? null } })
    // The library may write the session again, under its current id.
    if (ctx !== undefined) foundSessions.set(ctx, record.id_hash)
  } catch (error) {
    // Remove a redirect that is already set: its code is not stored.
    Provider.ctx?.remove('location')
    throw error
  }
}

/**
 * Writes the records that are still pending when a request ends, even by an error. Register it before all other
 * middleware.
 */
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
    // The request was rejected after presenting this record, which then counts as used.
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
