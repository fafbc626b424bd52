import { sql } from 'kysely'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { sha256 } from '../sha256.ts'
import type { SealedRows } from '../store/seal.ts'
import { momentText } from '../store/read-time.ts'
import { isWellFormed } from './record-shape.ts'

/** The part of an `oauth_records` row that its seal covers. */
export type RecordContent = SealedRows['oauth_records']

/** The columns that `guardedBy` reads: those that the seal covers, beside the payload. */
export type GuardedColumns = Pick<RecordContent, 'grant_id' | 'uid' | 'user_id' | 'client_id' | 'consumed_at'> & {
  seal: string | null
}

/** Falls back to the column's own text, because `to_char` has no output for `infinity`. */
const asText = (column: string) => sql`coalesce(${momentText(column)}, ${sql.raw(column)}::text)`

/** The database time as text, with microseconds, so that it is the same when it is read back. */
export const databaseTime = asText('now()')

/** Selects the columns that a row is checked with, as JSON. @param table  its alias in the statement */
export const guardedBy = (table: 'record' | 'held' | 'one' | 'oauth_records') => sql<GuardedColumns>`(
  select row_to_json(guarded) from (select ${sql.raw(table)}.grant_id, ${sql.raw(table)}.uid, ${sql.raw(table)}.user_id, ${sql.raw(table)}.client_id,
    ${asText(`${table}.consumed_at`)} as consumed_at, ${sql.raw(table)}.seal) as guarded)`

/** Returns a record whose seal is valid and whose payload has the form of its kind; null for any other. */
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

/** Returns the user whom the row names; the row may be forged. */
const ownerOf = ({ payload, user_id: userId }: RecordContent): string | null =>
  typeof payload?.accountId === 'string' ? payload.accountId : userId

export const hashOf = (id: string): string => sha256(id).toString('hex')
