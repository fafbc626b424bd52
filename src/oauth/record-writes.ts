import { errors } from 'oidc-provider'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { RootDb } from '../store/db.ts'
import { prepared } from '../store/prepared.ts'
import { sealOf } from '../store/seal.ts'
import type { RecordContent } from './record-macs.ts'
import { revokeGrant } from './revoke.ts'
import { sha256 } from '../sha256.ts'
import { type Clock } from '../clock.ts'

/** A row of `oauth_records`; times in ISO 8601, the hash of the id in hexadecimal. */
export type NewRecord = RecordContent & { expires_at: string | null; access_until: string | null; seal: string | null }

export type RecordKey = { kind: string; id: string }

/** Matches kinds whose rows are written once. Rows of other kinds are replaced. */
const isWrittenOnce = sql`oauth_records.kind in ('AuthorizationCode', 'RefreshToken')`

const members = (records: NewRecord[]) => sql`
  select kind, decode(id_hash, 'hex'), grant_id, uid, user_id, client_id, payload, expires_at, access_until, seal
  from json_to_recordset(${JSON.stringify(records)}::json) as fresh (kind text, id_hash text, grant_id text, uid text,
    user_id text, client_id text, payload jsonb, expires_at timestamptz, access_until timestamptz, seal text)`

const insert = sql`
  insert into oauth_records (kind, id_hash, grant_id, uid, user_id, client_id, payload, expires_at, access_until, seal)`

const orReplace = sql`
  on conflict (kind, id_hash) do update set grant_id = excluded.grant_id, uid = excluded.uid, user_id = excluded.user_id,
    client_id = excluded.client_id, payload = excluded.payload, expires_at = excluded.expires_at, seal = excluded.seal
  where not ${isWrittenOnce}`

/** Rows that must still exist when records that rely on them are written; they were read when the request began. */
export type Grounds = {
  /** the session of this browser: SHA-256 of its id, in hexadecimal */
  session: string | null
  /** the consent that was used without asking the user again */
  consent: { accountId: string; clientId: string } | null
}

/**
 * Writes records and deletes others, in one statement. If a ground no longer exists, it writes nothing, but still
 * deletes. So a browser that was signed out remains signed out, and revoked consent is asked for again.
 * @throws session_not_found, consent_required
 */
export async function storeRecords(
  db: RootDb,
  {
    fresh,
    ended,
    grounds = { session: null, consent: null },
  }: { fresh: NewRecord[]; ended: RecordKey[]; grounds?: Grounds },
): Promise<void> {
  const { session, consent } = grounds
  if (ended.length === 0 && session === null && consent === null)
    return void (await sql`${prepared}${insert}${members(fresh)}${orReplace}`.execute(db))
  const hashOf = (kind: string): Buffer | null => {
    const found = ended.find((one) => one.kind === kind)
    return found === undefined ? null : sha256(found.id)
  }
  // If this statement deletes the session, the deletion shows that it existed; otherwise a lock prevents others from
  // deleting it.
  const isMoved = session !== null && hashOf('Session')?.toString('hex') === session
  const held = isMoved ? sql`select from ended_session` : sql`select from held_session`
  const { rows } = await sql<{ has_session: boolean; is_allowed: boolean }>`${prepared}
      with ended_interaction as (
        delete from oauth_records where kind = 'Interaction' and id_hash = ${hashOf('Interaction')}::bytea
      ), ended_session as (
        delete from oauth_records where kind = 'Session' and id_hash = ${hashOf('Session')}::bytea returning kind
      ), held_session as (
        select kind from oauth_records
        where kind = 'Session' and id_hash = decode(${isMoved ? null : session}::text, 'hex') for update
      ), allowed as (
        select client_id from consents where account_id = ${consent?.accountId ?? null}::uuid and client_id = ${consent?.clientId ?? null}::text
        for share
      ), grounds as (
        select ${session === null}::boolean or exists (${held}) as has_session,
          ${consent === null}::boolean or exists (select from allowed) as is_allowed
      ), stored as (
        ${insert}
        select fresh.* from (${members(fresh)}) as fresh, grounds where has_session and is_allowed
        ${orReplace}
      )
      select has_session, is_allowed from grounds`.execute(db)
  const { has_session: hasSession, is_allowed: isAllowed } = rows[0]!
  if (!hasSession) throw new errors.SessionNotFound('this browser is signed out')
  if (!isAllowed) throw new errors.ConsentRequired('the consent was revoked')
}

/** A code or a refresh token as a request found it, and when, by the database clock. */
export type PresentedRecord = { record: RecordContent; readAt: string }

type DependentRecord = { record: NewRecord; grantId: string; /** seconds since 1970 */ exp: number }

