import { AppError } from '../errors.ts'

/**
 * Returns the idempotency key of a request; undefined if there is none.
 * @param headers  `Idempotency-Key` and `X-Idempotency-Key`; if both are present, they must be equal
 * @throws idempotency_key_invalid
 */
export function readIdempotencyKey(headers: Record<string, string | string[] | undefined>): string | undefined {
  const [plain, prefixed] = [headers['idempotency-key'], headers['x-idempotency-key']]
  const key = plain ?? prefixed
  if (key === undefined) return undefined
  if (prefixed !== undefined && prefixed !== key)
    throw invalidKey('`Idempotency-Key` and `X-Idempotency-Key` differ. Nothing was sent. Send one key.')
  if (typeof key !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(key))
    throw invalidKey(
      'An idempotency key must be 1 to 255 printable ASCII characters. Nothing was sent. Correct the key.',
    )
  return key
}

const invalidKey = (detail: string): AppError =>
  new AppError('idempotency_key_invalid', detail, {
    errors: [{ parameter: 'Idempotency-Key', code: 'invalid', detail }],
  })

/** Returns the error for a key of another request. */
export const keyReused = (): AppError =>
  new AppError(
    'idempotency_key_reused',
    'This idempotency key was used with a different request. This request had no effect. Use a new key for each new write.',
  )
