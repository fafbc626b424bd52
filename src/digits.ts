import type { Hex } from './ids.ts'

/** 0x and 40 hexadecimal digits in any case; says nothing of a checksum. */
export const isAddress = (value: unknown): value is Hex =>
  typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value)

/** 0x and 64 hexadecimal digits in any case: a hash, or a word of an ABI. */
export const isWord = (value: unknown): value is Hex => typeof value === 'string' && /^0x[0-9a-fA-F]{64}$/.test(value)

/** An amount in the smallest unit, in decimal digits and below 2^256; null for everything else. */
export function amountIn(value: unknown): bigint | null {
  if (typeof value !== 'string' || !/^\d{1,78}$/.test(value)) return null
  const amount = BigInt(value)
  return amount < 2n ** 256n ? amount : null
}

/** The same without leading zeros, so that one amount has one text. */
export const canonicalAmountIn = (value: unknown): bigint | null =>
  typeof value === 'string' && /^(0|[1-9]\d*)$/.test(value) ? amountIn(value) : null

/** A whole number from 0 on, in decimal digits and few enough of them to be exact; null for everything else. */
export const wholeIn = (value: unknown): number | null =>
  typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : null

/** A number as nodes write it, up to 256 bits; null for everything else. Source: Ethereum JSON-RPC, QUANTITY */
export const quantityIn = (value: unknown): bigint | null =>
  typeof value === 'string' && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : null

/** The same where it is exact as a number. */
export function exactQuantityIn(value: unknown): number | null {
  const number = Number(quantityIn(value) ?? Number.NaN)
  return Number.isSafeInteger(number) ? number : null
}