/**
 * Uses up a code or a refresh token and stores its successor, in one conditional statement: of parallel requests on any
 * number of replicas, one finds it unused.
 * - Within the grace time a refresh token may be used again. It yields the same successor, if that is bound to the same
 *   key, or both are bound to none.
 * - A later use, or one with another key, means that a token was stolen: the grant ends.
 * - A grant lives as long as its newest refresh token and the access token issued with it.
 * - `access_until` is when the last access token expires; it never decreases, even if settings do.
 * - If the grant was revoked, no successor is stored.
 *
 * The row counts as used from the time at which this request read it, so that its new seal is known in advance.
 * @param follower  the successor; null: none
 * @throws invalid_grant
 * Source: RFC 9700 §4.5 and §4.14.2
 */
export async function redeem(
  app: App,
  { record: used, readAt }: PresentedRecord,
  follower: DependentRecord | null,
): Promise<void> {
  const { db, config } = app
  const { kind, id_hash: idHash } = used
  const seal = sealOf(app.sealKeys, 'oauth_records', { ...used, consumed_at: readAt })
  const using = sql`
    update oauth_records set consumed_at = coalesce(consumed_at, ${readAt}::timestamptz),
      seal = case when consumed_at is null then ${seal} else seal end
    where kind = ${kind} and id_hash = ${Buffer.from(idHash, 'hex')} and not ${consumedFor(graceOf(app, kind), 'oauth_records')}
    returning kind`
  if (follower === null) {
    const { rows } = await sql`${using}`.execute(db)
    return rows.length > 0 ? undefined : refuse(app, used)
  }
  const { record, grantId } = follower
  const exp = follower.exp + config.ACCESS_TOKEN_SECONDS
  const { rows } = await sql<{ is_used: boolean; is_held: boolean; is_new: boolean }>`${prepared}
      with used as (${using}), held as (
        update oauth_records set
          expires_at = greatest(expires_at, ${new Date(exp * 1_000)}::timestamptz),
          payload = jsonb_set(payload, '{exp}', to_jsonb(greatest(floor((payload->>'exp')::numeric)::bigint, ${exp}::bigint))),
          access_until = greatest(coalesce(access_until, expires_at), ${inSeconds(app.clock, config.ACCESS_TOKEN_SECONDS)}::timestamptz)
        where kind = 'Grant' and id_hash = ${sha256(grantId)} and exists (select from used)
        returning kind
      ), followed as (
        ${insert}
        select fresh.* from (${members([record])}) as fresh where exists (select from held)
        on conflict (kind, id_hash) do nothing returning kind
      )
      select exists (select from used) as is_used, exists (select from held) as is_held, exists (select from followed) as is_new`.execute(
    db,
  )
  const { is_used: isUsed, is_held: isHeld, is_new: isNew } = rows[0]!
  if (!isUsed) return refuse(app, used)
  if (!isHeld) throw new errors.InvalidGrant('the grant was revoked')
  if (isNew || (await keyOfSuccessor(db, record)) === (record.payload?.jkt ?? null)) return
  // Another client was first and bound the successor to its key. Without a revocation, the user would notice too late.
  await revokeGrant(app, grantId)
  throw new errors.InvalidGrant('the code or token was already used with another key')
}

/** Returns the key that an existing successor is bound to; null for none. */
async function keyOfSuccessor(db: RootDb, record: NewRecord): Promise<unknown> {
  const row = await find(db, record)
  return (row?.payload as { jkt?: unknown } | undefined)?.jkt ?? null
}

/**
 * Revokes the grant of a record that was already used. Without a row, the grant has already ended. @throws
 * invalid_grant
 */
async function refuse(app: App, used: RecordContent): Promise<never> {
  const before = await find(app.db, used)
  if (before?.grant_id) await revokeGrant(app, before.grant_id)
  throw new errors.InvalidGrant('the code or token was already used')
}

const find = (db: RootDb, { kind, id_hash: hash }: RecordContent) =>
  db
    .selectFrom('oauth_records')
    .select(['grant_id', 'payload'])
    .where('kind', '=', kind)
    .where('id_hash', '=', Buffer.from(hash, 'hex'))
    .executeTakeFirst()

/** Returns the time within which a record of this kind may be used again, in seconds. */
export const graceOf = ({ config }: Pick<App, 'config'>, kind: string): number =>
  kind === 'RefreshToken' ? config.REFRESH_GRACE_SECONDS : 0

/**
 * Returns SQL for whether a record was used longer ago than the grace time, by the database clock: replicas' clocks
 * differ. Without a grace time no clock is compared: of two competing transactions, the later winner may have begun
 * earlier.
 */
export const consumedFor = (graceSeconds: number, table: 'oauth_records' | 'record') => {
  const at = sql.ref(`${table}.consumed_at`)
  return graceSeconds === 0
    ? sql<boolean>`(${at} is not null)`
    : sql<boolean>`(${at} is not null and ${at} <= now() - make_interval(secs => ${graceSeconds}))`
}

export const inSeconds = ({ wall }: Clock, seconds: number): Date => new Date(wall() + seconds * 1_000)
