import type { Hex } from '../ids.ts'
import { isWord } from '../digits.ts'

/** keccak256 of `Transfer(address,address,uint256)`, of ERC-20 and ERC-721, which differ in the number of topics */
export const TRANSFER_TOPIC: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/** keccak256 of `TransferSingle(address,address,address,uint256,uint256)`, ERC-1155 */
export const TRANSFER_SINGLE_TOPIC: Hex = '0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62'
/** keccak256 of `TransferBatch(address,address,address,uint256[],uint256[])`, ERC-1155 */
export const TRANSFER_BATCH_TOPIC: Hex = '0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb'

/** keccak256 of `ConsecutiveTransfer(uint256,uint256,address,address)`, ERC-2309: a range of ids of an ERC-721 */
export const CONSECUTIVE_TRANSFER_TOPIC: Hex = '0xdeaa91b6123d068f5821d0fb0678463d1a8a6079fe8af5de3ce5e896dcf9133d'
/** keccak256 of `Deposit(address,uint256)` and `Withdrawal(address,uint256)`: WETH9 mints and burns without a transfer. */
export const DEPOSIT_TOPIC: Hex = '0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c'
export const WITHDRAWAL_TOPIC: Hex = '0x7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65'

/** The events above for log filters, by the topics that can be the account: 1 and 2; 2 and 3; 1. */
export const TRANSFER_TOPICS: readonly Hex[] = [TRANSFER_TOPIC]
export const OPERATED_TOPICS: readonly Hex[] = [TRANSFER_SINGLE_TOPIC, TRANSFER_BATCH_TOPIC, CONSECUTIVE_TRANSFER_TOPIC]
export const WRAPPING_TOPICS: readonly Hex[] = [DEPOSIT_TOPIC, WITHDRAWAL_TOPIC]

/** The address in whose name EIP-7708 logs native currency transfers. */
export const NATIVE_TRANSFER_LOGGER: Hex = '0xfffffffffffffffffffffffffffffffffffffffe'

/** The zero address as a topic. */
const NOBODY: Hex = `0x${'0'.repeat(64)}`
const MAX_WORD = 2n ** 256n - 1n

/** elements of one TransferBatch that become transfers; the last one counts the omitted ones */
const MAX_BATCH = 1000

/**
 * The form of a log, by the standard that defines it, whatever the contract is. `WRAPPED`: a deposit into or withdrawal
 * from a contract that wraps native currency. It is a transfer from or to the zero address, if the contract is a
 * wrapper.
 */
export type LogForm = 'ERC20' | 'ERC721' | 'ERC1155' | 'WRAPPED'

/**
 * `from` and `to` are lower-case. `value` is in the smallest unit; for the form ERC-721 it is the number of ids from
 * `tokenId` on, 1 except in a range. `batchIndex` is 0 except in a batch.
 */
export type DecodedTransfer = {
  form: LogForm
  from: Hex
  to: Hex
  tokenId: bigint | null
  value: bigint
  batchIndex: number
  /** elements of the batch that were omitted after this one; only the last transfer of a long batch has any */
  omitted: number
}

export type EventLog = { address: Hex; topics: readonly Hex[]; data: Hex }

/** Decodes the token transfers that a log announces. Returns [] for any other or inconsistent log. Never throws. */
export function decodeTransferLog(log: EventLog): DecodedTransfer[] {
  if (log.address.toLowerCase() === NATIVE_TRANSFER_LOGGER) return []
  if (!log.topics.every(isWord)) return []
  switch (log.topics[0]?.toLowerCase()) {
    case TRANSFER_TOPIC:
      return decodeTransfer(log)
    case TRANSFER_SINGLE_TOPIC:
      return decodeSingle(log)
    case TRANSFER_BATCH_TOPIC:
      return decodeBatch(log)
    case CONSECUTIVE_TRANSFER_TOPIC:
      return decodeRange(log)
    case DEPOSIT_TOPIC:
      return decodeWrapping(log, (account) => ({ from: NOBODY, to: account }))
    case WITHDRAWAL_TOPIC:
      return decodeWrapping(log, (account) => ({ from: account, to: NOBODY }))
    default:
      return []
  }
}

function decodeTransfer({ topics, data }: EventLog): DecodedTransfer[] {
  if (topics.length === 3 && sizeOf(data) === 32) {
    return transferOf('ERC20', { from: topics[1], to: topics[2] }, { tokenId: null, value: wordAt(data, 0) })
  }
  if (topics.length === 4 && sizeOf(data) === 0) {
    return transferOf('ERC721', { from: topics[1], to: topics[2] }, { tokenId: BigInt(topics[3]!), value: 1n })
  }
  if (topics.length === 1 && sizeOf(data) === 96) {
    // Contracts from the time when `indexed` was not common.
    const ends = { from: hexAt(data, 0), to: hexAt(data, 32) }
    return transferOf('ERC20', ends, { tokenId: null, value: wordAt(data, 64) })
  }
  return []
}

