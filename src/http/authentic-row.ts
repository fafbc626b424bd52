import type { App } from '../app.ts'
import { isMacRight, type RowContent } from '../store/row-mac.ts'

/** What it takes to believe a row. */
export type RowReader = Pick<App, 'rowKeys' | 'telemetry'>

/**
 * Whether the authorization server wrote what a row says. One that someone else changed, moved or inserted counts as absent, with
 * an error in the log. Everything counts in a program that has no keys.
 * @param row  how the log names it; nothing secret
 */
export function isAuthentic(
  { rowKeys, telemetry }: RowReader,
  row: Record<string, string | null>,
  { content, mac }: { content: RowContent; mac: string | null },
): boolean {
  if (rowKeys === null || isMacRight(rowKeys, content, mac)) return true
  const [table] = content
  telemetry.rowsNotAuthentic.inc({ table })
  telemetry.log.error('row_not_authentic', { table, ...row })
  return false
}
