import { AppError } from '../errors.ts'
import { MessageInvalid, readMessage, type Message } from '../messages/message.ts'
import { factsOf } from '../signer-wire/client.ts'

/** Fields of a body that can hold the message. */
type Field = 'message' | 'hex' | 'typedData'

/** A parsed message, and the field of the body that it came from. */
export type Content = { message: Message; field: Field }

/**
 * Reads the message of a body.
 * @throws invalid_request  unless exactly one of the fields is present
 * @throws invalid_message, invalid_typed_data
 */
export function readContent(body: { message?: string; hex?: string; typedData?: unknown }): Content {
  const given = (['message', 'hex', 'typedData'] as const).filter((field) => body[field] !== undefined)
  const [field] = given
  if (field === undefined || given.length > 1) {
    const detail = 'Exactly one of `message`, `hex` and `typedData` is needed. Nothing was signed.'
    const errors = given.length === 0 ? [{ pointer: '/message', code: 'missing', detail }] : given.map((one) => ({ pointer: `/${one}`, code: 'ambiguous', detail })) // prettier-ignore
    throw new AppError('invalid_request', detail, { errors })
  }
  const { message: text, hex, typedData } = body
  const input = field === 'message' ? { text } : field === 'hex' ? { hex } : { typedData }
  const message = orRefuse(field, () => readMessage(input))
  // PostgreSQL stores no NUL in a text.
  if (message.kind === 'text' && message.text.includes('\0'))
    throw refusal(field, {
      code: 'invalid_message',
      pointer: '',
      problem: 'the text contains a NUL character, so its bytes are needed as `hex`',
    })
  return { message, field }
}

/**
 * Runs work on a message, and points its errors into the body.
 * @throws invalid_message, invalid_typed_data
 */
export function orRefuse<T>(field: Field, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof MessageInvalid ? refusal(field, error, error) : error
  }
}

/** Adds a pointer into the body to the signer's refusal of a message. Other errors are returned unchanged. */
export function withPointer(field: Field, error: unknown): unknown {
  if (!(error instanceof AppError) || (error.code !== 'invalid_message' && error.code !== 'invalid_typed_data'))
    return error
  const { code, message: detail } = error
  const pointer = `/${field}${factsOf(error).pointer ?? ''}`
  return new AppError(code, detail, { errors: [{ pointer, code: 'invalid', detail }], cause: error })
}

/** Creates the error for a message that no rule allows. */
export function refusal(
  field: Field,
  { code, pointer, problem }: Pick<MessageInvalid, 'code' | 'pointer' | 'problem'>,
  cause?: unknown,
): AppError {
  const at = `/${field}${pointer}`
  const detail = `${problem[0]!.toUpperCase()}${problem.slice(1)}${problem.endsWith('.') ? '' : '.'}`
  return new AppError(code, `${at}: ${detail} Nothing was signed.`, {
    errors: [{ pointer: at, code: 'invalid', detail }],
    cause,
  })
}
