import { hasWrongChecksum, isAddress, isWord, quantityIn } from '../digits.ts'
import type { BlockTag } from '../chain/reads.ts'
import type { Hex } from '../ids.ts'
import { invalidParams } from './errors.ts'

/** bytes of `data` of a call, as for calls given by their ABI */
const MAX_DATA_BYTES = 98_304
const MAX_PERCENTILES = 20
/** blocks of a fee history */
const MAX_HISTORY = 128
const MAX_ALTERNATIVES = 20
const MAX_TOPICS = 4

/** A call as `eth_call` and `eth_estimateGas` take it. Prices and the nonce do not change the result, and are dropped. */
export type CallParam = { to?: Hex; data: Hex; from?: Hex; value?: bigint; gas?: number }

/** Blocks of a filter: numbers and tags, both included, or one block by its hash. */
export type LogFilter = {
  blocks: { from: BlockTag; to: BlockTag } | { hash: Hex }
  address: Hex[] | null
  topics: (Hex[] | Hex | null)[]
}

export function addressOf(value: unknown, name: string): Hex {
  if (!isAddress(value)) throw invalidParams(`${name}: expected an address, 0x and 40 hexadecimal digits.`)
  if (hasWrongChecksum(value)) throw invalidParams(`${name}: the checksum of the address is wrong.`)
  return value.toLowerCase() as Hex
}

export function hashOf(value: unknown, name: string): Hex {
  if (!isWord(value)) throw invalidParams(`${name}: expected 32 bytes, 0x and 64 hexadecimal digits.`)
  return value.toLowerCase() as Hex
}

/**
 * Reads a storage slot: a quantity or 32 bytes.
 * @returns 32 bytes
 */
export function slotOf(value: unknown): Hex {
  const slot = quantityIn(value)
  if (slot === null) throw invalidParams('slot: expected a quantity, 0x and 1 to 64 hexadecimal digits.')
  return `0x${slot.toString(16).padStart(64, '0')}`
}

export function flagOf(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return false
  if (typeof value !== 'boolean') throw invalidParams(`${name}: expected true or false.`)
  return value
}

/**
 * Reads a block parameter. `pending` is the newest block, because this service shows no pending state; `safe` is the
 * final one.
 */
export function blockOf(value: unknown): BlockTag {
  if (value === undefined || value === null || value === 'latest' || value === 'pending') return 'latest'
  if (value === 'finalized' || value === 'safe') return 'finalized'
  if (value === 'earliest') return 0
  const number = exactOf(value)
  if (number === null)
    throw invalidParams('block: expected latest, pending, safe, finalized, earliest or a number as 0x-hex.')
  return number
}

/** @returns null if it is no quantity, or too large to be exact */
function exactOf(value: unknown): number | null {
  const number = Number(quantityIn(value) ?? Number.NaN)
  return Number.isSafeInteger(number) ? number : null
}

const quantityAt = (value: unknown, name: string): bigint => {
  const quantity = quantityIn(value)
  if (quantity === null) throw invalidParams(`${name}: expected a quantity, 0x and 1 to 64 hexadecimal digits.`)
  return quantity
}

/** Fields of a call that change nothing: their type is checked, and their value is dropped. */
const DROPPED = ['gasPrice', 'maxFeePerGas', 'maxPriorityFeePerGas', 'nonce', 'type']
const CALL_FIELDS = new Set(['to', 'from', 'data', 'input', 'value', 'gas', 'chainId', ...DROPPED])

