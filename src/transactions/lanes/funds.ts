import { checksumAddress } from '../../digits.ts'
import { highestPrice } from '../../chain/fees.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { Attempt, Terms } from '../intent.ts'

/** Balance that an account has for its writes. */
export type Budget = {
  /** wei */
  available: bigint
  /** transactions below this nonce are mined and deducted from `available`; 0: unknown */
  paidBelow: number
}

/** A write that its account cannot pay: the value in wei, and its terms; null if the node did not estimate them. */
export type Shortage = { value: bigint; terms: Terms | null }

/**
 * Gives an account the missing funds for a write.
 * @returns the budget afterwards; null if no sponsor or faucet pays
 */
export type Fund = (shortage: Shortage) => Promise<Budget | null>

/** Returns the maximum that an intent with these terms takes from its account, wei. */
export const costOf = ({ value }: { value: bigint }, { gas, fees }: Terms): bigint => value + gas * highestPrice(fees)

/** Returns the maximum that an attempt takes from its account, wei; a cancellation takes only its gas. */
export const reservedFor = ({ value }: { value: bigint }, attempt: Omit<Attempt, 'raw' | 'hash'>): bigint =>
  costOf({ value: attempt.isCancel ? 0n : value }, attempt)

/**
 * Returns the error for an account that cannot pay a write.
 * @param reserved  highest cost of the account's open writes, wei
 */
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

/** Returns the `funds` member of an error; amounts in wei. */
export const fundsOf = (from: Hex, { needed, available }: { needed: bigint; available: bigint }) => ({
  address: checksumAddress(from),
  needed: String(needed),
  available: String(available),
})
