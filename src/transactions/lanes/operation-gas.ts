import type { DelegateName } from '../../ids.ts'
import type { Operation } from '../operation.ts'

/**
 * Gas units around what an account signed a limit for, never less than it takes (EVM of Prague; a network that takes more is asked
 * by `eth_estimateGas`). Unused gas is not paid for.
 */

/** a transaction, its sponsor's right, and what the dispatcher wants to be left at the last operation (contracts/Dispatcher.sol, RESERVE) */
const TRANSACTION = 21_000n + 8_000n + 15_000n
/** two accounts that were not touched before, a word of the bitmap that was, the event with 356 bytes, taking it apart */
const OPERATION = 14_000n
/** what the dispatcher for Calibur takes more, to take calls apart and put them together again: once, and of each byte of its calls */
const CALIBUR_OPERATION = 6_000n
const CALIBUR_OPERATION_BYTE = 15n
/** a word of the bitmap that nobody wrote to before */
const BITMAP_WORD = 22_100n
/** EIP-7623: the floor of calldata */
export const BYTE = 40n
/** EIP-7702, PER_EMPTY_ACCOUNT_COST */
export const AUTHORIZATION = 25_000n
/** ids in a word of the bitmap */
export const WORD_IDS = 256
/** The largest sequence of an operation of ours. The dispatcher has 96 bits for those of others. */
export const MAX_SEQUENCE = BigInt(Number.MAX_SAFE_INTEGER)

/** bytes of an operation before its calls, and of each call: recipient, lengths of value and data, value */
const HEADER_BYTES = 108
const CALL_BYTES = 24 + 32
/** packed, at most */
export const bytesOf = ({ calls }: Pick<Operation, 'calls'>): number =>
  calls.reduce((sum, { data }) => sum + CALL_BYTES + data.length, HEADER_BYTES)

type Carried = Pick<Operation, 'calls' | 'gas' | 'authorizationNonce' | 'delegate'>

/** What one operation adds: the call keeps a 64th (EIP-150). */
export const addedGas = (operation: Carried): bigint =>
  (operation.gas * 64n) / 63n +
  OPERATION +
  BYTE * BigInt(bytesOf(operation)) +
  (operation.delegate === 'calibur' ? CALIBUR_OPERATION + CALIBUR_OPERATION_BYTE * BigInt(bytesOf(operation)) : 0n) +
  (operation.authorizationNonce === null ? 0n : AUTHORIZATION)

/** What it takes alone, which is more than its part of any transaction with others: what is reserved of budgets. */
export const aloneGas = (operation: Carried): bigint => TRANSACTION + BITMAP_WORD + addedGas(operation)

/** What a transaction of a sponsor takes at most. */
export function outerGas(operations: readonly (Carried & Pick<Operation, 'sequence'>)[]): bigint {
  const words = new Set(operations.map(({ sequence }) => Math.floor(sequence / WORD_IDS)))
  return operations.reduce((sum, one) => sum + addedGas(one), TRANSACTION + BITMAP_WORD * BigInt(words.size))
}

/** EIP-712 of the operation, its signature and taking its calls apart, by the account's code: once, of each call, of each byte of data */
const OWN_WORK: Readonly<Record<DelegateName, { once: bigint; call: bigint; byte: bigint }>> = {
  chatelaine: { once: 12_000n, call: 3_000n, byte: 20n },
  // A nonce that was never used is a word of storage.
  calibur: { once: 55_000n, call: 6_000n, byte: 40n },
}

/** What an account signs as limit, by the estimate of its calls in a transaction of their own. A quarter more: the state may be another one then. */
export function operationGas(estimate: bigint, { calls, delegate }: Pick<Operation, 'calls' | 'delegate'>): bigint {
  const bytes = calls.reduce((sum, { data }) => sum + data.length, 0)
  const { once, call, byte } = OWN_WORK[delegate]
  const own = once + call * BigInt(calls.length) + byte * BigInt(bytes)
  const effect = estimate > 21_000n ? estimate - 21_000n : 0n
  return (effect * 5n) / 4n + own
}
