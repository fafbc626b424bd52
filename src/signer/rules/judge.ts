import { Refusal } from '../refusal.ts'
import { doesNothing, effectOf, feePair, type FeeFields } from '../transaction.ts'
import type { SignOrder } from '../request.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

type SignKind = SignRequest['kind']

/** What the ledger remembers of one signature for a nonce; wei per gas, gas units. */
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

/** What is known around the nonce that was asked for. Functions where the answer is seldom needed. */
export type SigningFacts<A extends SignedAttempt> = {
  /** signatures of this (chain, address, nonce), oldest first */
  attempts: A[]
  /** the intent has a signature under another chain, address or nonce */
  isElsewhere: boolean
  /** the account authorized code with this nonce (EIP-7702), which nothing else has, ever */
  isDelegation: boolean
  /** a token of its user was shown for what it does: of this account and chain, or of each operation that it carries */
  isVouched: boolean
  /** the key of the account is held elsewhere, too: its nonces are used there */
  isHeldElsewhere: () => boolean
  /** nonces in a row that may be filled without a token: as many writes as a server binds before it signs one */
  maxFills: number
  /** the account's lowest and highest signed nonce on this chain; null before the first */
  lane: () => SignedLane | null
  /** nonces below it are used on the chain, by signatures that the ledger has lost */
  floor: number
  /** unsigned nonces between two, both included */
  unsignedBetween: (low: number, high: number) => number
  /** nonces between two, both included, that were signed, but never with a token */
  unvouchedBetween: (low: number, high: number) => number[]
}

/** Either bytes that exist already, or leave to sign, as what. */
export type Verdict<A> = { stored: A } | { sign: SignKind; terms: SignedAttempt }

/** How far a nonce may run ahead of the lowest unsigned one: geth keeps 16 of a sender for sure, reth at most 16. */
const MAX_AHEAD = 16

/**
 * The rules of the sign ledger. A nonce belongs to the first intent that is signed for it, with one effect forever;
 * only a cancel of that same intent may come between, and then nothing but that cancel at a higher fee. So a server
 * whose database has lost an intent cannot outbid it by a cancel, and a first signature that is asked for again at
 * other fees is no raise: anyone who asks does not know that there is one, and is refused.
 *
 * After a cancel the original is not raised any more: two effects that outbid each other in turn could both reach
 * nodes at any time, and a caller who was answered "cancelled" would lose to our own repricing. Bytes of the original
 * that exist are still handed out: they were given away before.
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
  // A raised cancel may be asked for as a replacement.
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

/** What is known of a lane, for a nonce that has no signature. */
type LaneFacts = Pick<
  SigningFacts<SignedAttempt>,
  'floor' | 'lane' | 'unsignedBetween' | 'isHeldElsewhere' | 'isVouched'
>

/** Whether a nonce may be the account's next. @throws nonce_conflict, nonce_gap */
export function assertReachable(nonce: number, facts: LaneFacts): void {
  const { floor } = facts
  if (nonce < floor) throw new Refusal('nonce_conflict', 'This nonce was used before the ledger was restored.')
  const lane = above(floor, facts.lane())
  // Where an account starts on a chain is the chain's knowledge: it may have been imported. With a token it may also
  // start again further down: else one fill at an absurd nonce would lock an absent user out forever.
  // An account whose key is also elsewhere continues where that left off, however far that is.
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
  // Filling a nonce costs its fee. Without this bound a stolen server could burn an absent user's funds on fees.
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
  // Every hole was the lowest unsigned nonce once, and 32 below is where the last look at it was.
  return facts.unsignedBetween(Math.max(lowest, nonce - 2 * MAX_AHEAD), nonce - MAX_AHEAD - 1) > 0
}

/** A lane whose nonces below the floor count as signed. */
function above(floor: number, lane: SignedLane | null): SignedLane | null {
  if (floor === 0) return lane
  const { lowest, highest } = lane ?? { lowest: floor, highest: floor - 1 }
  return { lowest: Math.max(lowest, floor), highest: Math.max(highest, floor - 1) }
}

/** How many nonces next to this one, below and above without a break, were filled without a token. */
function neighbours<A extends SignedAttempt>(nonce: number, { maxFills, unvouchedBetween }: SigningFacts<A>): number {
  const filled = new Set(unvouchedBetween(nonce - maxFills, nonce + maxFills))
  let [low, high] = [nonce, nonce]
  while (filled.has(low - 1)) low -= 1
  while (filled.has(high + 1)) high += 1
  return high - low
}

/** A hole below something that the user signed for is in its way: it is filled, however many were before it. */
function isVouchedAbove<A extends SignedAttempt>(
  nonce: number,
  { unsignedBetween, unvouchedBetween }: SigningFacts<A>,
): boolean {
  const [low, high] = [nonce + 1, nonce + MAX_AHEAD]
  return unsignedBetween(low, high) + unvouchedBetween(low, high).length < MAX_AHEAD
}

/**
 * Whether a cancel that is to be signed fills a nonce for nobody: no token was shown for it, now or ever. What its user
 * signed for may cost what that user's writes may cost; this may not.
 */
export const isFill = <A extends SignedAttempt>(
  { tx: { nonce } }: SignOrder,
  kind: SignKind,
  facts: SigningFacts<A>,
): boolean =>
  kind === 'cancel' &&
  !facts.isVouched &&
  (facts.attempts.length === 0 || facts.unvouchedBetween(nonce, nonce).length > 0)

/** The part of a request that the ledger compares and keeps. */
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

/** go-ethereum core/txpool/legacypool, list.Add: 10 % on both fields, and more than before even where 10 % is nothing. */
function outbids({ max, priority }: SignedAttempt, attempts: SignedAttempt[]): boolean {
  return attempts.every(
    (before) => max > before.max && max * 10n >= before.max * 11n && priority * 10n >= before.priority * 11n,
  )
}
