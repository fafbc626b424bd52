import type { Hex } from '../../ids.ts'
import { InvalidResponse } from './failures.ts'
import type { Block } from '../rpc/block.ts'
import { quantityIn } from '../../digits.ts'

/** The end of the year 9999: a development chain's clock can be set to times that have no date. */
const LAST_SECOND = 253_402_300_799

/** What is kept of a block or a header, as a node sends it. @throws InvalidResponse */
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

/** Nodes write what does not apply as null, or leave it out. */
export const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined

/** @throws InvalidResponse  naming what was asked for */
export function readObject(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new InvalidResponse(`the node did not answer ${what}`)
  return value as Record<string, unknown>
}

/** @throws InvalidResponse */
export function readQuantity(value: unknown, what: string): bigint {
  const quantity = quantityIn(value)
  if (quantity === null) throw new InvalidResponse(`${what} is not a quantity`)
  return quantity
}

/** @throws InvalidResponse  also for what is too large to be exact */
export function readNumber(value: unknown, what: string): number {
  const number = Number(readQuantity(value, what))
  if (!Number.isSafeInteger(number)) throw new InvalidResponse(`${what} is too large`)
  return number
}

/**
 * True when the transaction of a receipt succeeded. Receipts from before Byzantium carry a state root instead of a
 * status; one with neither says nothing. EIP-658
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

/** Bytes of any length in hexadecimal; what is behind 0x is read by those who need it. @throws InvalidResponse */
export function readBytes(value: unknown, what: string): Hex {
  if (typeof value !== 'string' || !value.startsWith('0x')) throw new InvalidResponse(`${what} is not bytes`)
  return value as Hex
}

/** 32 bytes, lower-case. @throws InvalidResponse */
export const readHash = (value: unknown, what: string): Hex => readHex(value, 64, what)

/** 20 bytes, lower-case. @throws InvalidResponse */
export const readAddress = (value: unknown, what: string): Hex => readHex(value, 40, what)

function readHex(value: unknown, digits: number, what: string): Hex {
  if (typeof value !== 'string' || value.length !== digits + 2 || !/^0x[0-9a-f]+$/i.test(value)) {
    throw new InvalidResponse(`not ${digits / 2} bytes: ${what}`)
  }
  return value.toLowerCase() as Hex
}
