import { AppError } from '../errors.ts'

/** An opaque cursor: what the page was asked for (so that it cannot be used elsewhere) and where it ended. */
export function writeCursor(parts: (string | number)[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/**
 * @param kinds  type of each part, in order
 * @throws invalid_cursor
 */
export function readPageCursor(cursor: string, kinds: ('string' | 'number')[]): (string | number)[] {
  const refuse = () =>
    new AppError('invalid_cursor', 'The cursor is not valid.', {
      errors: [{ parameter: 'cursor', code: 'invalid', detail: 'Use the one from X-Next-Cursor of the same query.' }],
    })
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

/**
 * Whether a part of a cursor is a time as ours are, of the years 1000 to 9999 and to the second or finer. Date.parse turns
 * 30 February into March, which PostgreSQL refuses.
 */
export function isMoment(text: string): boolean {
  const at = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(at) && new Date(at).toISOString().slice(0, 19) === text.slice(0, 19)
}
