import type { ErrorCode } from '../errors.ts'
import type { SignerRefusal } from './wire.ts'

/** The signer says no: the code and the sentence go back over the socket, so neither may hold a secret. */
export class Refusal extends Error {
  readonly code: ErrorCode | SignerRefusal
  /** which operation of the calldata, from 0, where it is about one */
  readonly operation: number | null

  constructor(code: ErrorCode | SignerRefusal, detail: string, operation: number | null = null) {
    super(detail)
    this.name = 'Refusal'
    this.code = code
    this.operation = operation
  }
}

/** The program cannot start as it is set up or as its files are; the sentence is for the operator. */
export class StartError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'StartError'
  }
}

/** The store is not what it was when the signer last answered. Nothing may be signed from it. */
export class LedgerDamaged extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'LedgerDamaged'
  }
}
