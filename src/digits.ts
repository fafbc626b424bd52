import type { Hex } from './ids.ts'
import { keccak } from './keccak.ts'

/** Returns whether a value is 0x and 40 hexadecimal digits in any case. It does not check the checksum. */
export const isAddress = (value: unknown): value is Hex =>
  typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value)

/** Returns whether an address has letters of both cases and not its checksum. Source: EIP-55 */
export function hasWrongChecksum(address: Hex): boolean {
  const digits = address.slice(2)
  const isPlain = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  return !isPlain && checksumAddress(address.toLowerCase()) !== address
}

/**
 * Adds the EIP-55 checksum. Costs about 2 µs. Nothing is cached, because addresses of results are mostly distinct.
 * @param address  0x and 40 lower-case digits
 * Source: EIP-55
 */
export function checksumAddress(address: string): Hex {
  const digits = address.slice(2)
  const hash = keccak(Buffer.from(digits, 'latin1'))
  let checksummed = '0x'
  for (let index = 0; index < 40; index++) {
    const nibble = (hash[index >> 1]! >> (index % 2 === 0 ? 4 : 0)) & 0x0f
    const digit = digits[index]!
    checksummed += nibble >= 8 ? digit.toUpperCase() : digit
  }
  return checksummed as Hex
}

/** Returns whether a value is 0x and 64 hexadecimal digits in any case: a hash, or an ABI word. */
export const isWord = (value: unknown): value is Hex => typeof value === 'string' && /^0x[0-9a-fA-F]{64}$/.test(value)

/** Parses an amount in the smallest unit: decimal digits, below 2^256. Returns null for any other value. */
export function amountIn(value: unknown): bigint | null {
  if (typeof value !== 'string' || !/^\d{1,78}$/.test(value)) return null
  const amount = BigInt(value)
  return amount < 2n ** 256n ? amount : null
}

/** Parses an amount as `amountIn` does, but rejects leading zeros, so that each amount has one text. */
export const canonicalAmountIn = (value: unknown): bigint | null =>
  typeof value === 'string' && /^(0|[1-9]\d*)$/.test(value) ? amountIn(value) : null

/** Parses a whole number of at most 15 decimal digits, so that it is exact. Returns null for any other value. */
export const wholeIn = (value: unknown): number | null =>
  typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : null

/**
 * Parses a hexadecimal number of a node, up to 256 bits. Returns null for any other value.
 * Source: Ethereum JSON-RPC, QUANTITY
 */
export const quantityIn = (value: unknown): bigint | null =>
  typeof value === 'string' && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : null

/** Parses a hexadecimal number of a node that is exact as a number. Returns null for any other value. */
export function exactQuantityIn(value: unknown): number | null {
  const number = Number(quantityIn(value) ?? Number.NaN)
  return Number.isSafeInteger(number) ? number : null
}
