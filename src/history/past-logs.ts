import { isDeepStrictEqual } from 'node:util'
import { OPERATED_TOPICS, TRANSFER_TOPICS, WRAPPING_TOPICS } from '../abi/transfers.ts'
import { isHurried } from '../chain/rpc/errors.ts'
import { RpcError, RpcUnavailable, type Rpc } from '../chain/rpc/rpc.ts'
import { readAddress, readHash, readHeader, readNumber, readObject } from '../chain/rpc/answers.ts'
import { InvalidResponse, RpcTooLarge } from '../chain/rpc/failures.ts'
import { readLog } from '../follower/answers.ts'
import { fetchBlock, fetchHeaders } from '../follower/fetch.ts'
import type { ReceiptSource } from '../follower/receipt-source.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { addTransfers, findTransfers, type FoundTransfer } from './rows.ts'

/** calls per batch */
const BATCH = 50

/** Multiple at which a number of logs is suspicious: nodes that silently truncate a list cut it at a round number. */
const SUSPICIOUS = 500

/** Thrown if the node has more logs than it returns at once: request a smaller range. */
export class TooMuch extends Error {
  constructor(options?: ErrorOptions) {
    super('the node answers only a part of this range', options)
    this.name = 'TooMuch'
  }
}

/**
 * Fetches the transfers from and to some addresses in a range of final blocks. Old-style logs without indexed addresses
 * cannot be requested by address: such a filter would return every transfer of the chain. Only whole blocks show them,
 * as the follower and the audit fetch them.
 * @param addresses  lower-case, at most 1,000, the limit of nodes for the values of a topic
 * @throws TooMuch | RpcError | RpcUnavailable | InvalidResponse
 */
export async function fetchPast(
  rpc: Rpc,
  { from, to, addresses }: { from: number; to: number; addresses: readonly Hex[] },
): Promise<FoundTransfer[]> {
  const range = { fromBlock: quantityOf(from), toBlock: quantityOf(to) }
  const some = addresses.map((address) => `0x${'0'.repeat(24)}${address.slice(2)}`)
  const filters = [
    [[...TRANSFER_TOPICS, ...WRAPPING_TOPICS], some],
    [[...TRANSFER_TOPICS, ...OPERATED_TOPICS], null, some],
    [OPERATED_TOPICS, null, null, some],
  ]
  const [last, ...lists] = await rpc.batch([
    { method: 'eth_getBlockByNumber', params: [quantityOf(to), false] },
    ...filters.map((topics) => ({ method: 'eth_getLogs', params: [{ ...range, topics }] })),
  ])
  for (const answer of [last, ...lists]) if (answer instanceof RpcError) throw isHurried(answer) ? answer : new TooMuch({ cause: answer }) // prettier-ignore
  // A node that lags returns an empty list for blocks that it lacks.
  if (last === null || readHeader(last).number !== to) throw new InvalidResponse('the node lacks a block that is final')
  return readLogs(rpc, lists, { from, to })
}

type PastLog = ReturnType<typeof readPastLog>

async function readLogs(
  rpc: Rpc,
  lists: unknown[],
  { from, to }: { from: number; to: number },
): Promise<FoundTransfer[]> {
  const logs = new Map<string, PastLog>()
  for (const list of lists) {
    if (!Array.isArray(list)) throw new InvalidResponse('the node did not answer a list of logs')
    if (list.length > 0 && list.length % SUSPICIOUS === 0) throw new TooMuch()
    for (const answer of list) {
      const log = readPastLog(answer)
      if (log.blockNumber < from || log.blockNumber > to) throw new InvalidResponse('a log lies outside the range')
      // A transfer between two of the addresses is in two lists, and must count once. Two different logs at one
      // position would hide each other.
      const place = `${log.blockNumber} ${log.log.logIndex}`
      const known = logs.get(place)
      if (known !== undefined && !isDeepStrictEqual(known, log))
        throw new InvalidResponse('two logs have the same position')
      logs.set(place, log)
    }
  }
  const blocks = await fetchBlocks(rpc, [...logs.values()])
  const found: FoundTransfer[] = []
  for (const { log, hash, blockNumber } of logs.values()) {
    addTransfers(found, log, { hash, sentBy: null, block: blocks.get(blockNumber)! })
  }
  const senders = await fetchSenders(rpc, [
    ...new Set(found.filter(({ value }) => value === 0n).map(({ hash }) => hash)),
  ])
  for (const transfer of found) transfer.sentBy = senders.get(transfer.hash) ?? null
  return found
}

function readPastLog(answer: unknown) {
  const { blockNumber, blockHash, transactionHash, removed } = readObject(answer, 'a log')
  if (removed === true) throw new InvalidResponse('a log of a final block was removed')
  return {
    log: readLog(answer),
    blockNumber: readNumber(blockNumber, 'block number of a log'),
    blockHash: readHash(blockHash, 'block hash of a log'),
    hash: readHash(transactionHash, 'transaction hash of a log'),
  }
}

/** Fetches the blocks of logs, by number. @throws InvalidResponse if a log and the chain disagree on a block hash */
async function fetchBlocks(rpc: Rpc, logs: PastLog[]): Promise<Map<number, FoundTransfer['block']>> {
  const hashes = new Map(logs.map(({ blockNumber, blockHash }) => [blockNumber, blockHash]))
  const headers = await fetchHeaders(rpc, [...hashes.keys()])
  const blocks = new Map<number, FoundTransfer['block']>()
  for (const header of headers) {
    if (header === null) throw new InvalidResponse('the node lacks a block that it has logs of')
    blocks.set(header.number, header)
  }
  for (const { blockNumber, blockHash } of logs) {
    if (blocks.get(blockNumber)!.hash !== blockHash) throw new InvalidResponse('a log belongs to another chain')
  }
  return blocks
}

/**
 * Fetches the senders of transactions whose transfers moved nothing. Only for these the sender decides whether they are
 * spam.
 */
async function fetchSenders(rpc: Rpc, hashes: Hex[]): Promise<Map<Hex, Hex>> {
  const senders = new Map<Hex, Hex>()
  for (let start = 0; start < hashes.length; start += BATCH) {
    const some = hashes.slice(start, start + BATCH)
    const answers = await rpc.batch(some.map((hash) => ({ method: 'eth_getTransactionByHash', params: [hash] })))
    for (const [index, answer] of answers.entries()) {
      if (answer instanceof RpcError) throw answer
      const { hash, from } = readObject(answer, 'a transaction')
      if (readHash(hash, 'hash of a transaction') !== some[index])
        throw new InvalidResponse('the node answered another transaction than the one asked for')
      senders.set(some[index]!, readAddress(from, 'sender of a transaction'))
    }
  }
  return senders
}

/** Fetches all transfers of one block from its receipts, if the node does not return the block's logs by filter. */
export async function fetchWhole(rpc: Rpc, number: number, source: ReceiptSource): Promise<FoundTransfer[]> {
  const [header] = await fetchHeaders(rpc, [number])
  if (header === null || header === undefined) throw new InvalidResponse('the node lacks a block that is final')
  return findTransfers(await fetchBlock(rpc, header.hash, source))
}

/**
 * Returns whether a smaller range may succeed: the error reports any kind of limit, a long response, or a slow query.
 */
export const isTooMuch = (error: unknown): boolean =>
  error instanceof TooMuch || error instanceof RpcTooLarge || (error instanceof RpcUnavailable && error.timedOut)
