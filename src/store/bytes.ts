import { toHex } from '../hex.ts'
import { wordDigits } from '../ids.ts'

/** uint256 as the 32 big-endian bytes that the database holds. */
export const toWord = (value: bigint): Buffer => Buffer.from(wordDigits(value), 'hex')

/** The number in a uint256 column. */
export const fromWord = (bytes: Uint8Array): bigint => BigInt(toHex(bytes))
