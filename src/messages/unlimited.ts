/**
 * The smallest allowance that counts as unlimited: the largest number of a signed 128-bit integer. No token has so many of its
 * smallest unit (1.7 × 10^38); the largest in wide use are below 10^34. The numbers that stand for “unlimited” are above it
 * (2^128 − 1, 2^160 − 1 of Permit2, 2^255, 2^256 − 1), except 2^96 − 1, which UNI and COMP store. The id of an NFT may be above
 * the bound; in calldata its approval then counts as unlimited.
 */
const MIN_UNLIMITED = 2n ** 127n - 1n
const UNLIMITED_96 = 2n ** 96n - 1n

/** Tells whether an allowance counts as unlimited, of a message as of a transaction. */
export const isUnlimitedAmount = (amount: bigint): boolean => amount >= MIN_UNLIMITED || amount === UNLIMITED_96
