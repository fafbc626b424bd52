/** A message that cannot be signed, and where the problem is. */
export class MessageInvalid extends Error {
  readonly code: 'invalid_message' | 'invalid_typed_data'
  /** JSON pointer (RFC 6901) below the field of the request; empty for all of it */
  readonly pointer: string
  readonly problem: string

  constructor(code: MessageInvalid['code'], pointer: string, problem: string) {
    super(pointer === '' ? problem : `${pointer}: ${problem}`)
    this.name = 'MessageInvalid'
    this.code = code
    this.pointer = pointer
    this.problem = problem
  }
}

/** Returns the error of typed data, by the names on the way to the problem. */
export const typedDataInvalid = (path: readonly (string | number)[], problem: string): MessageInvalid =>
  new MessageInvalid('invalid_typed_data', pointerOf(path), problem)

/** Long names are cut, because an error is shown. */
const MAX_NAME = 128

const pointerOf = (path: readonly (string | number)[]): string =>
  path.map((name) => `/${String(name).slice(0, MAX_NAME).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
