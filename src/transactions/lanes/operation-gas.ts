import type { DelegateName } from '../../ids.ts'
import type { Operation } from '../operation.ts'

/**
 * Upper bounds, in gas units, of the gas around the limit that an account signed (EVM of Prague). Networks that need
 * more are asked by `eth_estimateGas`. Unused gas is not paid for.
 */

/**
 * a transaction, the check of its sponsor's permission, and the gas that the dispatcher requires to remain at the last
 * operation (contracts/Dispatcher.sol, RESERVE)
 */
const TRANSACTION = 21_000n + 8_000n + 15_000n
/** two cold accounts, a warm word of the bitmap, an event with 356 bytes, and decoding */
const OPERATION = 14_000n
/**
 * additional gas of the dispatcher for Calibur, which decodes and re-encodes the calls: per operation, and per byte of
 * its calls
 */
const CALIBUR_OPERATION = 6_000n
const CALIBUR_OPERATION_BYTE = 15n
/** the first write to a word of the bitmap */
const BITMAP_WORD = 22_100n
/** EIP-7623: floor price of a calldata byte */
export const BYTE = 40n
/** EIP-7702, PER_EMPTY_ACCOUNT_COST */
export const AUTHORIZATION = 25_000n
/** operation ids per word of the bitmap */
export const WORD_IDS = 256
/** Largest number of an operation of this service. The dispatcher's numbers have 96 bits. */
export const MAX_SEQUENCE = BigInt(Number.MAX_SAFE_INTEGER)

/** bytes of an operation before its calls; bytes of each call: recipient, lengths of value and data, value */
const HEADER_BYTES = 108
const CALL_BYTES = 24 + 32
/** Returns an upper bound of an operation's packed size, bytes. */
export const bytesOf = ({ calls }: Pick<Operation, 'calls'>): number =>
  calls.reduce((sum, { data }) => sum + CALL_BYTES + data.length, HEADER_BYTES)

type Carried = Pick<Operation, 'calls' | 'gas' | 'authorizationNonce' | 'delegate'>

/**
 * Returns the gas units that one operation adds to a transaction. Its call leaves 1/64 of the gas to the caller
 * (EIP-150).
 */
export const addedGas = (operation: Carried): bigint =>
  (operation.gas * 64n) / 63n +
  OPERATION +
  BYTE * BigInt(bytesOf(operation)) +
  (operation.delegate === 'calibur' ? CALIBUR_OPERATION + CALIBUR_OPERATION_BYTE * BigInt(bytesOf(operation)) : 0n) +
  (operation.authorizationNonce === null ? 0n : AUTHORIZATION)

/**
 * Returns the gas units of an operation that is alone in a transaction. Its share of any larger transaction is smaller,
 * so budgets reserve this amount.
 */
export const aloneGas = (operation: Carried): bigint => TRANSACTION + BITMAP_WORD + addedGas(operation)

/** Returns an upper bound of the gas units of a sponsor's transaction. */
export function outerGas(operations: readonly (Carried & Pick<Operation, 'sequence'>)[]): bigint {
  const words = new Set(operations.map(({ sequence }) => Math.floor(sequence / WORD_IDS)))
  return operations.reduce((sum, one) => sum + addedGas(one), TRANSACTION + BITMAP_WORD * BigInt(words.size))
}

/**
 * gas units of the account's code for the EIP-712 hash, the signature check and decoding: per operation, per call, per
 * byte of data
 */
const OWN_WORK: Readonly<Record<DelegateName, { once: bigint; call: bigint; byte: bigint }>> = {
  chatelaine: { once: 12_000n, call: 3_000n, byte: 20n },
  // Calibur writes a new word of storage for a nonce that was never used.
  calibur: { once: 55_000n, call: 6_000n, byte: 40n },
}

/**
 * Returns the gas limit that an account signs, from an estimate of its calls in a separate transaction. Adds 25 %,
 * because the state may change before the operation is mined.
 */
export function operationGas(estimate: bigint, { calls, delegate }: Pick<Operation, 'calls' | 'delegate'>): bigint {
  const bytes = calls.reduce((sum, { data }) => sum + data.length, 0)
  const { once, call, byte } = OWN_WORK[delegate]
  const own = once + call * BigInt(calls.length) + byte * BigInt(bytes)
  const effect = estimate > 21_000n ? estimate - 21_000n : 0n
  return (effect * 5n) / 4n + own
}
