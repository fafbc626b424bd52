import { AppError } from '../../errors.ts'
import { factsOf, SignerRefused } from '../../signer-wire/client.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'
import type { Clock } from '../../clock.ts'

/** Thrown if this sponsor cannot send a top-up and another one may; nothing is bound. */
export class Unable extends Error {
  /** error to throw if no other sponsor can; null: sponsor_empty */
  readonly told: AppError | null
  constructor(told: AppError | null) {
    super()
    this.told = told
  }
}

/**
 * Maps an error of a sponsor's transfer, because a problem of the sponsor is not the user's fault. The signer enforces
 * limits of its own, independent of the server.
 */
export function explainSponsor(error: unknown, clock: Clock): unknown {
  // A restored signer may have lost the sponsor's key.
  if (error instanceof SignerRefused && error.code === 'unknown_account') return new Unable(null)
  if (!(error instanceof AppError)) return error
  const { code, message } = error
  if (code === 'insufficient_funds' || code === 'account_frozen') return new Unable(null)
  if (code === 'account_stopped') return new Unable(sponsorStopped(error))
  if (code === 'too_many_pending')
    return new Unable(
      new AppError('overloaded', 'The sponsor has too many pending transactions. Nothing was sent. Retry.', {
        retryAfter: 5,
        cause: error,
      }),
    )
  if (code !== 'policy_denied') return error
  const { rule, resetsAt = null } = factsOf(error)
  if (rule === OWN_RULES.topUpOff)
    return new AppError(
      'sponsor_empty',
      'Top-ups are off in the signer of this installation. Nothing was sent. An operator must set its limits.',
      { cause: error },
    )
  if (rule !== OWN_RULES.topUpPerUser && rule !== OWN_RULES.topUpPerSponsor) return error
  const exhausted = new AppError('gas_budget_exhausted', message, {
    resetsAt,
    cause: error,
    retryAfter: secondsUntil(resetsAt, clock),
  })
  return rule === OWN_RULES.topUpPerSponsor ? new Unable(exhausted) : exhausted
}

/**
 * seconds after which a write may try a stopped sponsor again: by then the foreign transaction may be final, or an
 * operator may have resumed the sponsor
 */
const STOPPED_SECONDS = 300

export const sponsorStopped = (cause: AppError): AppError =>
  new AppError('sponsor_stopped', 'A transaction that this service did not create used a nonce of the sponsor. Nothing was sent. Retry when that transaction is final, or when an operator has resumed the sponsor.', { retryAfter: STOPPED_SECONDS, cause }) // prettier-ignore

/** Returns the seconds until a retry makes sense: an hour if only an operator can change the situation. */
export const secondsUntil = (resetsAt: string | null, { wall }: Clock): number =>
  resetsAt === null ? 3_600 : Math.max(1, Math.ceil((Date.parse(resetsAt) - wall()) / 1_000))
