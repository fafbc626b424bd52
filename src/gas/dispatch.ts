import assert from 'node:assert/strict'
import { keccak } from '../keccak.ts'
import type { OperationCall } from './operation.ts'
import { padded, paddedRight, word } from './words.ts'

const selectorOf = (signature: string): Buffer => keccak(Buffer.from(signature)).subarray(0, 4)
const DISPATCH = selectorOf('dispatch(address,bytes)')
const CANCEL = selectorOf('cancel(address,uint96[])')
const USED = selectorOf('used(uint256)')
const IS_SPONSOR = selectorOf('isSponsor(address,address)')

/** bytes of an operation before its calls. Source: contracts/Dispatcher.sol, HEADER */
const HEADER_BYTES = 108
/** bytes of selector, space, offset of the operations, and their length */
const DISPATCH_BYTES = 4 + 3 * 32

/**
 * Encodes a sponsor's call of the dispatcher: operations of one space, in this order.
 * @param packed  each operation in the signer's encoding, with its signature
 */
export function dispatchData(space: Buffer, packed: readonly Buffer[]): Buffer {
  assert.equal(space.length, 20)
  const operations = Buffer.concat(packed)
  return Buffer.concat([DISPATCH, padded(space), word(64), word(operations.length), paddedRight(operations)])
}

/** Decodes calls that `packCalls` encoded. */
export function readCalls(packed: Uint8Array): OperationCall[] {
  const bytes = Buffer.from(packed)
  let place = 1
  const take = (length: number) => bytes.subarray(place, (place += length))
  return Array.from({ length: bytes[0]! }, () => {
    const to = take(20)
    const value = numberIn(take(take(1)[0]!))
    return { to, value, data: take(take(3).readUIntBE(0, 3)) }
  })
}

/**
 * Decodes the operations in calldata of `dispatchData`: the space, and account and sequence of each operation.
 * @returns null for other calldata
 */
export function readDispatch(
  data: Uint8Array,
): { space: Buffer; operations: { account: Buffer; sequence: bigint }[] } | null {
  const bytes = Buffer.from(data)
  if (bytes.length < DISPATCH_BYTES || !bytes.subarray(0, 4).equals(DISPATCH)) return null
  const length = Number(numberAt(bytes, 68, 32))
  const end = DISPATCH_BYTES + length
  if (numberAt(bytes, 36, 32) !== 64n || bytes.length !== DISPATCH_BYTES + Math.ceil(length / 32) * 32) return null
  const operations = []
  for (let place = DISPATCH_BYTES; place < end;) {
    if (place + HEADER_BYTES > end) return null
    const account = bytes.subarray(place, place + 20)
    operations.push({ account, sequence: numberAt(bytes, place + 20, 12) })
    place += HEADER_BYTES + Number(numberAt(bytes, place + 105, 3))
    if (place > end) return null
  }
  return { space: bytes.subarray(16, 36), operations }
}

/** Encodes a call that uses up ids, so that operations signed for them can never be executed. */
export function cancelData(space: Buffer, sequences: readonly bigint[]): Buffer {
  return Buffer.concat([CANCEL, padded(space), word(64n), word(BigInt(sequences.length)), ...sequences.map(word)])
}

/** Decodes the sequences that calldata of `cancelData` uses up. @returns null for other calldata */
export function readCancel(data: Uint8Array): bigint[] | null {
  const bytes = Buffer.from(data)
  if (bytes.length < DISPATCH_BYTES) return null
  const words = Math.floor((bytes.length - DISPATCH_BYTES) / 32)
  const sequences = Array.from({ length: words }, (_, index) => numberAt(bytes, DISPATCH_BYTES + index * 32, 32))
  return bytes.equals(cancelData(bytes.subarray(16, 36), sequences)) ? sequences : null
}

/** Encodes a query for the word of 256 ids that contains this one. */
export const usedData = (space: Buffer, sequence: bigint): Buffer =>
  Buffer.concat([USED, word(idOf(space, sequence) >> 8n)])

/** Returns whether an id is used, from the dispatcher's answer to `usedData`. */
export const isUsed = (answer: Uint8Array, sequence: bigint): boolean =>
  ((numberAt(Buffer.from(answer), 0, 32) >> (sequence & 255n)) & 1n) === 1n

/** Encodes a query whether a space allows a sponsor. */
export const isSponsorData = (space: Buffer, sponsor: Buffer): Buffer =>
  Buffer.concat([IS_SPONSOR, padded(space), padded(sponsor)])

const idOf = (space: Buffer, sequence: bigint): bigint => (numberAt(space, 0, 20) << 96n) | sequence

const numberAt = (bytes: Buffer, place: number, length: number): bigint =>
  BigInt(`0x${bytes.subarray(place, place + length).toString('hex') || '0'}`)
const numberIn = (bytes: Buffer): bigint => numberAt(bytes, 0, bytes.length)
