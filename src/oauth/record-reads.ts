import { Provider, type AdapterPayload } from 'oidc-provider'
import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import { prepared } from '../store/prepared.ts'
import { userColumns, userOf, type UserRow } from '../users/find.ts'
import { authenticConsent, type ConsentKey, type ConsentRow } from './consents.ts'
import { authenticRecord, databaseTime, guardedBy, hashOf, type GuardedColumns } from './record-macs.ts'
import { consumedFor, graceOf, type RecordKey } from './record-writes.ts'
import { sha256 } from '../sha256.ts'
import { noteSession, unitOfWork, type UnitOfWork } from './unit-of-work.ts'

type RecordRow = { payload: AdapterPayload; is_consumed: boolean; guarded: GuardedColumns }
type RowOfGrant = RecordRow & {
  read_at: string
  grant_payload: AdapterPayload | null
  grant_guarded: GuardedColumns
} & Partial<UserRow>
type RowOfPerson = RecordRow &
  Partial<UserRow> & {
    client_id: string | null
    permissions: string[] | null
    keys: ConsentRow['keys'] | null
    ways: string[] | null
    consent_seal: string | null
    is_noted: boolean
  }

/**
 * Finds a record by its id; undefined if there is none, or if its seal is not valid. The same statement reads more for
 * this request: for a code or refresh token its grant and user, for a session or interaction the user and their consent
 * to the application.
 */
export async function findRecord(app: App, key: RecordKey): Promise<AdapterPayload | undefined> {
  const work = unitOfWork()
  const known = work === null ? undefined : knownRecord(work, key)
  if (known !== undefined) return known ?? undefined
  const row = work === null ? authentic(app, key, await readAlone(app, key)) : await readWithMore(app, key, work)
  if (row === undefined) return undefined
  if (key.kind === 'Session') noteSession(key.id)
  return { ...row.payload, jti: key.id, ...(row.is_consumed ? { consumed: true } : {}) }
}

/**
 * Returns a record that this request has read or will write; null if it has ended the record, undefined if it does not
 * know it.
 */
function knownRecord(work: UnitOfWork, { kind, id }: RecordKey): AdapterPayload | null | undefined {
  if (work.ended.some((one) => one.kind === kind && one.id === id)) return null
  const grant = kind === 'Grant' ? work.grants.get(id) : undefined
  if (grant !== undefined) return { ...grant, jti: id }
  if (work.fresh.length === 0) return undefined
  const hash = sha256(id).toString('hex')
  const fresh = work.fresh.find((one) => one.kind === kind && one.id_hash === hash)
  return fresh === undefined ? undefined : { ...(fresh.payload as AdapterPayload), jti: id }
}

const columns = (app: App, kind: string) =>
  sql`record.payload, ${guardedBy('record')} as guarded, ${consumedFor(graceOf(app, kind), 'record')} as is_consumed`

const authentic = <R extends RecordRow>(app: App, { kind, id }: RecordKey, row: R | undefined): R | undefined =>
  row !== undefined && authenticRecord(app, { kind, idHash: hashOf(id) }, row) !== null ? row : undefined

const readAlone = (app: App, { kind, id }: RecordKey) =>
  first<RecordRow>(
    app,
    sql`
    select ${columns(app, kind)} from oauth_records as record where record.kind = ${kind} and record.id_hash = ${sha256(id)}`,
  )

async function readWithMore(app: App, key: RecordKey, work: UnitOfWork): Promise<RecordRow | undefined> {
  const { kind } = key
  if (kind === 'AuthorizationCode' || kind === 'RefreshToken') {
    const row = await readWithGrant(app, key)
    const idHash = hashOf(key.id)
    const record = row === undefined ? null : authenticRecord(app, { kind, idHash }, row)
    if (row === undefined || record === null) return undefined
    work.presented = { record, readAt: row.read_at }
    const held = grantOf(app, row)
    if (held !== null) work.grants.set(record.grant_id!, held)
    keepUser(work, row, record.payload?.accountId)
    return row
  }
  if (kind === 'Session' || kind === 'Interaction') {
    const row = authentic(app, key, await readWithPerson(app, key))
    const user = keepUser(
      work,
      row,
      kind === 'Session' ? row?.payload.accountId : row?.payload.result?.login?.accountId,
    )
    if (row?.client_id && user !== null)
      work.consent = {
        accountId: user.accountId,
        clientId: row.client_id,
        ...consentOf(app, { accountId: user.accountId, clientId: row.client_id }, row),
        isNoted: row.is_noted,
      }
    return row
  }
  return authentic(app, key, await readAlone(app, key))
}

