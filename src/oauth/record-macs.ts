import { sql } from 'kysely'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { sha256 } from '../sha256.ts'
import type { SealedRows } from '../store/seal.ts'
import { momentText } from '../store/read-time.ts'
import { isWellFormed } from './record-shape.ts'

/** What is believed of a row of `oauth_records`. */
export type RecordContent = SealedRows['oauth_records']

/** The columns beside the payload that `guardedBy` reads. */
export type GuardedColumns = Pick<RecordContent, 'grant_id' | 'uid' | 'user_id' | 'client_id' | 'consumed_at'> & {
  seal: string | null
}

/** `to_char` has no word for `infinity`, which is no time at all and not null either. */
const asText = (column: string) => sql`coalesce(${momentText(column)}, ${sql.raw(column)}::text)`

/** The time of the database, with its microseconds: what it is given back as is the same. */
export const databaseTime = asText('now()')

/** What a row is checked with. @param table  how the statement calls it */
export const guardedBy = (table: 'record' | 'held' | 'one' | 'oauth_records') => sql<GuardedColumns>`(
  select row_to_json(guarded) from (select ${sql.raw(table)}.grant_id, ${sql.raw(table)}.uid, ${sql.raw(table)}.user_id, ${sql.raw(table)}.client_id,
    ${asText(`${table}.consumed_at`)} as consumed_at, ${sql.raw(table)}.seal) as guarded)`

/** A record as it was read; null for one that someone else wrote, or that is not what its kind is. */
export function authenticRecord(
  app: RowReader,
  { kind, idHash }: { kind: string; idHash: string },
  { payload, guarded }: { payload: RecordContent['payload']; guarded: GuardedColumns },
): RecordContent | null {
  const { seal, ...columns } = guarded
  const record = { kind, id_hash: idHash, payload, ...columns }
  const about = { kind, record: idHash.slice(0, 16), userId: ownerOf(record) }
  if (!isAuthentic(app, 'oauth_records', { ...record, seal }, about)) return null
  if (isWellFormed(kind, payload)) return record
  app.telemetry.log.error('row_damaged', { table: 'oauth_records', ...about })
  return null
}

/** Whom the row names, right or wrong. */
const ownerOf = ({ payload, user_id: userId }: RecordContent): string | null =>
  typeof payload?.accountId === 'string' ? payload.accountId : userId

export const hashOf = (id: string): string => sha256(id).toString('hex')
