import { errors, Provider, type Adapter, type AdapterPayload } from 'oidc-provider'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { machineGrantOf, scopesOf, verifyAccessToken } from '../http/bearer.ts'
import { retrying } from '../store/db.ts'
import { browserNameOf } from './browser-name.ts'
import { readClient } from './clients.ts'
import { revokeGrant } from './revoke.ts'
import { sha256 } from './secrets.ts'

/** Kinds whose rows are written once; everything else is written again as it goes on. */
const WRITTEN_ONCE = new Set(['AuthorizationCode', 'RefreshToken'])

/** How an access token reaches `find`: the library refuses to look at what it recognises as a JWT, see mount.ts. */
export const ACCESS_TOKEN_MARK = 'at.'

/**
 * Storage of the authorization server, one adapter per kind of record. Ids are credentials (codes, refresh tokens,
 * session cookies), so a row is found by the SHA-256 of its id and does not hold the id itself.
 */
export function recordsOf(app: App): (kind: string) => Adapter {
  return (kind) => {
    if (kind === 'Client') return { ...readOnly, find: (clientId) => readClient(app, clientId) }
    if (kind === 'AccessToken') return { ...readOnly, find: (marked) => readAccessToken(app, marked, 'user') }
    if (kind === 'ClientCredentials') {
      return {
        ...readOnly,
        find: (marked) => readAccessToken(app, marked, 'machine'),
        destroy: (tokenId) => revokeGrant(app, machineGrantOf(tokenId)),
      }
    }
    return storedRecords(app, kind)
  }
}

function storedRecords(app: App, kind: string): Adapter {
  const { db, config } = app
  return {
    async upsert(id, payload, expiresIn) {
      const { jti: _jti, ...kept } = payload
      // The id of the session that an interaction began in is a credential too, and nothing reads it back.
      if (kind === 'Interaction' && kept.session !== undefined) delete (kept.session as { cookie?: string }).cookie
      // By what a person tells their browsers apart; the cookie of a session comes from the browser that it is of.
      if (kind === 'Session') Object.assign(kept, browserNameOf(Provider.ctx?.get('user-agent') ?? ''))
      const values = {
        grant_id: kind === 'Grant' ? id : (payload.grantId ?? null),
        uid: payload.uid ?? null,
        user_id: kind === 'Grant' || kind === 'Session' ? (payload.accountId ?? null) : null,
        client_id: kind === 'Grant' ? (payload.clientId ?? null) : null,
        payload: JSON.stringify(kept),
        expires_at: expiresIn === undefined ? null : inSeconds(expiresIn),
      }
      const accessUntil = kind === 'Grant' ? inSeconds(config.CODE_SECONDS + config.ACCESS_TOKEN_SECONDS) : null
      await retrying(() =>
        db
          .insertInto('oauth_records')
          .values({ kind, id_hash: sha256(id), ...values, access_until: accessUntil })
          .onConflict((on) =>
            WRITTEN_ONCE.has(kind) ? on.doNothing() : on.columns(['kind', 'id_hash']).doUpdateSet(values),
          )
          .execute(),
      )
      if (kind === 'RefreshToken' && payload.grantId !== undefined && payload.exp !== undefined)
        await extendGrant(app, payload.grantId, payload.exp)
    },

    async find(id) {
      const row = await retrying(() =>
        db
          .selectFrom('oauth_records')
          .select([
            'payload',
            consumedFor(kind === 'RefreshToken' ? config.REFRESH_GRACE_SECONDS : 0).as('is_consumed'),
          ])
          .where('kind', '=', kind)
          .where('id_hash', '=', sha256(id))
          .executeTakeFirst(),
      )
      if (row === undefined) return undefined
      return { ...(row.payload as AdapterPayload), jti: id, ...(row.is_consumed ? { consumed: true } : {}) }
    },

    async findByUid(uid) {
      const row = await retrying(() =>
        db
          .selectFrom('oauth_records')
          .select('payload')
          .where('kind', '=', kind)
          .where('uid', '=', uid)
          .executeTakeFirst(),
      )
      return row?.payload as AdapterPayload | undefined
    },

    /**
     * Takes a code or a refresh token out of use, in one conditional statement: of any number of parallel requests
     * on any number of replicas, one finds it unused. A refresh token may be found again within the grace time,
     * and leads to the same successor. Who comes later presents a stolen one, or had theirs stolen: the grant ends.
     * @throws invalid_grant
     * Source: RFC 9700 §4.5 and §4.14.2
     */
    async consume(id) {
      const row = await retrying(() =>
        db
          .updateTable('oauth_records')
          .set({ consumed_at: sql<Date>`coalesce(consumed_at, now())` })
          .where('kind', '=', kind)
          .where('id_hash', '=', sha256(id))
          .where(({ not }) => not(consumedFor(kind === 'RefreshToken' ? config.REFRESH_GRACE_SECONDS : 0)))
          .returning('kind')
          .executeTakeFirst(),
      )
      if (row !== undefined) return
      const used = await retrying(() =>
        db
          .selectFrom('oauth_records')
          .select('grant_id')
          .where('kind', '=', kind)
          .where('id_hash', '=', sha256(id))
          .executeTakeFirst(),
      )
      if (used?.grant_id) await revokeGrant(app, used.grant_id)
      throw new errors.InvalidGrant('it was used already')
    },

    async destroy(id) {
      if (kind === 'Grant') return revokeGrant(app, id)
      await retrying(() =>
        db.deleteFrom('oauth_records').where('kind', '=', kind).where('id_hash', '=', sha256(id)).execute(),
      )
    },

    async revokeByGrantId(grantId) {
      await retrying(() =>
        db.deleteFrom('oauth_records').where('kind', '=', kind).where('grant_id', '=', grantId).execute(),
      )
    },

    findByUserCode: () => Promise.resolve(undefined),
  }
}

