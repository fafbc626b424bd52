import type { ErrorCode } from '../errors.ts'
import type { RefusalFacts, SignerRefusal } from '../signer-wire/wire.ts'

/**
 * A refusal of the signer. Code, sentence and facts are returned over the socket, so they must not contain secrets. Callers decide
 * by code and facts, never by the sentence.
 */
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

/** Converts the refusal of one operation into the refusal of the whole transaction. `operation` is its 0-based index. */
export const ofOperation = (operation: number, { code, message, facts }: Refusal): Refusal =>
  new Refusal('operation_refused', message, { ...facts, operation, because: code })

/** The program cannot start because of its settings or files; the sentence is for the operator. */
export class StartError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'StartError'
  }
}

/** The store differs from its state when the signer last answered. Nothing may be signed from it. */
export class LedgerDamaged extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'LedgerDamaged'
  }
}