/** Returns the grant that was read with a code or refresh token; null if there is none with a valid seal. */
function grantOf(
  app: App,
  { guarded: { grant_id: grantId }, grant_payload: payload, grant_guarded: guarded }: RowOfGrant,
) {
  if (grantId === null || payload === null) return null
  const isRight = authenticRecord(app, { kind: 'Grant', idHash: hashOf(grantId) }, { payload, guarded }) !== null
  return isRight ? payload : null
}

/** Returns the consent that was read with the user. */
function consentOf(
  app: App,
  whose: ConsentKey,
  { permissions, keys, ways, consent_seal: seal }: RowOfPerson,
): Pick<ConsentRow, 'permissions' | 'ways'> {
  const none = { permissions: [], ways: [] }
  if (permissions === null || keys === null || ways === null) return none
  return authenticConsent(app, whose, { permissions, keys, ways, seal }) ?? none
}

/**
 * Remembers the user that was read. The id of a linked identity leads to a user with another id, whom `findUser` looks
 * up.
 */
function keepUser(work: UnitOfWork, row: Partial<UserRow> | undefined, userId: unknown) {
  if (row?.user_id === undefined || row.user_id === null || row.user_id !== userId) return null
  const user = userOf(row as UserRow)
  work.users.set(user.userId, user)
  return user
}

/** Indexes: primary key; oauth_records_grant; primary keys of identities and accounts. */
const readWithGrant = (app: App, { kind, id }: RecordKey) =>
  first<RowOfGrant>(
    app,
    sql`
    select ${columns(app, kind)}, ${databaseTime} as read_at, held.payload as grant_payload, ${guardedBy('held')} as grant_guarded, ${userColumns}
    from oauth_records as record
      left join oauth_records as held on held.kind = 'Grant' and held.grant_id = record.grant_id
      ${withUser(sql`record.payload->>'accountId'`)}
    where record.kind = ${kind} and record.id_hash = ${sha256(id)}`,
  )

/** Indexes: primary keys, all of them. */
const readWithPerson = (app: App, { kind, id }: RecordKey) => {
  const [userId, clientId] =
    kind === 'Session'
      ? [sql`record.user_id`, sql`${clientAsking()}::text`]
      : [sql`record.payload #>> '{result,login,accountId}'`, sql`record.payload #>> '{params,client_id}'`]
  return first<RowOfPerson>(
    app,
    sql`
    select ${columns(app, kind)}, ${userColumns}, ${clientId} as client_id, consent.permissions, consent.keys, consent.ways,
      consent.seal as consent_seal, noted.client_id is not null as is_noted
    from oauth_records as record
      ${withUser(userId)}
      left join consents as consent on consent.account_id = account.account_id and consent.client_id = ${clientId}
      left join application_users as noted on noted.client_id = ${clientId} and noted.account_id = account.account_id
    where record.kind = ${kind} and record.id_hash = ${sha256(id)}`,
  )
}

/** Splits at the first hyphen, as `parseUserId` does. */
const withUser = (userId: RawBuilder<unknown>) => sql`
  left join identities as identity on identity.provider = split_part(${userId}, '-', 1)
    and identity.subject = substr(${userId}, strpos(${userId}, '-') + 1)
  left join accounts as account on account.account_id = identity.account_id`

function clientAsking(): string | null {
  const asked = Provider.ctx?.query.client_id
  return typeof asked === 'string' && !asked.includes('\0') ? asked : null
}

async function first<R>({ db }: App, query: RawBuilder<unknown>): Promise<R | undefined> {
  const { rows } = await sql<R>`${prepared}${query}`.execute(db)
  return rows[0]
}
