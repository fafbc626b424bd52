import { AppError } from '../../errors.ts'
import { factsOf, SignerRefused } from '../../signer-wire/client.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'
import type { Clock } from '../../clock.ts'

/** This sponsor cannot send it, another one may; nothing is bound. */
export class Unable extends Error {
  /** error to throw if no other sponsor can; null: sponsor_empty */
  readonly told: AppError | null
  constructor(told: AppError | null) {
    super()
    this.told = told
  }
}

/**
 * Maps an error of a sponsor's transfer: a problem of the sponsor is not the user's. The signer enforces limits of its
 * own, independent of the server.
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
 * seconds after which a stopped sponsor is tried again: until the foreign transaction is final, or an operator has
 * resumed it
 */
const STOPPED_SECONDS = 300

export const sponsorStopped = (cause: AppError): AppError =>
  new AppError('sponsor_stopped', 'A transaction that this service did not create used a nonce of the sponsor. Nothing was sent. Retry when that transaction is final, or when an operator has resumed the sponsor.', { retryAfter: STOPPED_SECONDS, cause }) // prettier-ignore

/** Returns the seconds until a retry makes sense. If only an operator can change it, that is an hour, not a second. */
export const secondsUntil = (resetsAt: string | null, { wall }: Clock): number =>
  resetsAt === null ? 3_600 : Math.max(1, Math.ceil((Date.parse(resetsAt) - wall()) / 1_000))