/**
 * Used, and longer ago than the grace time. By the database's clock: replicas need not agree on the time.
 * Without grace no clock is asked: of two transactions that wait for each other, the later winner began earlier.
 */
const consumedFor = (graceSeconds: number) =>
  graceSeconds === 0
    ? sql<boolean>`consumed_at is not null`
    : sql<boolean>`(consumed_at is not null and consumed_at <= now() - make_interval(secs => ${graceSeconds}))`

/**
 * A grant lives as long as its newest refresh token and the access token that is issued with it, and knows until when
 * one of its access tokens lives: never less than under the settings of before.
 */
async function extendGrant({ db, config }: App, grantId: string, refreshTokenExp: number): Promise<void> {
  const exp = refreshTokenExp + config.ACCESS_TOKEN_SECONDS
  await retrying(() =>
    db
      .updateTable('oauth_records')
      .set({
        expires_at: sql<Date>`greatest(expires_at, ${new Date(exp * 1_000)}::timestamptz)`,
        payload: sql`jsonb_set(payload, '{exp}', to_jsonb(greatest((payload->>'exp')::bigint, ${exp}::bigint)))`,
        access_until: sql<Date>`greatest(coalesce(access_until, expires_at), ${inSeconds(config.ACCESS_TOKEN_SECONDS)}::timestamptz)`,
      })
      .where('kind', '=', 'Grant')
      .where('id_hash', '=', sha256(grantId))
      .execute(),
  )
}

const inSeconds = (seconds: number): Date => new Date(Date.now() + seconds * 1_000)

/** Access tokens are not stored. For introspection and revocation one is read from itself, verified as the API does it. */
async function readAccessToken(
  app: App,
  marked: string,
  kind: 'user' | 'machine',
): Promise<AdapterPayload | undefined> {
  if (!marked.startsWith(ACCESS_TOKEN_MARK)) return undefined
  try {
    const caller = await verifyAccessToken(app, marked.slice(ACCESS_TOKEN_MARK.length))
    if ((caller.kind ?? 'user') !== kind) return undefined
    const whose =
      caller.kind === 'machine'
        ? { kind: 'ClientCredentials' }
        : { kind: 'AccessToken', accountId: caller.userId, grantId: caller.grantId }
    return {
      ...whose,
      jti: caller.tokenId,
      exp: caller.expiresAt,
      clientId: caller.clientId,
      scope: scopesOf(app, caller).join(' '),
      aud: `${app.origin}/v1`,
      extra: { chain_id: caller.chainId },
      ...(caller.jkt === undefined ? {} : { jkt: caller.jkt }),
    }
  } catch (error) {
    if (error instanceof AppError && (error.code === 'invalid_token' || error.code === 'application_suspended'))
      return undefined
    throw error
  }
}

/** Applications are changed by their own slice, and access tokens are not stored. */
const readOnly: Omit<Adapter, 'find'> = {
  upsert: () => Promise.resolve(),
  findByUserCode: () => Promise.resolve(undefined),
  findByUid: () => Promise.resolve(undefined),
  consume: () => Promise.resolve(),
  destroy: () => Promise.resolve(),
  revokeByGrantId: () => Promise.resolve(),
}
