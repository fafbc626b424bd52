import { Refusal } from '../refusal.ts'
import { doesNothing, effectOf, feePair, type FeeFields } from '../transaction.ts'
import type { SignOrder } from '../request.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

type SignKind = SignRequest['kind']

/** The ledger's terms of one signature for a nonce. Fees are in wei per gas. */
export type SignedAttempt = {
  kind: SignKind
  intentId: string
  effect: Buffer
  feeType: FeeFields['type']
  gas: bigint
  max: bigint
  priority: bigint
}

/** Lowest and highest signed nonce of an account on a chain. */
type SignedLane = { lowest: number; highest: number }

/** Facts about the requested nonce. Facts that are seldom needed are functions. */
export type SigningFacts<A extends SignedAttempt> = {
  /** signatures of this chain, address and nonce, oldest first */
  attempts: A[]
  /** true if the intent has a signature under another chain, address or nonce */
  isElsewhere: boolean
  /** true if the account authorized code with this nonce (EIP-7702); no transaction may ever use it */
  isDelegation: boolean
  /** true if the request has a token for this transaction, or for each operation in it */
  isVouched: boolean
  /** true if the account's key is also held elsewhere, where its nonces may be used */
  isHeldElsewhere: () => boolean
  /** maximum consecutive nonces that may be filled without a token: as many as a server binds before it signs one */
  maxFills: number
  /** the account's lowest and highest signed nonce on this chain; null before the first */
  lane: () => SignedLane | null
  /** all nonces below it are used on the chain, by signatures that the ledger has lost */
  floor: number
  /** counts the unsigned nonces of a range, both ends included */
  unsignedBetween: (low: number, high: number) => number
  /** lists the nonces of a range, both ends included, that were signed but never with a token */
  unvouchedBetween: (low: number, high: number) => number[]
}

/** Decision: return a stored signature, or sign as this kind. */
export type Verdict<A> = { stored: A } | { sign: SignKind; terms: SignedAttempt }

/**
 * Maximum distance of a nonce above the lowest unsigned one. Geth guarantees 16 transactions of a sender, reth holds at
 * most 16.
 */
const MAX_AHEAD = 16

/**
 * Decides whether a nonce may be signed, by the rules of the sign ledger.
 * - A nonce belongs to the first intent that is signed for it, with one effect forever.
 * - Only a cancellation of the same intent may follow, and after it only the same cancellation at a higher fee.
 * - A first signature that is requested again with other fees is rejected, not treated as a fee bump. The requester does not know
 *   that a signature exists.
 *
 * So a server whose database has lost an intent cannot outbid that intent by a cancellation.
 *
 * After a cancellation the original gets no fee bump. Otherwise two effects could outbid each other in turn. A client that got the
 * answer "cancelled" could then lose to a fee bump of the original. Signed bytes of the original are still returned, because they
 * were returned before.
 *
 * @throws intent_conflict, nonce_conflict, nonce_gap, replacement_underpriced, invalid_token, bad_request
 */
export function judge<A extends SignedAttempt>(ask: SignOrder, facts: SigningFacts<A>): Verdict<A> {
  const { attempts } = facts
  const terms = termsOf(ask)
  if (ask.kind === 'cancel' && ask.isOfOuter !== true && !doesNothing(ask.tx)) {
    throw new Refusal('bad_request', 'A cancellation must go to the account itself, without value and data.')
  }
  if (facts.isElsewhere) {
    throw new Refusal('intent_conflict', 'This intent was signed for another network, account or nonce.')
  }
  if (facts.isDelegation) throw new Refusal('nonce_conflict', 'This nonce belongs to an authorization of code.')
  if (attempts.length === 0) return { sign: judgeUnseen(ask, facts), terms }

  const cancel = attempts.find(({ kind }) => kind === 'cancel')
  const isCancelled = cancel !== undefined
  // A fee bump of a cancellation may be requested as a replacement.
  const isCancel = ask.kind === 'cancel' || (ask.kind === 'replace' && isCancelled && doesNothing(ask.tx))
  const same = attempts.find((attempt) => (attempt.kind === 'cancel') === isCancel && isSame(attempt, terms))
  if (same !== undefined) return { stored: same }
  const owner = attempts[0]!
  if (owner.intentId !== ask.intentId) throw new Refusal('nonce_conflict', 'This nonce belongs to another intent.')
  if (!isCancel) {
    if (isCancelled) throw new Refusal('nonce_conflict', 'This nonce was cancelled.')
    if (ask.kind === 'send') throw new Refusal('nonce_conflict', 'This intent was already signed with other terms.')
    if (!owner.effect.equals(terms.effect))
      throw new Refusal('nonce_conflict', 'This nonce was signed with another effect.')
  }
  if (isCancel && cancel !== undefined && !cancel.effect.equals(terms.effect))
    throw new Refusal('nonce_conflict', 'This nonce was cancelled in another way.')
  if (!outbids(terms, attempts)) {
    throw new Refusal('replacement_underpriced', 'Both fees must be at least 10 % above every earlier attempt.')
  }
  return { sign: isCancel ? 'cancel' : 'replace', terms }
}

/** Facts about an account's nonces for the decision about an unsigned nonce. */
type LaneFacts = Pick<
  SigningFacts<SignedAttempt>,
  'floor' | 'lane' | 'unsignedBetween' | 'isHeldElsewhere' | 'isVouched'
