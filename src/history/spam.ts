import type { Hex } from '../ids.ts'
import { MAX_POINTS, SPAM_POINTS } from '../tokens/spam-wire.ts'
import { suspectToken, type KnownTokens, type TokenSuspicion } from '../tokens/suspicion.ts'
import type { TokenType } from '../tokens/record.ts'
import type { SpamReason } from './wire.ts'

/** Why an entry is hidden: `score` from 50 to 100. */
export type Spam = { score: number; reasons: SpamReason[] }

/** A transfer of a token as it is judged: the chain itself says what moved of its own currency, and that is never judged. */
export type JudgedTransfer = {
  token: Hex
  tokenType: TokenType
  symbol: string
  name: string
  direction: 'IN' | 'OUT' | 'SELF'
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
}

const POINTS = {
  zero: MAX_POINTS,
  claimed: 60,
  /** games burn and move what they gave, without being asked */
  claimedAfterItCame: 15,
} as const

/** What speaks against a transfer; null where that is too little. A pure function of its arguments. */
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

/** What the token's own words say. */
export const suspicionOf = ({ token, ...told }: JudgedTransfer, known: KnownTokens): TokenSuspicion =>
  suspectToken({ address: token, ...told }, known)

/** Whether it may be a claim, if the person never used the token: a known one is believed. */
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
