import type { App } from '../app.ts'
import { isSealed, type SealedRows, type SealedTable } from '../store/seal.ts'

/** Data that is needed to verify the seal of a row. */
export type RowReader = Pick<App, 'sealKeys' | 'telemetry'>

/**
 * Returns whether the authorization server wrote this row. If not (the row was changed, moved or inserted by someone
 * else), logs an error; callers treat the row as absent.
 * @param about  identifies the row in the log; must not be secret
 */
export function isAuthentic<T extends SealedTable>(
  { sealKeys, telemetry }: RowReader,
  table: T,
  row: SealedRows[T] & { seal: string | null },
  about: Record<string, string | null>,
): boolean {
  if (isSealed(sealKeys, table, row)) return true
  telemetry.rowsNotAuthentic.inc({ table })
  telemetry.log.error('row_not_authentic', { table, ...about })
  return false
}
