import { wordDigits, type Hex } from '../ids.ts'

/** 0x-hex of a bytea column, lower-case. */
export const toHex = (bytes: Uint8Array): Hex =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`

/** Bytes of 0x-hex; the text must be well-formed, of even length. */
export const fromHex = (hex: Hex): Buffer => Buffer.from(hex.slice(2), 'hex')

/** uint256 as the 32 big-endian bytes that the database holds. */
export const toWord = (value: bigint): Buffer => Buffer.from(wordDigits(value), 'hex')

/** The number in a uint256 column. */
export const fromWord = (bytes: Uint8Array): bigint => BigInt(toHex(bytes))
