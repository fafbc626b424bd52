import { sql } from 'kysely'

/**
 * A time as text with the microseconds that a Date would lose: a page ends exactly where the next begins. `infinity` has no such text.
 * @param column  as the statement calls it
 */
export const momentText = (column: string) =>
  sql<string>`to_char(${sql.raw(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** Type of `timestamptz`. */
export const TIMESTAMPTZ = 1184

/** The years 1 and 9999: beyond them the forms that dates are written in elsewhere end, and so does ours. */
const FIRST = Date.parse('0001-01-01T00:00:00Z')
const LAST = Date.UTC(9_999, 11, 31, 23, 59, 59, 999)

/** As the database writes it: `2026-02-03 04:05:06.789+00`. Without a T a year before 50 would be one of 2000. */
export const parseIso = (text: string): Date => new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'))

/**
 * A time as code may use it. The column also takes `infinity`, `-infinity` and years that no `Date` holds, and each driver makes something
 * else of them: a number, an invalid date. What is beyond counts as the last moment, or the first.
 */
export const boundTime =
  (parse: (text: string) => unknown) =>
  (text: string): Date => {
    const parsed = parse(text)
    const at = parsed instanceof Date ? parsed.getTime() : Number.NaN
    if (at >= FIRST && at <= LAST) return parsed as Date
    return new Date(text.startsWith('-') || text.endsWith('BC') || at < FIRST ? FIRST : LAST)
  }
