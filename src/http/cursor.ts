import { AppError } from '../errors.ts'

/** An opaque cursor: what the page was asked for (so that it cannot be used elsewhere) and where it ended. */
export function writeCursor(parts: (string | number)[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/**
 * @param kinds  type of each part, in order
 * @throws invalid_cursor
 */
export function readCursor(cursor: string, kinds: ('string' | 'number')[]): (string | number)[] {
  const refuse = () =>
    new AppError('invalid_cursor', 'The cursor is not one of ours.', {
      errors: [{ parameter: 'cursor', code: 'invalid', detail: 'Take it from X-Next-Cursor of the same query.' }],
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
