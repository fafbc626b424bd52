import type { Hex } from '../../ids.ts'
import { InvalidResponse } from './failures.ts'
import type { Block } from '../rpc/block.ts'
import { quantityIn } from '../../digits.ts'

/** Last second of the year 9999: a development chain's clock can be set beyond the range of a date. */
const LAST_SECOND = 253_402_300_799

/**
 * Reads the stored fields of a block or header as a node sends it.
 * @throws InvalidResponse
 */
export function readHeader(answer: unknown): Block {
  const block = readObject(answer, 'a block')
  return {
    number: readNumber(block.number, 'number of the block'),
    hash: readHash(block.hash, 'hash of the block'),
    parentHash: readHash(block.parentHash, 'parent hash'),
    timestamp: Math.min(readNumber(block.timestamp, 'timestamp'), LAST_SECOND),
    baseFee: isAbsent(block.baseFeePerGas) ? null : readQuantity(block.baseFeePerGas, 'base fee'),
  }
}

/** Nodes send null for a field that does not apply, or omit it. */
export const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined

/**
 * Reads an object.
 * @throws InvalidResponse  naming `what`
 */
export function readObject(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new InvalidResponse(`the node did not answer ${what}`)
  return value as Record<string, unknown>
}

/**
 * Reads a quantity.
 * @throws InvalidResponse
 */
export function readQuantity(value: unknown, what: string): bigint {
  const quantity = quantityIn(value)
  if (quantity === null) throw new InvalidResponse(`${what} is not a quantity`)
  return quantity
}

/**
 * Reads a number.
 * @throws InvalidResponse  also if it is too large to be exact
 */
export function readNumber(value: unknown, what: string): number {
  const number = Number(readQuantity(value, what))
  if (!Number.isSafeInteger(number)) throw new InvalidResponse(`${what} is too large`)
  return number
}

/**
 * Returns whether the transaction of a receipt succeeded. Receipts before Byzantium have a state root instead of a
 * status; a receipt with neither is invalid. EIP-658
 * @throws InvalidResponse
 */
export function readStatus({ status, root }: Record<string, unknown>): boolean {
  if (isAbsent(status)) {
    readHash(root, 'status or state root of a receipt')
    return true
  }
  const number = readQuantity(status, 'status')
  if (number > 1n) throw new InvalidResponse('invalid receipt status')
  return number === 1n
}

/**
 * Reads bytes of any length in hexadecimal; only the prefix 0x is checked.
 * @throws InvalidResponse
 */
export function readBytes(value: unknown, what: string): Hex {
  if (typeof value !== 'string' || !value.startsWith('0x')) throw new InvalidResponse(`${what} is not bytes`)
  return value as Hex
}

/**
 * Reads 32 bytes, as lower-case hex.
 * @throws InvalidResponse
 */
export const readHash = (value: unknown, what: string): Hex => readHex(value, 64, what)

/**
 * Reads 20 bytes, as lower-case hex.
 * @throws InvalidResponse
 */
export const readAddress = (value: unknown, what: string): Hex => readHex(value, 40, what)

function readHex(value: unknown, digits: number, what: string): Hex {
  if (typeof value !== 'string' || value.length !== digits + 2 || !/^0x[0-9a-f]+$/i.test(value)) {
    throw new InvalidResponse(`not ${digits / 2} bytes: ${what}`)
  }
  return value.toLowerCase() as Hex
}
