import type { ErrorCode } from '../errors.ts'
import type { RefusalFacts, SignerRefusal } from '../signer-wire/wire.ts'

/** The signer says no: code, sentence and facts go back over the socket, so none may hold a secret. Readers decide by code and facts. */
export class Refusal extends Error {
  readonly code: ErrorCode | SignerRefusal
  readonly facts: RefusalFacts

  constructor(code: ErrorCode | SignerRefusal, detail: string, facts: RefusalFacts = {}) {
    super(detail)
    this.name = 'Refusal'
    this.code = code
    this.facts = facts
  }
}

/** That of an operation, from 0, for which alone a transaction is refused. */
export const ofOperation = (operation: number, { code, message, facts }: Refusal): Refusal =>
  new Refusal('operation_refused', message, { ...facts, operation, because: code })

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
