import type { App } from '../app.ts'
import { isSealed, type SealedRows, type SealedTable } from '../store/seal.ts'

/** What it takes to believe a row. */
export type RowReader = Pick<App, 'sealKeys' | 'telemetry'>

/**
 * Whether the authorization server wrote what a row says. One that someone else changed, moved or inserted counts as absent, with
 * an error in the log.
 * @param about  how the log names it; nothing secret
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