/** Reads the object of a call. */
export function callOf(value: unknown, { chainId, maxGas }: { chainId: number; maxGas: number }): CallParam {
  const fields = objectOf(value, 'call', CALL_FIELDS)
  for (const name of DROPPED) if (fields[name] !== undefined) quantityAt(fields[name], name)
  if (fields.chainId !== undefined && quantityAt(fields.chainId, 'chainId') !== BigInt(chainId))
    throw invalidParams(`chainId: the network of the application is ${chainId}.`)
  if (fields.data !== undefined && fields.input !== undefined && fields.data !== fields.input)
    throw invalidParams('data and input differ: send one of them.')
  const data = bytesOf(fields.data ?? fields.input ?? '0x')
  if (fields.to === undefined && data === '0x') throw invalidParams('call: `to` or `data` is missing.')
  const gas = fields.gas === undefined ? null : quantityAt(fields.gas, 'gas')
  return {
    data,
    ...(fields.to === undefined ? {} : { to: addressOf(fields.to, 'to') }),
    ...(fields.from === undefined ? {} : { from: addressOf(fields.from, 'from') }),
    ...(fields.value === undefined ? {} : { value: quantityAt(fields.value, 'value') }),
    // Nodes also run calls with more gas at their own limit.
    ...(gas === null ? {} : { gas: gas > BigInt(maxGas) ? maxGas : Number(gas) }),
  }
}

function bytesOf(value: unknown): Hex {
  if (typeof value !== 'string' || !/^0x([0-9a-fA-F]{2})*$/.test(value))
    throw invalidParams('data: expected bytes, 0x and an even number of hexadecimal digits.')
  if (value.length > 2 * MAX_DATA_BYTES + 2) throw invalidParams(`data: at most ${MAX_DATA_BYTES} bytes.`)
  return value.toLowerCase() as Hex
}

const FILTER_FIELDS = new Set(['fromBlock', 'toBlock', 'blockHash', 'address', 'topics'])

/** Reads the filter of `eth_getLogs`. The range is checked once its tags are numbers. */
export function filterOf(value: unknown): LogFilter {
  const { fromBlock, toBlock, blockHash, address, topics } = objectOf(value, 'filter', FILTER_FIELDS)
  if (blockHash !== undefined && (fromBlock !== undefined || toBlock !== undefined))
    throw invalidParams('filter: blockHash excludes fromBlock and toBlock.')
  return {
    blocks:
      blockHash === undefined
        ? { from: blockOf(fromBlock), to: blockOf(toBlock) }
        : { hash: hashOf(blockHash, 'blockHash') },
    address: address === undefined ? null : someOf(address, 'address', addressOf),
    topics: topicsOf(topics),
  }
}

function topicsOf(value: unknown): LogFilter['topics'] {
  if (value === undefined) return []
  if (!Array.isArray(value) || value.length > MAX_TOPICS)
    throw invalidParams(`topics: expected at most ${MAX_TOPICS} positions.`)
  return value.map((one: unknown) => (one === null ? null : someOf(one, 'topics', hashOf)))
}

function someOf(value: unknown, name: string, read: (one: unknown, name: string) => Hex): Hex[] {
  const all: unknown[] = Array.isArray(value) ? value : [value]
  if (all.length === 0 || all.length > MAX_ALTERNATIVES)
    throw invalidParams(`${name}: expected 1 to ${MAX_ALTERNATIVES} values.`)
  return all.map((one) => read(one, name))
}

/** Reads the number of blocks of a fee history: a quantity, or a number, as some clients send it. */
export function historyCountOf(value: unknown): number {
  const count = typeof value === 'number' ? value : exactOf(value)
  if (count === null || !Number.isInteger(count) || count < 1 || count > MAX_HISTORY)
    throw invalidParams(`blockCount: expected 1 to ${MAX_HISTORY}.`)
  return count
}

export function percentilesOf(value: unknown): number[] {
  if (value === undefined || value === null) return []
  const isList = Array.isArray(value) && value.length <= MAX_PERCENTILES
  if (!isList || !value.every((one, index) => isPercentile(one) && (index === 0 || one >= value[index - 1])))
    throw invalidParams(`rewardPercentiles: expected at most ${MAX_PERCENTILES} numbers from 0 to 100, ascending.`)
  return value as number[]
}

const isPercentile = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value <= 100

/**
 * Reads an object with known fields; null counts as absent.
 */
function objectOf(value: unknown, name: string, known: ReadonlySet<string>): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidParams(`${name}: expected an object.`)
  const given = Object.entries(value).filter(([, one]) => one !== null)
  const unknown = given.find(([field]) => !known.has(field))
  if (unknown !== undefined) throw invalidParams(`${name}: the field ${unknown[0].slice(0, 64)} is not supported.`)
  return Object.fromEntries(given)
}
