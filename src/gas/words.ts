import { wordDigits } from '../ids.ts'

/** A number as 32 bytes. */
export const word = (value: number | bigint): Buffer => Buffer.from(wordDigits(BigInt(value)), 'hex')
/** An address as 32 bytes. */
export const padded = (address: Buffer): Buffer => Buffer.concat([Buffer.alloc(12), address])
/** Bytes with zeros behind them, up to whole words. */
export const paddedRight = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32)])
/** A number as so many bytes. */
export const bytesOf = (value: number | bigint, length: number): Buffer =>
  Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex')
