import type { FastifyReply } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'

/** `X-Next-Cursor` and `Link` of a page (RFC 8288), and neither of the last one. @param query  of the page, as it was asked for */
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

/** An opaque cursor: what the page was asked for (so that it cannot be used elsewhere) and where it ended. */
export function writeCursor(parts: (string | number)[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/**
 * A page of rows that were read with one more than it has.
 * @param placeOf  parts of the cursor behind a row
 * @returns nextCursor  null where nothing comes after
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

/** A cursor of ours that was given for something else. */
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
 * Whether a part of a cursor is a time as ours are, of the years 1000 to 9999 and to the second or finer. Date.parse turns
 * 30 February into March, which PostgreSQL refuses.
 */
export function isMoment(text: string): boolean {
  const at = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(at) && new Date(at).toISOString().slice(0, 19) === text.slice(0, 19)
}