/**
 * Decodes a range as one transfer, however many ids it has, because a range costs its contract one log. The range of
 * all uint256 is rejected: its count does not fit.
 */
function decodeRange({ topics, data }: EventLog): DecodedTransfer[] {
  if (topics.length !== 4 || sizeOf(data) !== 32) return []
  const first = BigInt(topics[1]!)
  const last = wordAt(data, 0)
  if (last === null || last < first || last - first === MAX_WORD) return []
  return transferOf('ERC721', { from: topics[2], to: topics[3] }, { tokenId: first, value: last - first + 1n })
}

function decodeWrapping(
  { topics, data }: EventLog,
  endsOf: (account: Hex | undefined) => { from: Hex | undefined; to: Hex | undefined },
): DecodedTransfer[] {
  if (topics.length !== 2 || sizeOf(data) !== 32) return []
  return transferOf('WRAPPED', endsOf(topics[1]), { tokenId: null, value: wordAt(data, 0) })
}

function decodeSingle({ topics, data }: EventLog): DecodedTransfer[] {
  if (topics.length !== 4 || sizeOf(data) !== 64) return []
  return transferOf(
    'ERC1155',
    { from: topics[2], to: topics[3] },
    { tokenId: wordAt(data, 0), value: wordAt(data, 32) },
  )
}

function decodeBatch({ topics, data }: EventLog): DecodedTransfer[] {
  if (topics.length !== 4) return []
  const ids = arrayAt(data, 0)
  const values = arrayAt(data, 32)
  if (!ids || !values || ids.length !== values.length || sharesBytes(ids, values)) return []
  const transfers: DecodedTransfer[] = []
  for (let index = 0; index < Math.min(ids.length, MAX_BATCH); index++) {
    const amount = { tokenId: wordAt(data, ids.start + index * 32), value: wordAt(data, values.start + index * 32) }
    transfers.push(...transferOf('ERC1155', { from: topics[2], to: topics[3] }, amount, index))
  }
  const last = transfers.at(-1)
  if (last !== undefined) last.omitted = Math.max(0, ids.length - MAX_BATCH)
  return transfers
}

/** Returns whether two arrays overlap. Shared bytes cost a contract once and us twice, and no compiler creates them. */
const sharesBytes = (one: ArrayPlace, other: ArrayPlace): boolean =>
  one.start - 32 < other.start + other.length * 32 && other.start - 32 < one.start + one.length * 32

/** Returns an upper bound for the transfers of a log, by its size; 1 for any other log. */
export function mostTransfersIn({ topics, data }: Pick<EventLog, 'topics' | 'data'>): number {
  if (topics[0]?.toLowerCase() !== TRANSFER_BATCH_TOPIC) return 1
  return Math.min(MAX_BATCH, Math.max(1, Math.floor(sizeOf(data) / 64)))
}

function transferOf(
  form: LogForm,
  ends: { from: Hex | undefined; to: Hex | undefined },
  amount: { tokenId: bigint | null; value: bigint | null },
  batchIndex = 0,
): DecodedTransfer[] {
  const from = addressOf(ends.from)
  const to = addressOf(ends.to)
  const { tokenId, value } = amount
  if (from === null || to === null || value === null) return []
  if (form === 'ERC1155' && tokenId === null) return []
  return [{ form, from, to, tokenId, value, batchIndex, omitted: 0 }]
}

/** `start`: byte offset of the first item; the word before it is the length. */
type ArrayPlace = { start: number; length: number }

/** Locates the items of a uint256[]. Returns null if its offset or length is invalid. */
function arrayAt(data: Hex, at: number): ArrayPlace | null {
  const size = sizeOf(data)
  const offset = wordAt(data, at)
  // An array cannot overlap the two offsets.
  if (offset === null || offset < 64n || offset > BigInt(size)) return null
  const length = wordAt(data, Number(offset))
  const start = Number(offset) + 32
  if (length === null || length * 32n > BigInt(size - start)) return null
  return { start, length: Number(length) }
}

/** Decodes an address. Returns null for a word with dirty high bits. */
function addressOf(word: Hex | undefined): Hex | null {
  if (!word || !/^0x0{24}[0-9a-fA-F]{40}$/.test(word)) return null
  return `0x${word.slice(26).toLowerCase()}`
}

/** Reads the 32 bytes at a byte offset as a number. Returns null if the data ends earlier or is not hexadecimal. */
function wordAt(data: Hex, at: number): bigint | null {
  const word = hexAt(data, at)
  return isWord(word) ? BigInt(word) : null
}

const hexAt = (data: Hex, at: number): Hex => `0x${data.slice(2 + at * 2, 2 + (at + 32) * 2)}`

/** Returns the size in bytes; -1, which matches nothing, for an odd number of digits. */
const sizeOf = (data: Hex): number => (data.length % 2 === 0 && data.startsWith('0x') ? data.length / 2 - 1 : -1)