>

/** Checks whether a nonce may be the account's next. @throws nonce_conflict, nonce_gap */
export function assertReachable(nonce: number, facts: LaneFacts): void {
  const { floor } = facts
  if (nonce < floor) throw new Refusal('nonce_conflict', 'This nonce was used before the ledger was restored.')
  const lane = above(floor, facts.lane())
  // Only the chain knows at which nonce an account starts, because the account may have been imported. With a token, an
  // account may also start again at a lower nonce. Otherwise one gap-filling transaction at a very high nonce would
  // lock an absent user out forever. With a token, an account whose key is also held elsewhere continues where the
  // other holder stopped.
  if (lane !== null && leavesGap(nonce, lane, facts)) {
    const isExpected = facts.isVouched && (nonce < lane.lowest || facts.isHeldElsewhere())
    if (!isExpected)
      throw new Refusal('nonce_gap', `Nonce ${nonce} is more than ${MAX_AHEAD} ahead of one that was never signed.`)
  }
}

function judgeUnseen<A extends SignedAttempt>({ kind, tx: { nonce } }: SignOrder, facts: SigningFacts<A>): SignKind {
  assertReachable(nonce, facts)
  if (facts.isVouched) {
    if (kind !== 'replace') return kind
    throw new Refusal('nonce_conflict', 'No signed transaction of this nonce can be replaced.')
  }
  if (kind !== 'cancel') {
    throw new Refusal('invalid_token', 'The first signature of a nonce needs the user’s access token.')
  }
  // Bound the number of gap-filling transactions, because each costs its fee. Otherwise an attacker who controls the
  // server could burn an absent user's funds on fees.
  if (neighbours(nonce, facts) >= facts.maxFills && !isVouchedAbove(nonce, facts)) {
    throw new Refusal(
      'invalid_token',
      `${facts.maxFills} consecutive nonces were filled without the user’s access token.`,
    )
  }
  return 'cancel'
}

function leavesGap(nonce: number, { lowest, highest }: SignedLane, facts: LaneFacts): boolean {
  if (nonce < lowest - MAX_AHEAD || nonce > highest + MAX_AHEAD) return true
  // A nonce is signed only if no unsigned nonce lies more than MAX_AHEAD below it. So gaps further down were checked for lower
  // nonces already, and only the last 2 × MAX_AHEAD need checking.
  return facts.unsignedBetween(Math.max(lowest, nonce - 2 * MAX_AHEAD), nonce - MAX_AHEAD - 1) > 0
}

/** Returns the signed range with all nonces below the floor counted as signed. */
function above(floor: number, lane: SignedLane | null): SignedLane | null {
  if (floor === 0) return lane
  const { lowest, highest } = lane ?? { lowest: floor, highest: floor - 1 }
  return { lowest: Math.max(lowest, floor), highest: Math.max(highest, floor - 1) }
}

/** Counts the nonces without a gap directly below and above this one that were filled without a token. */
function neighbours<A extends SignedAttempt>(nonce: number, { maxFills, unvouchedBetween }: SigningFacts<A>): number {
  const filled = new Set(unvouchedBetween(nonce - maxFills, nonce + maxFills))
  let [low, high] = [nonce, nonce]
  while (filled.has(low - 1)) low -= 1
  while (filled.has(high + 1)) high += 1
  return high - low
}

/**
 * Returns whether the user signed for a nonce at most MAX_AHEAD above this one. This nonce blocks that one, so it may
 * be filled however many neighbours were filled.
 */
function isVouchedAbove<A extends SignedAttempt>(
  nonce: number,
  { unsignedBetween, unvouchedBetween }: SigningFacts<A>,
): boolean {
  const [low, high] = [nonce + 1, nonce + MAX_AHEAD]
  return unsignedBetween(low, high) + unvouchedBetween(low, high).length < MAX_AHEAD
}

/**
 * Returns whether the request is a cancellation for a nonce for which no token is in the request or in the ledger. Such
 * a cancellation may cost less than one of a write that its user signed.
 */
export const isFill = <A extends SignedAttempt>(
  { tx: { nonce } }: SignOrder,
  kind: SignKind,
  facts: SigningFacts<A>,
): boolean =>
  kind === 'cancel' &&
  !facts.isVouched &&
  (facts.attempts.length === 0 || facts.unvouchedBetween(nonce, nonce).length > 0)

/** Returns the terms of a request that the ledger compares and stores. */
export function termsOf({ intentId, kind, tx }: SignOrder): SignedAttempt {
  return { kind, intentId, effect: effectOf(tx), feeType: tx.fees.type, gas: tx.gas, ...feePair(tx.fees) }
}

const isSame = (a: SignedAttempt, b: SignedAttempt): boolean =>
  a.intentId === b.intentId &&
  a.effect.equals(b.effect) &&
  a.feeType === b.feeType &&
  a.gas === b.gas &&
  a.max === b.max &&
  a.priority === b.priority

/**
 * Returns whether both fees are at least 10 % above every earlier attempt. The maximum fee must be higher even if 10 % of it rounds
 * to 0. Source: go-ethereum core/txpool/legacypool, list.Add
 */
function outbids({ max, priority }: SignedAttempt, attempts: SignedAttempt[]): boolean {
  return attempts.every(
    (before) => max > before.max && max * 10n >= before.max * 11n && priority * 10n >= before.priority * 11n,
  )
}
