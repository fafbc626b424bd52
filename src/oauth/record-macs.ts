import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { sql } from 'kysely'
import { sha256 } from '../sha256.ts'
import type { RowContent } from '../store/row-mac.ts'
import { momentText } from '../store/read-time.ts'
import { isWellFormed } from './record-shape.ts'

/** What is believed of a row of `oauth_records`, the hash of its id in hexadecimal. */
export type RecordContent = {
  kind: string
  id_hash: string
  grant_id: string | null
  uid: string | null
  user_id: string | null
  client_id: string | null
  payload: Record<string, unknown> | null
}

/**
 * What the MAC of a record covers. When it was used belongs to it: a used code that is made unused is another row. The end of a
 * grant does not: the refresh of a token moves it, and what comes of a grant has an end of its own.
 * @param consumedAt  as `consumedText` reads it
 */
export function recordContent(record: RecordContent, consumedAt: string | null): RowContent {
  const { kind, id_hash: idHash, grant_id: grantId, uid, user_id: userId, client_id: clientId, payload } = record
  // Anyone who writes to the database may have put a JSON null there.
  const { exp: _exp, ...lasting } = payload ?? {}
  return [
    'oauth_records',
    kind,
    idHash,
    grantId,
    uid,
    userId,
    clientId,
    kind === 'Grant' && payload !== null ? lasting : payload,
    consumedAt,
  ]
}

/** The columns beside the payload that `guardedBy` reads. */
export type GuardedColumns = [
  grantId: string | null,
  uid: string | null,
  userId: string | null,
  clientId: string | null,
  consumedAt: string | null,
  mac: string | null,
]

/** `to_char` has no word for `infinity`, which is no time at all and not null either. */
const asText = (column: string) => sql`coalesce(${momentText(column)}, ${sql.raw(column)}::text)`

/** The time of the database, with its microseconds: what it is given back as is the same. */
export const databaseTime = asText('now()')

/** What a row is checked with. @param table  how the statement calls it */
export const guardedBy = (table: 'record' | 'held' | 'oauth_records') => sql<GuardedColumns>`json_build_array(
  ${sql.raw(table)}.grant_id, ${sql.raw(table)}.uid, ${sql.raw(table)}.user_id, ${sql.raw(table)}.client_id, ${asText(`${table}.consumed_at`)}, ${sql.raw(table)}.mac)`

/** A record as it was read; null for one that someone else wrote, or that is not what its kind is. */
export function authenticRecord(
  app: RowReader,
  { kind, idHash }: { kind: string; idHash: string },
  { payload, guarded }: { payload: RecordContent['payload']; guarded: GuardedColumns },
): RecordContent | null {
  const [grantId, uid, userId, clientId, consumedAt, mac] = guarded
  const record = { kind, id_hash: idHash, grant_id: grantId, uid, user_id: userId, client_id: clientId, payload }
  const row = { kind, record: idHash.slice(0, 16), userId: ownerOf(record) }
  if (!isAuthentic(app, row, { content: recordContent(record, consumedAt), mac })) return null
  if (isWellFormed(kind, payload)) return record
  app.telemetry.log.error('row_damaged', { table: 'oauth_records', ...row })
  return null
}

/** Whom the row names, right or wrong. */
const ownerOf = ({ payload, user_id: userId }: RecordContent): string | null =>
  typeof payload?.accountId === 'string' ? payload.accountId : userId

export const hashOf = (id: string): string => sha256(id).toString('hex')
