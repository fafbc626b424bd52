import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'
import { notSigned } from './bind.ts'
import { secondsUntil } from '../sponsors/refused-top-up.ts'
import type { Clock } from '../../clock.ts'

/** Returns the error for an operation that the signer excludes from a transaction, with the user's next step. */
export function explainLeftOut(error: SignerRefused, clock: Clock): AppError {
  const { message, facts } = error
  const { because, rule, resetsAt = null } = facts
  if (because === 'policy_denied' && rule === OWN_RULES.sponsoredPerUser)
    return new AppError('gas_budget_exhausted', message, {
      resetsAt,
      cause: error,
      retryAfter: secondsUntil(resetsAt, clock),
    })
  if (because === 'policy_denied' || because === 'account_frozen' || because === 'application_suspended')
    return new AppError(because, message, { cause: error })
  if (because === 'operation_expired')
    return new AppError('overloaded', 'The write was not sent in time and has expired. Nothing was done. Retry.', { retryAfter: 5, cause: error }) // prettier-ignore
  return new AppError('conflict', `The signer does not allow a sponsor to send this write now: ${message} Retry.`, { retryAfter: 5, cause: error }) // prettier-ignore
}

/** Maps a refusal that no caller can cause to an error with the caller's next step. Logs the cause. */
export function explainRefusal(error: unknown): unknown {
  if (error instanceof AppError || !(error instanceof SignerRefused)) return error
  switch (error.code) {
    case 'nonce_gap':
    case 'nonce_conflict':
      return notSigned(error)
    case 'operations_paused':
      return new AppError('overloaded', 'The signer was restored and does not sign operations yet. Nothing was sent. Retry.', { retryAfter: 60, cause: error }) // prettier-ignore
    case 'intent_conflict':
    case 'sequence_conflict':
    case 'replacement_underpriced':
      return new AppError('conflict', 'The signer has another signature for this nonce or id. Nothing was signed. Retry.', { retryAfter: 5, cause: error }) // prettier-ignore
    default:
      return new AppError('signer_unavailable', 'The signer cannot sign this write at the moment. Retry with the same idempotency key.', { retryAfter: 60, cause: error }) // prettier-ignore
  }
}
