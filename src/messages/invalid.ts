/** The error for a message that is never signed, with the place of the problem. */
export class MessageInvalid extends Error {
  readonly code: 'invalid_message' | 'invalid_typed_data'
  /** JSON pointer (RFC 6901) below the field of the request; empty if the whole message is the problem */
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

/** Creates the error for typed data. The path lists the names from the root to the problem. */
export const typedDataInvalid = (path: readonly (string | number)[], problem: string): MessageInvalid =>
  new MessageInvalid('invalid_typed_data', pointerOf(path), problem)

/** Shortens long names, because errors are displayed. */
const MAX_NAME = 128

const pointerOf = (path: readonly (string | number)[]): string =>
  path.map((name) => `/${String(name).slice(0, MAX_NAME).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
