import type { Problem, Revert, Transaction } from './wire.ts'

/** Codes that an application usually branches on. The service can add others: `docs/reference/errors.md` lists all. */
export type ErrorCode =
  | 'account_frozen'
  | 'approval_denied'
  | 'approval_required'
  | 'execution_reverted'
  | 'fee_cap_reached'
  | 'insufficient_funds'
  | 'insufficient_scope'
  | 'insufficient_tokens'
  | 'invalid_argument'
  | 'invalid_token'
  | 'no_answer'
  | 'policy_denied'
  | 'rate_limited'
  | 'signed_out'
  | 'transaction_cancelled'
  | 'transaction_failed'
  | 'transaction_replaced'
  | 'transaction_reverted'
  // oxlint-disable-next-line typescript/ban-types -- keeps the names above in completions of an open union
  | (string & {})

/** Facts of an error. `problem` is the service's document; without it, the code is the client's own. */
export type ErrorFacts = {
  code: ErrorCode
  message: string
  /** HTTP status; 0: there was no response, or the client detected the error itself */
  status?: number
  problem?: Problem | null
  /** text for the user if there is no problem document, in English */
  userMessage?: string
}

/**
 * An error of a call. Branch on its class and `code`; show `userMessage`; log `message` and `requestId`. No text has a
 * token.
 */
export class ClientError extends Error {
  // Use literals: a bundler shortens the names of classes.
  override readonly name: string = 'ClientError'
  readonly code: ErrorCode
  /** HTTP status; 0: there was no response, or the client detected the error itself */
  readonly status: number
  readonly problem: Problem | null
  /** id of the request in the service's log; null without a problem document */
  readonly requestId: string | null
  /** text for the user, in the client's `language`; in English if there was no response */
  readonly userMessage: string

  constructor({ code, message, status = 0, problem = null, userMessage }: ErrorFacts) {
    super(message)
    this.code = code
    this.status = status
    this.problem = problem
    this.requestId = problem?.requestId ?? null
    this.userMessage = problem?.userMessage ?? userMessage ?? 'This did not work. Try again.'
  }
}

/** The session has ended, or its access token is not valid (401). The request had no effect: sign the user in. */
export class SignedOut extends ClientError {
  override readonly name = 'SignedOut'

  constructor(facts: Partial<ErrorFacts> = {}) {
    super({
      code: 'signed_out',
      message: 'There is no valid session. Nothing was sent. Sign the user in.',
      userMessage: 'You are not signed in. Sign in, then try again.',
      ...facts,
    })
  }
}

/**
 * The service rejected the request, or the transaction can never be mined. Repeating the same request does not help.
 */
export class Refused extends ClientError {
  override readonly name: string = 'Refused'
}

/** Events after the cursor were deleted before they were read. Read the present state, then continue with `resumeAt`. */
export class CursorExpired extends Refused {
  override readonly name = 'CursorExpired'
  /** cursor of the oldest event that the service stores */
  readonly resumeAt: string

  constructor({ resumeAt, ...facts }: ErrorFacts & { resumeAt: string }) {
    super(facts)
    this.resumeAt = resumeAt
  }
}

/** The request is not valid, and had no effect. `pointers` name the invalid fields, such as `/args/1`. */
export class InvalidInput extends ClientError {
  override readonly name = 'InvalidInput'
  readonly pointers: readonly string[]

  constructor({ pointers, ...facts }: ErrorFacts & { pointers?: readonly string[] }) {
    super(facts)
    const places = facts.problem?.errors?.map(({ pointer, parameter }) => pointer ?? parameter ?? '') ?? []
    this.pointers = pointers ?? places.filter((place) => place !== '')
  }
}

/** The contract reverted: in the simulation (nothing was sent), or in a block (`transaction` is then present). */
export class Reverted extends ClientError {
  override readonly name = 'Reverted'
  /** the contract's reason; null if there is none */
  readonly revert: Revert | null
  readonly transaction: Transaction | null

  constructor({
    revert,
    transaction = null,
    ...facts
  }: ErrorFacts & { revert: Revert | null; transaction?: Transaction | null }) {
    super(facts)
    this.revert = revert
    this.transaction = transaction
  }
}

/** The service did not answer any of the client's tries, and the request had no effect. Retry after `retryAfterMs`. */
export class Busy extends ClientError {
  override readonly name = 'Busy'
  /** delay that the service requested, milliseconds; null if it requested none */
  readonly retryAfterMs: number | null

  constructor({ retryAfterMs = null, ...facts }: ErrorFacts & { retryAfterMs?: number | null }) {
    super(facts)
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * The user must approve the request. Nothing was signed. Thrown without `openApproval`, or if the user did not decide
 * in time. `resume` waits for the decision, and repeats the request with its key.
 */
export class ApprovalRequired<T = unknown> extends ClientError {
  override readonly name = 'ApprovalRequired'
  /** the page to open for the user; `expiresAt` is ISO 8601 */
  readonly approval: { readonly id: string; readonly url: string; readonly expiresAt: string }
  /** idempotency key of the request */
  readonly key: string
  readonly resume: (options?: { signal?: AbortSignal | undefined }) => Promise<T>

  constructor({
    approval,
    key,
    resume,
    ...facts
  }: ErrorFacts & Pick<ApprovalRequired<T>, 'approval' | 'key' | 'resume'>) {
    super(facts)
    this.approval = approval
    this.key = key
    this.resume = resume
  }
}

/**
 * The outcome of a write is unknown. Never send it with another key. `resume` repeats it with the same key. If the
 * first write was made, that returns it.
 */
export class Unknown<T = unknown> extends ClientError {
  override readonly name = 'Unknown'
  /** idempotency key of the write; null for a cancellation or a fee bump, whose `resume` reads the transaction */
  readonly key: string | null
  readonly resume: (options?: { signal?: AbortSignal | undefined }) => Promise<T>

  constructor({ key, resume, ...facts }: ErrorFacts & Pick<Unknown<T>, 'key' | 'resume'>) {
    super({
      userMessage:
        'The service did not respond in time. If you were sending something, it may have been sent. Check your transactions before you try again.',
      ...facts,
    })
    this.key = key
    this.resume = resume
  }
}
