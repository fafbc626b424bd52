import type { FastifyReply } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'

/** Sets `X-Next-Cursor` and `Link` (RFC 8288), unless this is the last page. @param query  query of the present page */
export function linkNext(
  reply: FastifyReply,
  { origin }: Pick<App, 'origin'>,
  { path, query, cursor }: { path: string; query: Record<string, string | undefined>; cursor: string | null },
): void {
  if (cursor === null) return
  const given = Object.entries({ ...query, cursor }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  reply.header('x-next-cursor', cursor)
  reply.header('link', `<${origin}${path}?${new URLSearchParams(given).toString()}>; rel="next"`)
}

/**
 * Encodes an opaque cursor: the query of the page, so that it cannot be used for another, and the position where it
 * ended.
 */
export function writeCursor(parts: (string | number)[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/**
 * Cuts a page from rows that were read with one more than `limit`.
 * @param placeOf  cursor parts that identify the position after a row
 * @returns nextCursor  null if this is the last page
 */
export function cutPage<Row>(
  rows: Row[],
  limit: number,
  placeOf: (row: Row) => (string | number)[],
): { page: Row[]; nextCursor: string | null } {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return { page, nextCursor: rows.length > limit && last !== undefined ? writeCursor(placeOf(last)) : null }
}

/**
 * Decodes a cursor.
 * @param kinds  type of each part, in order
 * @throws invalid_cursor
 */
export function readPageCursor(cursor: string, kinds: ('string' | 'number')[]): (string | number)[] {
  const refuse = () => invalidCursor('The cursor is malformed.')
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
    if (!Array.isArray(parts) || parts.length !== kinds.length) throw refuse()
    parts.forEach((part, index) => {
      if (typeof part !== kinds[index] || (typeof part === 'number' && !Number.isSafeInteger(part))) throw refuse()
    })
    return parts as (string | number)[]
  } catch (error) {
    throw error instanceof AppError ? error : refuse()
  }
}

/** Returns the error for a valid cursor of another query. */
export const foreignCursor = (): AppError => invalidCursor('The cursor belongs to another query.')

const invalidCursor = (message: string): AppError =>
  new AppError('invalid_cursor', message, {
    errors: [
      {
        parameter: 'cursor',
        code: 'invalid',
        detail: 'Use the cursor from `X-Next-Cursor` of the same query. Only `limit` may change.',
      },
    ],
  })

/**
 * Returns whether a part of a cursor is a time in our format: years 1000 to 9999, to the second or finer. The date is
 * compared again because Date.parse turns 30 February into March, which PostgreSQL rejects.
 */
export function isMoment(text: string): boolean {
  const at = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(at) && new Date(at).toISOString().slice(0, 19) === text.slice(0, 19)
}
