import {
  isAbsent,
  readAddress,
  readHash,
  readHeader,
  readNumber,
  readObject,
  readQuantity,
  readStatus,
} from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Hex } from '../ids.ts'
import { LOG_PLACES, type Log, type Receipt } from './block.ts'

/** Fields of an `eth_getBlockBy…` response beyond the header; transactions by their hashes. */
export type RawBlock = Block & { logsBloom: string | null; transactionsRoot: string | null; transactions: Hex[] }

/**
 * Reads a block response, with whole transactions or with their hashes.
 * @throws InvalidResponse
 */
export function readBlock(answer: unknown): RawBlock {
  const block = readObject(answer, 'a block')
  if (!Array.isArray(block.transactions)) throw new InvalidResponse('the block has no list of transactions')
  const transactions = block.transactions.map((one: unknown) =>
    readHash(typeof one === 'object' && one !== null ? (one as { hash?: unknown }).hash : one, 'hash of a transaction'),
  )
  // Two receipts of one transaction could claim both success and failure.
  if (new Set(transactions).size < transactions.length) throw new InvalidResponse('a transaction is in the block twice')
  return {
    ...readHeader(block),
    logsBloom: typeof block.logsBloom === 'string' ? block.logsBloom : null,
    transactionsRoot: typeof block.transactionsRoot === 'string' ? block.transactionsRoot.toLowerCase() : null,
    transactions,
  }
}

/**
 * Reads a receipt, and the hash of the block that it claims to belong to.
 * @throws InvalidResponse
 */
export function readReceipt(answer: unknown): Receipt & { blockHash: Hex } {
  const receipt = readObject(answer, 'a receipt')
  const logs = listOf(receipt.logs, 'a receipt has no list of logs')
  return {
    blockHash: readHash(receipt.blockHash, 'block hash of a receipt'),
    transactionHash: readHash(receipt.transactionHash, 'transaction hash of a receipt'),
    from: readAddress(receipt.from, 'sender'),
    to: isAbsent(receipt.to) ? null : readAddress(receipt.to, 'recipient'),
    status: readStatus(receipt),
    gasUsed: readNumber(receipt.gasUsed, 'gas used'),
    effectiveGasPrice: isAbsent(receipt.effectiveGasPrice) ? 0n : readQuantity(receipt.effectiveGasPrice, 'gas price'),
    contractAddress: isAbsent(receipt.contractAddress) ? null : readAddress(receipt.contractAddress, 'contract'),
    ...extraFeeOf(receipt),
    logs: logs.map(readLog),
  }
}

/**
 * Reads a list; some nodes send null for an empty one. If a node omits a log this way, the filter in the block's header
 * shows it.
 * @throws InvalidResponse
 */
function listOf(value: unknown, problem: string): unknown[] {
  if (value === null) return []
  if (!Array.isArray(value)) throw new InvalidResponse(problem)
  return value
}

/**
 * Returns the fee for blobs (EIP-4844) and for an OP Stack network's posted data, wei. No root includes it, so it
 * cannot be verified.
 */
function extraFeeOf({ blobGasUsed, blobGasPrice, l1Fee }: Record<string, unknown>): { extraFeeWei?: bigint } {
  const said = (value: unknown, what: string): bigint => (isAbsent(value) ? 0n : readQuantity(value, what))
  const blobs = said(blobGasUsed, 'blob gas used') * said(blobGasPrice, 'blob gas price')
  const extraFeeWei = blobs + said(l1Fee, 'fee of the first layer')
  return extraFeeWei === 0n ? {} : { extraFeeWei }
}

/**
 * Reads a log of a receipt or of `eth_getLogs`.
 * @throws InvalidResponse
 */
export function readLog(answer: unknown): Log {
  const log = readObject(answer, 'a log')
  const topics = listOf(log.topics, 'a log has no list of topics')
  if (topics.length > 4) throw new InvalidResponse('a log has no list of topics')
  if (typeof log.data !== 'string' || log.data.length % 2 !== 0 || !/^0x[0-9a-f]*$/i.test(log.data))
    throw new InvalidResponse('a log has no data')
  const logIndex = readNumber(log.logIndex, 'log index')
  if (logIndex >= LOG_PLACES) throw new InvalidResponse('a log has a place that none can have')
  return {
    address: readAddress(log.address, 'address of a log'),
    topics: topics.map((topic) => readHash(topic, 'topic')),
    data: log.data as Hex,
    logIndex,
  }
}
