import { toHex } from '../hex.ts'
import { wordDigits } from '../ids.ts'

/** Encodes a uint256 for the database: 32 bytes, big-endian. */
export const toWord = (value: bigint): Buffer => Buffer.from(wordDigits(value), 'hex')

/** Decodes a uint256 column. */
export const fromWord = (bytes: Uint8Array): bigint => BigInt(toHex(bytes))
