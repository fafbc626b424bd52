import { AppError } from '../errors.ts'
import { ADDRESS_WEIGHT, FREE_BYTES, MAX_DATA_BYTES, MAX_READINGS, MAX_VALUES } from './limits.ts'
import type { Leaf, Shape, Value } from './shape.ts'

/** Number of values and bytes that may still be decoded. It bounds the work whatever the offsets in the data claim. */
export type DecodeBudget = { valuesLeft: number; bytesLeft: number }

/** Returns the budget for decoding data of this size. */
export const budgetFor = (data: Buffer): DecodeBudget => ({
  valuesLeft: MAX_VALUES,
  bytesLeft: MAX_READINGS * data.length + FREE_BYTES,
})

type Decoding = { data: Buffer; budget: DecodeBudget }

/**
 * Decodes the return data of a contract, as hostile input. Every word must be within the data and in its type's range, every
 * length within the rest. Data after the values is ignored, as by compilers. A string's padding must exist but may have
 * any content. Invalid UTF-8 becomes U+FFFD.
 * @throws invalid_return_data
 */
export function decodeSequence(shapes: readonly Shape[], data: Buffer): Value[] {
  if (data.length > MAX_DATA_BYTES) throw wrong(`holds more than ${MAX_DATA_BYTES} bytes`)
  return decodeComponents({ data, budget: budgetFor(data) }, shapes, 0)
}

/** Decodes as above, within a budget that several attempts may share. Returns null instead of throwing. */
export function tryDecodeSequence(shapes: readonly Shape[], data: Buffer, budget: DecodeBudget): Value[] | null {
  try {
    return decodeComponents({ data, budget }, shapes, 0)
  } catch (error) {
    if (error instanceof AppError) return null
    throw error
  }
}

/** @param base  start of the head, from which offsets count */
function decodeComponents(decoding: Decoding, shapes: readonly Shape[], base: number): Value[] {
  let at = base
  return shapes.map((shape) => {
    const place = shape.isDynamic ? base + readSize(decoding, at) : at
    at += shape.headBytes
    return decode(decoding, shape, place)
  })
}

function decode(decoding: Decoding, shape: Shape, at: number): Value {
  spend(decoding, shape)
  if (shape.kind === 'tuple') return decodeComponents(decoding, shape.components, at)
  if (shape.kind !== 'array') return decodeLeaf(decoding, shape, at)
  const length = shape.length ?? readSize(decoding, at)
  const start = shape.length === null ? at + 32 : at
  // Check before allocating: `length` items need this many bytes.
  if (start + length * shape.item.headBytes > decoding.data.length) throw wrong('ends inside an array')
  return decodeItems(decoding, shape.item, start, length)
}

function decodeItems(decoding: Decoding, item: Shape, start: number, length: number): Value[] {
  const items: Value[] = []
  for (let index = 0; index < length; index++) {
    const at = start + index * item.headBytes
    items.push(decode(decoding, item, item.isDynamic ? start + readSize(decoding, at) : at))
  }
  return items
}

function spend({ budget }: Decoding, shape: Shape): void {
  budget.valuesLeft -= shape.kind === 'address' ? ADDRESS_WEIGHT : 1
  if (budget.valuesLeft < 0)
    throw wrong(`holds more than ${MAX_VALUES} values, an address counting as ${ADDRESS_WEIGHT}`)
}

function spendBytes({ budget }: Decoding, bytes: number): void {
  budget.bytesLeft -= bytes
  if (budget.bytesLeft < 0) throw wrong('uses the same bytes for many values')
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

function decodeLeaf(decoding: Decoding, shape: Leaf, at: number): Value {
  if (shape.kind === 'bytes') return `0x${readBytes(decoding, at).toString('hex')}`
  if (shape.kind === 'string') return utf8.decode(readBytes(decoding, at))
  if (shape.kind === 'fixedBytes') return readFixedBytes(decoding, at, shape.size)
  const value = readWord(decoding, at)
  switch (shape.kind) {
    case 'uint':
      if (value >> BigInt(shape.bits) !== 0n) throw wrong(`holds a number that does not fit uint${shape.bits}`)
      return value
    case 'int': {
      const signed = BigInt.asIntN(shape.bits, value)
      if (BigInt.asUintN(256, signed) !== value) throw wrong(`holds a number that does not fit int${shape.bits}`)
      return signed
    }
    case 'bool':
      if (value > 1n) throw wrong('holds a bool that is not 0 or 1')
      return value === 1n
    default:
      if (value >> 160n !== 0n) throw wrong('holds an address of more than 20 bytes')
      return `0x${decoding.data.toString('hex', at + 12, at + 32)}`
  }
}

function readFixedBytes(decoding: Decoding, at: number, size: number): string {
  const value = readWord(decoding, at)
  if (BigInt.asUintN(256 - 8 * size, value) !== 0n) throw wrong(`holds more than ${size} bytes in a bytes${size}`)
  return `0x${decoding.data.toString('hex', at, at + size)}`
}

function readBytes(decoding: Decoding, at: number): Buffer {
  const length = readSize(decoding, at)
  const start = at + 32
  if (start + Math.ceil(length / 32) * 32 > decoding.data.length) throw wrong('ends inside a string or bytes')
  spendBytes(decoding, length)
  return decoding.data.subarray(start, start + length)
}

/** Reads an offset or a length, which cannot exceed the size of the data. */
function readSize(decoding: Decoding, at: number): number {
  const value = readWord(decoding, at)
  if (value > BigInt(decoding.data.length)) throw wrong('has an offset or a length beyond its end')
  return Number(value)
}

/** Reads 32 bytes, big-endian, with a fast path for small numbers. */
function readWord(decoding: Decoding, at: number): bigint {
  const { data } = decoding
  if (at + 32 > data.length) throw wrong('is too short')
  spendBytes(decoding, 32)
  const low = data.readBigUInt64BE(at + 24)
  const third = data.readBigUInt64BE(at + 16)
  const second = data.readBigUInt64BE(at + 8)
  const high = data.readBigUInt64BE(at)
  if (high === 0n && second === 0n && third === 0n) return low
  return (high << 192n) | (second << 128n) | (third << 64n) | low
}

const wrong = (what: string) => new AppError('invalid_return_data', `The data from the contract ${what}.`)
