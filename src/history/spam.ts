import type { Hex } from '../ids.ts'
import { MAX_POINTS, SPAM_POINTS } from '../tokens/spam-wire.ts'
import { suspectToken, type KnownTokens, type TokenSuspicion } from '../tokens/suspicion.ts'
import type { TokenType } from '../tokens/record.ts'
import type { SpamReason } from './wire.ts'

/** Why an entry is hidden. `score`: 50 to 100. */
export type Spam = { score: number; reasons: SpamReason[] }

/** A token transfer to be judged. Native currency is never judged, because the chain itself reports it. */
export type JudgedTransfer = {
  token: Hex
  tokenType: TokenType
  symbol: string
  name: string
  direction: 'IN' | 'OUT' | 'SELF'
  /** in the token's smallest unit */
  value: bigint
  /** as stored: the transfer moved nothing, and the user did not initiate it */
  isZero: boolean
}

export type TransferFacts = {
  /** by our records, the user or a sponsor for the user caused it */
  isOwn: boolean
  /**
   * its transaction includes operations, but none of the user's operations caused the transfer: the user did not
   * initiate it
   */
  isBesideOwn: boolean
  /** suspicion by the token's symbol and name, from `suspicionOf` */
  told: TokenSuspicion
  /** the user has called the token, or moved it by a transaction of their own */
  isTokenUsed: boolean
  /** the account had received the token before */
  wasHeld: boolean
  /**
   * every action of the user with this key is known: all past transfers are indexed, and the key was never held
   * elsewhere
   */
  isPastWhole: boolean
}

const POINTS = {
  zero: MAX_POINTS,
  claimed: 60,
  /** low, because games burn and move tokens that they gave to users, without a request */
  claimedAfterItCame: 15,
} as const

/** Judges a transfer. Returns null if the score is below 50. A pure function. */
export function judgeTransfer(one: JudgedTransfer, facts: TransferFacts, known: KnownTokens): Spam | null {
  if (facts.isOwn) return null
  const own: TokenSuspicion = facts.isTokenUsed ? { points: 0, reasons: [] } : facts.told
  const found: [SpamReason, number][] = [
    ['zero_value', one.isZero || (one.value === 0n && facts.isBesideOwn) ? POINTS.zero : 0],
    ['claimed_transfer', claimOf(one, facts, known)],
  ]
  const counted = found.filter(([, points]) => points > 0)
  const score = counted.reduce((sum, [, points]) => sum + points, own.points)
  if (score < SPAM_POINTS) return null
  return { score: Math.min(score, MAX_POINTS), reasons: [...counted.map(([reason]) => reason), ...own.reasons] }
}

/** Returns the suspicion by the token's symbol and name. */
export const suspicionOf = ({ token, ...told }: JudgedTransfer, known: KnownTokens): TokenSuspicion =>
  suspectToken({ address: token, ...told }, known)

/** Returns whether a transfer could be a false claim that the user sent a token. Known tokens are trusted. */
export const mayBeClaim = (one: JudgedTransfer, known: KnownTokens): boolean =>
  one.direction === 'OUT' && one.value > 0n && !known.byAddress.has(one.token)

function claimOf(
  one: JudgedTransfer,
  { isTokenUsed, isPastWhole, wasHeld }: TransferFacts,
  known: KnownTokens,
): number {
  if (!mayBeClaim(one, known) || isTokenUsed || !isPastWhole) return 0
  return wasHeld ? POINTS.claimedAfterItCame : POINTS.claimed
}
