/**
 * The smallest allowance that counts as unlimited: 2^127 − 1, about 1.7 × 10^38. The supply of widely used tokens is below 10^34
 * smallest units. The numbers that mean “unlimited” are larger (2^128 − 1, 2^160 − 1 of Permit2, 2^255, 2^256 − 1), except 2^96 − 1,
 * which UNI and COMP store. An NFT id can exceed the bound; its approval in calldata then counts as unlimited.
 */
const MIN_UNLIMITED = 2n ** 127n - 1n
const UNLIMITED_96 = 2n ** 96n - 1n

/** Returns whether an allowance of a message or a transaction counts as unlimited. */
export const isUnlimitedAmount = (amount: bigint): boolean => amount >= MIN_UNLIMITED || amount === UNLIMITED_96
