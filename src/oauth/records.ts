import assert from 'node:assert/strict'
import { Provider, type Adapter, type AdapterPayload } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'
import { AppError } from '../errors.ts'
import { machineGrantOf, scopesOf, verifyAccessToken } from '../http/bearer.ts'
import { sql } from 'kysely'
import { browserNameOf } from './browser-name.ts'
import { readClient } from './clients.ts'
import { keyOfPublicClient } from './proofs.ts'
import { sealOf } from '../store/seal.ts'
import { authenticRecord, guardedBy, hashOf } from './record-macs.ts'
import { findRecord } from './record-reads.ts'
import { inSeconds, redeem, storeRecords, type NewRecord, type RecordKey } from './record-writes.ts'
import { revokeGrant } from './revoke.ts'
import { sha256 } from '../sha256.ts'
import { unitOfWork, willWriteSession, writeWith, type UnitOfWork } from './unit-of-work.ts'

const WRITTEN_WITH_SESSION = new Set(['Grant', 'AuthorizationCode', 'Interaction'])
const ENDED_WITH_SESSION = new Set(['Interaction', 'Session'])

/**
 * Prefix with which an access token reaches `find`: the library rejects anything that it recognises as a JWT, see
 * mount.ts.
 */
export const ACCESS_TOKEN_MARK = 'at.'

/**
 * Opens the storage of the authorization server: one adapter per kind of record. Ids are credentials (codes, refresh
 * tokens, session cookies), so a row is found by the SHA-256 of its id and does not contain the id.
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
  const { db } = app
  return {
    async upsert(id, payload, expiresIn) {
      const work = unitOfWork()
      if (kind === 'RefreshToken') return follow(app, work, { id, payload, expiresIn })
      const record = recordOf(app, { kind, id }, payload, expiresIn)
      if (kind === 'Session') return writeWith(app, record)
      if (work !== null && WRITTEN_WITH_SESSION.has(kind) && willWriteSession()) return void work.fresh.push(record)
      return storeRecords(db, { fresh: [record], ended: [] })
    },

    find: (id) => findRecord(app, { kind, id }),

    async findByUid(uid) {
      const row = await db
        .selectFrom('oauth_records')
        .select([
          sql<string>`encode(id_hash, 'hex')`.as('id_hash'),
          'payload',
          guardedBy('oauth_records').as('guarded'),
        ])
        .where('kind', '=', kind)
        .where('uid', '=', uid)
        .executeTakeFirst()
      if (row === undefined) return undefined
      return authenticRecord(app, { kind, idHash: row.id_hash }, row)?.payload as AdapterPayload | undefined
    },

    /**
     * Uses up a code or a refresh token: with its successor, or at the end of the request, before the response. See
     * `redeem`.
     */
    async consume(id) {
      const work = unitOfWork()
      const found = work?.presented?.record
      assert(work !== null && found?.kind === kind && found.id_hash === hashOf(id))
      work.used = work.presented
    },

    async destroy(id) {
      if (kind === 'Grant') return revokeGrant(app, id)
      const work = unitOfWork()
      if (work !== null && ENDED_WITH_SESSION.has(kind) && willWriteSession()) return void work.ended.push({ kind, id })
      await db.deleteFrom('oauth_records').where('kind', '=', kind).where('id_hash', '=', sha256(id)).execute()
    },

    async revokeByGrantId(grantId) {
      await db.deleteFrom('oauth_records').where('kind', '=', kind).where('grant_id', '=', grantId).execute()
    },

    findByUserCode: () => Promise.resolve(undefined),
  }
}

/** Stores a refresh token, which always follows a code or another refresh token. */
async function follow(
  app: App,
  work: UnitOfWork | null,
  { id, payload, expiresIn }: { id: string; payload: AdapterPayload; expiresIn: number | undefined },
): Promise<void> {
  const { grantId, exp } = payload
  const used = work?.used ?? null
  assert(work !== null && used !== null && grantId !== undefined && exp !== undefined)
  work.used = null
  // The library copies the key of the previous token. If that had none, the key is that of this request's proof.
  const jkt = payload.jkt ?? (await keyOfPublicClient(Provider.ctx!))
  const bound = jkt === undefined ? payload : { ...payload, jkt }
  return redeem(app, used, { record: recordOf(app, { kind: 'RefreshToken', id }, bound, expiresIn), grantId, exp })
}

function recordOf(
  { clock, config, sealKeys }: Pick<App, 'clock' | 'config' | 'sealKeys'>,
  { kind, id }: RecordKey,
  payload: AdapterPayload,
  expiresIn: number | undefined,
): NewRecord {
  const { jti: _jti, ...kept } = payload
  // The id of the session that an interaction began in is a credential too, and nothing reads it.
  if (kind === 'Interaction' && kept.session !== undefined) delete (kept.session as { cookie?: string }).cookie
  // Users distinguish their browsers by these names. A session is written in requests of its own browser only.
  if (kind === 'Session') Object.assign(kept, browserNameOf(Provider.ctx?.get('user-agent') ?? ''))
  const record = {
    kind,
    id_hash: hashOf(id),
    grant_id: kind === 'Grant' ? id : (payload.grantId ?? null),
    uid: payload.uid ?? null,
    user_id: kind === 'Grant' || kind === 'Session' ? (payload.accountId ?? null) : null,
    client_id: kind === 'Grant' ? (payload.clientId ?? null) : null,
    // As the database will return it: the seal is computed over this.
    payload: JSON.parse(JSON.stringify(kept)) as Record<string, unknown>,
    consumed_at: null,
  }
  return {
    ...record,
    expires_at: expiresIn === undefined ? null : inSeconds(clock, expiresIn).toISOString(),
    access_until:
      kind === 'Grant' ? inSeconds(clock, config.CODE_SECONDS + config.ACCESS_TOKEN_SECONDS).toISOString() : null,
    seal: sealOf(sealKeys, 'oauth_records', record),
  }
}

/**
 * Reads an access token for introspection or revocation. It is not stored, so the token itself is verified, as at the
 * API.
 */
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
      aud: audienceOf(app.origin),
      extra: { chain_id: caller.chainId },
      ...(caller.jkt === undefined ? {} : { jkt: caller.jkt }),
    }
  } catch (error) {
    if (error instanceof AppError && (error.code === 'invalid_token' || error.code === 'application_suspended'))
      return undefined
    throw error
  }
}

/** `src/applications` changes applications, and access tokens are not stored. */
const readOnly: Omit<Adapter, 'find'> = {
  upsert: () => Promise.resolve(),
  findByUserCode: () => Promise.resolve(undefined),
  findByUid: () => Promise.resolve(undefined),
  consume: () => Promise.resolve(),
  destroy: () => Promise.resolve(),
  revokeByGrantId: () => Promise.resolve(),
}
