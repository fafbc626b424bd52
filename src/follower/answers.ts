import type { Block } from '../chain/head.ts'
import type { Hex } from '../ids.ts'
import type { Log, Receipt } from './block.ts'

/** The node answered something that cannot be right, or not yet: asked again later, never taken as "empty". */
export class BadAnswer extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'BadAnswer'
  }
}

/** The end of the year 9999: a development chain's clock can be set to times that have no date. */
const LAST_SECOND = 253_402_300_799

/** What is read of an `eth_getBlockBy…` answer beyond the header; the transactions by their hashes. */
export type RawBlock = Block & { logsBloom: string | null; transactions: Hex[] }

/** A block without whole transactions, as the node sends it. @throws BadAnswer */
export function readBlock(answer: unknown): RawBlock {
  const block = readObject(answer, 'a block')
  if (!Array.isArray(block.transactions)) throw new BadAnswer('the block has no list of transactions')
  return {
    number: readNumber(block.number, 'number of the block'),
    hash: readHash(block.hash, 'hash of the block'),
    parentHash: readHash(block.parentHash, 'parent hash'),
    timestamp: Math.min(readNumber(block.timestamp, 'timestamp'), LAST_SECOND),
    baseFee: isAbsent(block.baseFeePerGas) ? null : readQuantity(block.baseFeePerGas, 'base fee'),
    logsBloom: typeof block.logsBloom === 'string' ? block.logsBloom : null,
    transactions: block.transactions.map((hash) => readHash(hash, 'hash of a transaction')),
  }
}

/** A receipt, and the hash of the block that it says it belongs to. @throws BadAnswer */
export function readReceipt(answer: unknown): Receipt & { blockHash: Hex } {
  const receipt = readObject(answer, 'a receipt')
  if (!Array.isArray(receipt.logs)) throw new BadAnswer('a receipt has no list of logs')
  return {
    blockHash: readHash(receipt.blockHash, 'block hash of a receipt'),
    transactionHash: readHash(receipt.transactionHash, 'transaction hash of a receipt'),
    from: readAddress(receipt.from, 'sender'),
    to: isAbsent(receipt.to) ? null : readAddress(receipt.to, 'recipient'),
    // Receipts from before Byzantium carry a state root instead of a status; those of today always have one.
    status: isAbsent(receipt.status) ? true : readQuantity(receipt.status, 'status') === 1n,
    gasUsed: readNumber(receipt.gasUsed, 'gas used'),
    effectiveGasPrice: isAbsent(receipt.effectiveGasPrice) ? 0n : readQuantity(receipt.effectiveGasPrice, 'gas price'),
    contractAddress: isAbsent(receipt.contractAddress) ? null : readAddress(receipt.contractAddress, 'contract'),
    logs: receipt.logs.map(readLog),
  }
}

/** A log of a receipt or of `eth_getLogs`. @throws BadAnswer */
export function readLog(answer: unknown): Log {
  const log = readObject(answer, 'a log')
  if (!Array.isArray(log.topics) || log.topics.length > 4) throw new BadAnswer('a log has no list of topics')
  if (typeof log.data !== 'string' || !/^0x[0-9a-f]*$/i.test(log.data)) throw new BadAnswer('a log has no data')
  return {
    address: readAddress(log.address, 'address of a log'),
    topics: log.topics.map((topic) => readHash(topic, 'topic')),
    data: log.data as Hex,
    logIndex: readNumber(log.logIndex, 'log index'),
  }
}

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined

/** @throws BadAnswer  naming what was asked for */
export function readObject(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new BadAnswer(`the node did not answer ${what}`)
  return value as Record<string, unknown>
}

function readQuantity(value: unknown, what: string): bigint {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,64}$/i.test(value)) throw new BadAnswer(`no number: ${what}`)
  return BigInt(value)
}

function readNumber(value: unknown, what: string): number {
  const number = Number(readQuantity(value, what))
  if (!Number.isSafeInteger(number)) throw new BadAnswer(`too large a number: ${what}`)
  return number
}

const readHash = (value: unknown, what: string): Hex => readHex(value, 64, what)
const readAddress = (value: unknown, what: string): Hex => readHex(value, 40, what)

function readHex(value: unknown, digits: number, what: string): Hex {
  if (typeof value !== 'string' || value.length !== digits + 2 || !/^0x[0-9a-f]+$/i.test(value)) {
    throw new BadAnswer(`not ${digits / 2} bytes: ${what}`)
  }
  return value.toLowerCase() as Hex
}
