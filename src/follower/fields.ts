import { InvalidResponse } from '../chain/rpc/failures.ts'
import { decodeRlp, type Decoded } from '../rlp.ts'

/**
 * Reads bytes of any length.
 * @throws InvalidResponse
 */
export function bytes(value: unknown): Buffer {
  if (typeof value !== 'string' || !value.startsWith('0x')) throw new InvalidResponse('a field is not bytes')
  const read = Buffer.from(value.slice(2), 'hex')
  // Buffer stops at the first character that is no hex digit, and drops half a byte.
  if (read.length * 2 + 2 !== value.length) throw new InvalidResponse('a field is not bytes')
  return read
}

/**
 * Reads a number as the fewest bytes that represent it.
 * @throws InvalidResponse
 */
export function quantity(value: unknown): Buffer {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,64}$/i.test(value))
    throw new InvalidResponse('a field is not a number')
  const digits = value.replace(/^0x0*/i, '')
  return Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex')
}

/**
 * Reads a list of any items.
 * @throws InvalidResponse
 */
export function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new InvalidResponse('a field is not a list')
  return value
}

/**
 * Decodes RLP from a node.
 * @throws InvalidResponse  if it is truncated or has trailing bytes
 */
export function readRlp(all: Buffer): Decoded {
  const item = decodeRlp(all)
  if (item === null) throw new InvalidResponse('the RLP is truncated, or has trailing bytes')
  return item
}
