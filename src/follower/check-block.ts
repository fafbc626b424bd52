import { isDeepStrictEqual } from 'node:util'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Verification } from '../chain/network.ts'
import { readBlock, readReceipt, type RawBlock } from './answers.ts'
import type { Log, Receipt } from './block.ts'
import { bloomOf } from './bloom.ts'

/**
 * Combines a block with its receipts. Throws if the receipts do not fit the block, so that it is fetched again: some
 * nodes return empty or partial lists for blocks that are not empty (go-ethereum #24078, lotus #13749).
 * @throws InvalidResponse
 */
export function checkBlock(
  block: RawBlock,
  receiptsAnswer: unknown,
  verification: Verification,
): Block & { receipts: Receipt[] } {
  if (!Array.isArray(receiptsAnswer)) throw new InvalidResponse('the node does not know the receipts of the block')
  const answers = receiptsAnswer.map(readReceipt)
  if (answers.length !== block.transactions.length) throw new InvalidResponse('receipts are missing')
  const all = answers.map(({ blockHash, ...receipt }, index): Receipt => {
    if (blockHash !== block.hash) throw new InvalidResponse('a receipt belongs to another block')
    if (receipt.transactionHash !== block.transactions[index]) throw new InvalidResponse('a receipt is out of order')
    return receipt
  })
  const receipts = placed(all, verification)
  if (verification !== 'count')
    checkBloom(
      block,
      receipts.flatMap(({ logs }) => logs),
    )
  return { ...headerOf(block), receipts }
}

/**
 * Returns receipts whose log indexes count through the block. The index is a part of a transfer's identity: a repeated
 * one would hide a transfer.
 * Some nodes, for example of Cosmos chains, count within each transaction. Then the indexes are computed here, because
 * the receipts are complete and in order.
 * @throws InvalidResponse
 */
function placed(receipts: Receipt[], verification: Verification): Receipt[] {
  const indexes = receipts.flatMap(({ logs }) => logs.map(({ logIndex }) => logIndex))
  const follows = (one: number, before: number) => (verification === 'count' ? one > before : one === before + 1)
  if (indexes.every((one, place) => follows(one, indexes[place - 1] ?? -1))) return receipts
  if (!receipts.every(({ logs }) => logs.every(({ logIndex }, place) => logIndex === place)))
    throw new InvalidResponse('log indexes do not count through the block')
  let next = 0
  return receipts.map((receipt) => ({ ...receipt, logs: receipt.logs.map((log) => ({ ...log, logIndex: next++ })) }))
}

/**
 * Checks the logs against the filter in the block's header. A log that is missing, invented or altered almost always
 * changes the filter.
 * @throws InvalidResponse
 */
export function checkBloom({ logsBloom }: RawBlock, logs: Log[]): void {
  const bloom = `0x${bloomOf(logs).toString('hex')}`
  if (logsBloom?.toLowerCase() !== bloom)
    throw new InvalidResponse('the logs of the block are not those its filter names')
}

export const headerOf = ({ number, hash, parentHash, timestamp, baseFee }: Block): Block => ({
  number,
  hash,
  parentHash,
  timestamp,
  baseFee,
})

/**
 * Checks that a whole block is the block read before, with one receipt per transaction.
 * @throws InvalidResponse
 */
export function checkSame(read: Block & { receipts: Receipt[] }, answer: unknown): void {
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const block = readBlock(answer)
  const { receipts } = read
  // Compare the header as well, because prices are computed with its base fee.
  const isSame =
    isDeepStrictEqual(headerOf(block), headerOf(read)) &&
    block.transactions.length === receipts.length &&
    receipts.every(({ transactionHash }, index) => transactionHash === block.transactions[index])
  if (!isSame) throw new InvalidResponse('the node contradicts itself about a block')
}
