import type { Hex } from '../ids.ts'
import { MAX_POINTS, SPAM_POINTS } from '../tokens/spam-wire.ts'
import { suspectToken, type KnownTokens, type TokenSuspicion } from '../tokens/suspicion.ts'
import type { TokenType } from '../tokens/record.ts'
import type { SpamReason } from './wire.ts'

/** Why an entry is hidden: `score` from 50 to 100. */
export type Spam = { score: number; reasons: SpamReason[] }

/** A transfer as it is judged, wherever it was found. `token` is null for the network's own currency. */
export type JudgedTransfer = {
  token: Hex | null
  tokenType: TokenType | 'NATIVE'
  symbol: string
  name: string
  decimals: number
  direction: 'IN' | 'OUT' | 'SELF'
  /** the other side, lower-case */
  other: Hex
  /** smallest unit */
  value: bigint
  /** that it moved nothing and the person did not initiate it, as the table says */
  isZero: boolean
}

/** What is known around a transfer. */
export type TransferFacts = {
  /** its transaction is the person's, or a sponsor's for them, by our own record */
  isOwn: boolean
  /** its transaction carries operations, and it is in none of the person's: they did not initiate it */
  isBesideOwn: boolean
  /** what the token's own words say of it: `suspicionOf` */
  told: TokenSuspicion
  /** the person has called the token, or moved it by a transaction of their own */
  isTokenUsed: boolean
  /** the token came in before */
  wasHeld: boolean
  /** nothing that the person did with this key can be unknown: all of the past is here, and the key nowhere else */
  isPastWhole: boolean
  /** the person has paid the other side */
  isOtherPaid: boolean
  /** addresses that look like the other side */
  alike: AlikeAddress[]
}

/** What the person had to do with an address, all of it before the transfer that is judged. */
export type AlikeAddress = {
  address: Hex
  isPaid: boolean
  /** the most that went between the person and it of the same token or native currency, where that is known; null: nothing */
  moved: bigint | null
  /** the other side had paid more than dust of it before: it is the other one that is like them */
  isNewer: boolean
}

const POINTS = {
  zero: MAX_POINTS,
  claimed: 60,
  /** games burn and move what they gave, without being asked */
  claimedAfterItCame: 15,
  alike: 70,
} as const

/** What is worth so much less than what went before is dust; without that, a thousandth of one whole. */
const DUST_PART = 100n
const DUST_DIGITS = 3

/** What speaks against a transfer; null where that is too little. A pure function of its arguments. */
export function judgeTransfer(one: JudgedTransfer, facts: TransferFacts, known: KnownTokens): Spam | null {
  if (facts.isOwn) return null
  const own: TokenSuspicion = facts.isTokenUsed ? { points: 0, reasons: [] } : facts.told
  const found: [SpamReason, number][] = [
    ['zero_value', one.isZero || (one.value === 0n && facts.isBesideOwn) ? POINTS.zero : 0],
    ['claimed_transfer', claimOf(one, facts, known)],
    ['look_alike_address', isFromImitator(one, facts, known) ? POINTS.alike : 0],
  ]
  const counted = found.filter(([, points]) => points > 0)
  const score = counted.reduce((sum, [, points]) => sum + points, own.points)
  if (score < SPAM_POINTS) return null
  return { score: Math.min(score, MAX_POINTS), reasons: [...counted.map(([reason]) => reason), ...own.reasons] }
}

/** What the token's own words say; nothing of the network's own currency. */
export function suspicionOf({ token, tokenType, symbol, name }: JudgedTransfer, known: KnownTokens): TokenSuspicion {
  if (token === null || tokenType === 'NATIVE') return { points: 0, reasons: [] }
  return suspectToken({ address: token, tokenType, symbol, name }, known)
}

/** Whether a token's word is taken: that of a known one, and what the chain itself says of its currency. */
export const isTrusted = ({ token }: Pick<JudgedTransfer, 'token'>, known: KnownTokens): boolean =>
  token === null || known.byAddress.has(token)

/** Whether it may be a claim, if the person never used the token. */
export const mayBeClaim = (one: JudgedTransfer, known: KnownTokens): boolean =>
  one.direction === 'OUT' && one.value > 0n && !isTrusted(one, known)

function claimOf(
  one: JudgedTransfer,
  { isTokenUsed, isPastWhole, wasHeld }: TransferFacts,
  known: KnownTokens,
): number {
  if (!mayBeClaim(one, known) || isTokenUsed || !isPastWhole) return 0
  return wasHeld ? POINTS.claimedAfterItCame : POINTS.claimed
}

/** Whether the other side may be an imitator: of what a trusted token or the chain says left, it is not. */
export const mayBeImitated = (one: JudgedTransfer, known: KnownTokens): boolean =>
  one.direction === 'IN' || (one.direction === 'OUT' && !isTrusted(one, known))

function isFromImitator(one: JudgedTransfer, { alike, isOtherPaid }: TransferFacts, known: KnownTokens): boolean {
  if (isOtherPaid || !mayBeImitated(one, known)) return false
  return alike.some(({ address, isPaid, moved, isNewer }) => {
    if (!looksAlike(one.other, address)) return false
    if (!isTrusted(one, known)) return isPaid
    // Who was paid is worth imitating, also where another came first.
    if (isNewer && !isPaid) return false
    if (moved !== null) return one.value * DUST_PART <= moved
    return isPaid && one.value < leastOf(one)
  })
}

/** What is less is dust wherever nothing is known to compare it with. */
export const leastOf = ({ decimals }: Pick<JudgedTransfer, 'decimals'>): bigint =>
  10n ** BigInt(Math.max(0, decimals - DUST_DIGITS))

/** Digits that have to agree at each end, and at both together: 28 bits, which nobody meets by chance. */
export const ALIKE_DIGITS = 3
const ALIKE_BOTH = 7

/** Whether people who look at the ends of addresses take one for the other. Zeros in front count for nothing: contracts are made with them. */
export function looksAlike(a: Hex, b: Hex): boolean {
  if (a === b) return false
  const [one, other] = [a.slice(2).toLowerCase(), b.slice(2).toLowerCase()]
  if (one.startsWith('0'.repeat(ALIKE_DIGITS))) return false
  const front = sameDigits(one, other)
  const back = sameDigits(one, other, (index) => -1 - index)
  return front >= ALIKE_DIGITS && back >= ALIKE_DIGITS && front + back >= ALIKE_BOTH
}

/** How many digits of two texts of one length agree, counted from the front or from the end. */
function sameDigits(a: string, b: string, at: (index: number) => number = (index) => index): number {
  let count = 0
  while (count < a.length && a.at(at(count)) === b.at(at(count))) count++
  return count
}
