import type { Classified } from '../../messages/classify.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import type { SignedAttempt } from './judge.ts'
import type { DatedCharge, Meters } from './meters.ts'
import type { GasOperation } from '../../gas/operation.ts'
import { effectOf, effectsOfMessage } from '../policy/effect.ts'
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

/** Sources of the limits: policy, used amounts, and built-in limits. */
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

/** The result of limits that allow an attempt. */
export type PolicyVerdict = {
  /** the rule that allows it; absent if no rule was evaluated */
  rule?: string
  /** version and hash, for the record; null without a policy */
  policy: string | null
  charges: DatedCharge[]
  limits: LimitLeft[]
  /** the rule that demands the user's approval; null if none does */
  requires: string | null
}

export const NO_POLICY: PolicyVerdict = { policy: null, charges: [], limits: [], requires: null }

/**
 * Checks an attempt with a token against the operator's policy. Attempts without a token have separate limits
 * (`decideReplacement`, unattended.ts). So a fee bump can unblock an account queue even if a policy limit is reached.
 *
 * - A first `send`: every rule applies.
 * - A replacement or cancellation: only limits on fees apply. They are charged with the cost above the most expensive
 *   earlier attempt that had a token or grant.
 * - A cancellation that is the first of its nonce also counts as a transaction.
 *
 * Charges are never refunded: only the server reports that a write failed, and a cancelled write can still be mined.
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
    // The built-in rule no-contract-creation has already rejected a missing `to`.
    effect: effectOf({ chainId: tx.chainId, from: tx.from, to: tx.to!, value: tx.value, data: tx.data }),
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
 * Checks the calls of one operation against the operator's policy. Judges each call as a write without fees, after the
 * calls before it. Either all calls are allowed or none. The operation is charged once, when it is signed, however
 * often it is batched.
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
  const questions = calls.map((call) => ({
    effect: effectOf({ chainId, from, ...call }),
    feeWei: 0n,
    userId,
    clientId,
  }))
  const answer = evaluateCalls(inForce.document, questions, meters.at(at, from.toString('hex')))
  if (!answer.allowed) throw rejected(answer)
  return verdictOf(inForce, meters, answer.rules.join(', '), answer)
}

/**
 * Checks a message against the operator's policy. Judges each call with the same effect like a call of an operation,
 * and charges it in full when the message is signed.
 * @returns  `isNamed`: rules of the policy allow the message by its classes or its type
 * @throws policy_denied
 */
export function askPolicyOfMessage(
  { policy, meters }: Pick<Limiting, 'policy' | 'meters'>,
  message: Classified,
  { chainId, from }: { chainId: number; from: Buffer },
  { userId, clientId }: TokenCaller,
  at: number,
): PolicyVerdict & { isNamed: boolean } {
  const inForce = policy.current()
  if (inForce === null) return { ...NO_POLICY, isNamed: false }
  const effects = effectsOfMessage(message, { chainId, from })
  const questions = effects.map((effect) => ({ effect, feeWei: 0n, userId, clientId }))
  const answer = evaluateCalls(inForce.document, questions, meters.at(at, from.toString('hex')))
  if (!answer.allowed) throw rejected(answer, 'message')
  return { ...verdictOf(inForce, meters, answer.rules.join(', '), answer), isNamed: answer.isNamed }
}

const verdictOf = (
  { document, hash }: PolicyVersion,
  meters: Meters,
  rule: string | null,
  { charges, room, requires }: { charges: MeterCharge[]; room: LimitRoom[]; requires: string | null },
): PolicyVerdict => ({
  ...(rule === null ? {} : { rule }),
  policy: `${document.version} ${hash}`,
  charges: meters.dated(charges),
  limits: room.map(toLimitLeft),
  requires,
})

/** Creates the refusal for the caller. */
export const rejected = (
  { rule, reason, told = reason, resetsAt }: Omit<PolicyRefusal, 'allowed'>,
  what: 'transaction' | 'message' = 'transaction',
): Refusal =>
  new Refusal('policy_denied', `The rule ${rule} rejects this ${what}: ${told}. Nothing was signed.`, {
    rule,
    ...(resetsAt === undefined ? {} : { resetsAt: toTime(resetsAt) }),
  })

const toTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** Converts a limit to its form for the caller. Omits the amounts of a limit that is shared with other users. */
export const toLimitLeft = ({ rule, limit, amount, used, left, resetsAt, isOwn }: LimitRoom): LimitLeft => ({
  rule,
  limit,
  ...(isOwn ? { amount: amount.toString(), used: used.toString(), left: left.toString() } : {}),
  resetsAt: toTime(resetsAt),
})
