import type { TokenCaller } from '../tokens/caller.ts'
import type { SignedAttempt } from './judge.ts'
import type { DatedCharge, Meters } from './meters.ts'
import type { GasOperation } from '../../gas/operation.ts'
import { evaluateCalls } from '../policy/evaluate-calls.ts'
import type { PolicyVersion } from '../policy/accept.ts'
import {
  evaluate,
  evaluateCancel,
  evaluateFees,
  type LimitRoom,
  type MeterCharge,
  type PolicyRefusal,
} from '../policy/evaluate.ts'
import type { PolicyInForce } from './policy-in-force.ts'
import type { PolicyLimits } from './policy.ts'
import type { LedgerAttempt } from '../ledger/record.ts'
import { Refusal } from '../refusal.ts'
import type { SignOrder } from '../request.ts'
import { feePair } from '../transaction.ts'
import { dearerBy } from './unattended.ts'
import type { LimitLeft } from '../../signer-wire/wire.ts'

/** What limits are asked with. */
export type Limiting = { policy: Pick<PolicyInForce, 'current'>; meters: Meters; limits: PolicyLimits }

/** One more attempt of a nonce, after `attempts`. */
export type NextAttempt = {
  ask: SignOrder
  kind: SignedAttempt['kind']
  terms: SignedAttempt
  attempts: LedgerAttempt[]
  account: { userId: string; address: Buffer }
  at: number
}

/** What limits say of what they let pass. */
export type PolicyVerdict = {
  /** the rule that allows it; absent where none was asked */
  rule?: string
  /** version and hash, for the record; null without a policy */
  policy: string | null
  charges: DatedCharge[]
  limits: LimitLeft[]
}

export const NO_POLICY: PolicyVerdict = { policy: null, charges: [], limits: [] }

/**
 * The operator's policy about an attempt for which a token was shown; what is signed without one has bounds of its own
 * (`decideReplacement`, unattended.ts), so that a raise unblocks a lane whatever limits hold by then.
 *
 * A first `send` is decided as a whole. What replaces or cancels it only costs fees: limits of fees are asked, and charged by what
 * it makes the nonce dearer than the dearest attempt that a token was shown for. A cancel that is the first of its nonce counts as a
 * transaction, too. Nothing is ever returned: of a write that fails only the server tells, and one that was cancelled can still be
 * mined.
 * @throws policy_denied
 */
export function askPolicy(
  { policy, meters }: Pick<Limiting, 'policy' | 'meters'>,
  { ask: { tx }, kind, terms, attempts, account, at }: NextAttempt,
  caller: TokenCaller,
): PolicyVerdict {
  const inForce = policy.current()
  if (inForce === null) return NO_POLICY
  const question = {
    // The built-in rule no-contract-creation was asked before.
    call: { chainId: tx.chainId, from: tx.from, to: tx.to!, value: tx.value, data: tx.data },
    feeWei: tx.gas * feePair(tx.fees).max,
    userId: account.userId,
    clientId: caller.clientId,
  }
  const read = meters.at(at, tx.from.toString('hex'))
  const agreed = attempts.filter(({ isAgreed }) => isAgreed)
  const dearer = dearerBy(terms, agreed)
  const { document } = inForce
  const answer =
    kind === 'send'
      ? evaluate(document, question, read)
      : kind === 'cancel'
        ? evaluateCancel(document, question, { dearerBy: dearer, isFirst: attempts.length === 0 }, read)
        : evaluateFees(document, question, dearer, read)
  if (!answer.allowed) throw rejected(answer)
  return verdictOf(inForce, meters, answer.rule, answer)
}

/**
 * The operator's policy about the calls of one operation: each is judged as a write of its own, at no fees, after those before it. All
 * of it is allowed or none; charged once, when the operation is signed, however often it is packed.
 * @throws policy_denied
 */
export function askPolicyOfCalls(
  { policy, meters }: Pick<Limiting, 'policy' | 'meters'>,
  { chainId, account: from, calls }: GasOperation,
  { userId, clientId }: TokenCaller,
  at: number,
): PolicyVerdict {
  const inForce = policy.current()
  if (inForce === null) return NO_POLICY
  const questions = calls.map((call) => ({ call: { chainId, from, ...call }, feeWei: 0n, userId, clientId }))
  const answer = evaluateCalls(inForce.document, questions, meters.at(at, from.toString('hex')))
  if (!answer.allowed) throw rejected(answer)
  return verdictOf(inForce, meters, answer.rules.join(', '), answer)
}

const verdictOf = (
  { document, hash }: PolicyVersion,
  meters: Meters,
  rule: string | null,
  { charges, room }: { charges: MeterCharge[]; room: LimitRoom[] },
): PolicyVerdict => ({
  ...(rule === null ? {} : { rule }),
  policy: `${document.version} ${hash}`,
  charges: meters.dated(charges),
  limits: room.map(toLimitLeft),
})

/** What someone who asked is told of it. */
export const rejected = ({ rule, reason, told = reason, resetsAt }: Omit<PolicyRefusal, 'allowed'>): Refusal =>
  new Refusal('policy_denied', `The rule ${rule} rejects this transaction: ${told}. Nothing was signed.`, {
    rule,
    ...(resetsAt === undefined ? {} : { resetsAt: toTime(resetsAt) }),
  })

const toTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** Of what other people use, too, nobody is told how much that is. */
export const toLimitLeft = ({ rule, limit, amount, used, left, resetsAt, isOwn }: LimitRoom): LimitLeft => ({
  rule,
  limit,
  ...(isOwn ? { amount: amount.toString(), used: used.toString(), left: left.toString() } : {}),
  resetsAt: toTime(resetsAt),
})
