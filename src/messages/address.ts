import { checksumAddress, hasWrongChecksum, isAddress } from '../digits.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Hex } from '../ids.ts'

/** Returns an address as text with its checksum. */
export const checksummed = (address: Uint8Array): Hex => checksumAddress(toHex(address))

/** Parses an address. Returns null if it is none, or if it has letters of both cases and a wrong checksum. */
export const addressIn = (value: unknown): Buffer | null =>
  isAddress(value) && !hasWrongChecksum(value) ? fromHex(value) : null
