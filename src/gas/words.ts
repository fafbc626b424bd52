import { wordDigits } from '../ids.ts'

/** Encodes a number in 32 bytes. */
export const word = (value: number | bigint): Buffer => Buffer.from(wordDigits(BigInt(value)), 'hex')
/** Encodes an address in 32 bytes. */
export const padded = (address: Buffer): Buffer => Buffer.concat([Buffer.alloc(12), address])
/** Appends zeros up to a multiple of 32 bytes. */
export const paddedRight = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32)])
/** Encodes a number in `length` bytes. */
export const bytesOf = (value: number | bigint, length: number): Buffer =>
  Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex')
