import { checksumAddress } from '../../abi/address.ts'
import { highestPrice } from '../../chain/fees.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { Attempt, Terms } from '../intent.ts'

/** What an account has for its writes. */
export type Budget = {
  /** wei */
  available: bigint
  /** transactions below this nonce are mined, and what they cost is off `available`; 0: not asked */
  paidBelow: number
}

/** Of a write that its account cannot pay: wei that it moves, and its terms; null where the node would not estimate them. */
export type Shortage = { value: bigint; terms: Terms | null }

/** Sees to it that an account has what a write lacks. @returns what it has then; null where nobody gives it anything */
export type Fund = (shortage: Shortage) => Promise<Budget | null>

/** The most that an intent at its terms takes from its account, wei. */
export const costOf = ({ value }: { value: bigint }, { gas, fees }: Terms): bigint => value + gas * highestPrice(fees)

/** The same for an attempt; a cancel takes its gas alone. */
export const reservedFor = ({ value }: { value: bigint }, attempt: Omit<Attempt, 'raw' | 'hash'>): bigint =>
  costOf({ value: attempt.isCancel ? 0n : value }, attempt)

/** @param reserved  what the account's open writes may cost, wei */
export function insufficientFunds(
  from: Hex,
  { cost, reserved, available }: { cost: bigint; reserved: bigint; available: bigint },
): AppError {
  const taken = reserved === 0n ? '' : `, of which ${reserved} are reserved by its pending writes`
  return new AppError(
    'insufficient_funds',
    `The account needs ${cost} wei and has ${available}${taken}. Nothing was sent. Fund the account, then retry.`,
    {
      funds: fundsOf(from, { needed: reserved + cost, available }),
    },
  )
}

export const fundsOf = (from: Hex, { needed, available }: { needed: bigint; available: bigint }) => ({
  address: checksumAddress(from),
  needed: String(needed),
  available: String(available),
})
