import { sql } from 'kysely'

/**
 * Selects a time as text with microseconds, which a Date would lose: a page must end exactly where the next begins.
 * `infinity` has no such text.
 * @param column  its name in the statement
 */
export const momentText = (column: string) =>
  sql<string>`to_char(${sql.raw(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** OID of the type `timestamptz`. */
export const TIMESTAMPTZ = 1184

/** The bounds are the years 1 and 9999, where common date formats end. */
const FIRST = Date.parse('0001-01-01T00:00:00Z')
const LAST = Date.UTC(9_999, 11, 31, 23, 59, 59, 999)

/**
 * Parses the database's format, `2026-02-03 04:05:06.789+00`. Without the T, a year before 50 would be read as 20xx.
 */
export const parseIso = (text: string): Date => new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'))

/**
 * Wraps a parser so that every time is usable. The column also accepts `infinity`, `-infinity` and years that no `Date`
 * holds, for which drivers return a number or an invalid date. Times beyond the bounds become the first or the last
 * moment.
 */
export const boundTime =
  (parse: (text: string) => unknown) =>
  (text: string): Date => {
    const parsed = parse(text)
    const at = parsed instanceof Date ? parsed.getTime() : Number.NaN
    if (at >= FIRST && at <= LAST) return parsed as Date
    return new Date(text.startsWith('-') || text.endsWith('BC') || at < FIRST ? FIRST : LAST)
  }
