import { isDeepStrictEqual } from 'node:util'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Verification } from '../chain/network.ts'
import { readBlock, readReceipt, type RawBlock } from './answers.ts'
import type { Log, Receipt } from './block.ts'
import { bloomOf } from './bloom.ts'

/**
 * Puts block and receipts together. Nodes do answer empty or partial lists for blocks that are not empty
 * (go-ethereum #24078, lotus #13749): then this refuses, and the block is asked for again.
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
 * Receipts whose logs count through the block. The index is half of a transfer's identity: a repeated one would hide a transfer behind
 * another. Where a node counts within each transaction, as Cosmos chains do, it is counted here: the receipts are whole, and in order.
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

/** A log that is missing, invented or about someone else changes the filter, but for one in many thousands. */
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

/** That a block asked for whole is the one whose receipts are here, each for its transaction. @throws InvalidResponse */
export function checkSame(read: Block & { receipts: Receipt[] }, answer: unknown): void {
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const block = readBlock(answer)
  const { receipts } = read
  // The header that was read, too: prices are worked out with its base fee.
  const isSame =
    isDeepStrictEqual(headerOf(block), headerOf(read)) &&
    block.transactions.length === receipts.length &&
    receipts.every(({ transactionHash }, index) => transactionHash === block.transactions[index])
  if (!isSame) throw new InvalidResponse('the node contradicts itself about a block')
}
