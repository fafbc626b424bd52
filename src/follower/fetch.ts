import { isDeepStrictEqual } from 'node:util'
import { readHeader } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Chain, Verification } from '../chain/network.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { readBlock, readReceipt, type RawBlock } from './answers.ts'
import type { FollowedBlock, Ours, Receipt } from './block.ts'
import { bloomOf } from './bloom.ts'
import { proveAll, proveOwn, proveSome, type Answers, type Provability } from './prove.ts'
import { slot } from '../state.ts'

/** calls of one JSON-RPC batch; providers refuse more than 50 to 100 */
const BATCH = 50

/** The header at a number or tag; null when the node has none there. @throws RpcError | RpcUnavailable | InvalidResponse */
export async function fetchHeader(rpc: Rpc, at: number | 'latest' | 'finalized'): Promise<Block | null> {
  const answer = await rpc.call('eth_getBlockByNumber', [typeof at === 'number' ? quantityOf(at) : at, false])
  return answer === null ? null : readHeader(answer)
}

/**
 * Headers of the node's canonical chain at these numbers, in their order; null where it has none.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function fetchHeaders(rpc: Rpc, numbers: number[]): Promise<(Block | null)[]> {
  const answers = await inBatches(
    rpc,
    numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [quantityOf(number), false] })),
  )
  return answers.map((answer, index) => {
    if (answer === null) return null
    const block = readHeader(answer)
    if (block.number !== numbers[index])
      throw new InvalidResponse('the node answered another block than the one asked for')
    return block
  })
}

/**
 * A whole block by its hash: block and receipts from the same node in one batch, checked against each other.
 * @param source  remembers, for the life of the process, that a node lacks eth_getBlockReceipts
 * @param given   the block as a node has answered it already, with hashes only: then its receipts alone are asked for, and
 *                nothing where it has none
 * @throws RpcError | RpcUnavailable | InvalidResponse  also when the node does not know the block (yet, or any more)
 */
export async function fetchBlock(
  rpc: Rpc,
  hash: Hex,
  source: ReceiptSource,
  given: unknown = null,
): Promise<FollowedBlock> {
  const { verification } = source
  if (verification === 'hash') {
    const { read, answers } = await askBlock(rpc, hash, { source, isWhole: true })
    const { receipts, proof } = proveAll(answers, read)
    return { ...read, receipts, prove: () => Promise.resolve(proof) }
  }
  // Hashes only: whole transactions double the bytes, cost anvil more than all the receipts, and matter in the few
  // blocks that hold some of ours.
  const { read, answers } = await askBlock(rpc, hash, { source, isWhole: false, given })
  const prove = async (ours: Ours) => {
    source.provability ??= { wasProven: false, doubts: 0 }
    const how = { ours, verification, provability: source.provability }
    const own = proveOwn(answers, read, how)
    if (own !== null) return own
    // The receipts are not asked for again: those that are to be stored are those to prove.
    const block = await rpc.call('eth_getBlockByHash', [hash, true])
    checkSame(read, block)
    return proveSome({ block, receipts: answers.receipts }, read, how)
  }
  return { ...read, prove }
}

/** That a block asked for whole is the one whose receipts are here, each for its transaction. @throws InvalidResponse */
function checkSame(read: Block & { receipts: Receipt[] }, answer: unknown): void {
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

/** Block and receipts, read and as they came. */
async function askBlock(
  rpc: Rpc,
  hash: Hex,
  { source, isWhole, given = null }: { source: ReceiptSource; isWhole: boolean; given?: unknown },
): Promise<{ read: Block & { receipts: Receipt[] }; answers: Answers }> {
  const [answer, early] = given === null ? await askBoth(rpc, hash, { source, isWhole }) : [given]
  if (answer instanceof RpcError) throw answer
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const block = readBlock(answer)
  if (block.hash !== hash) throw new InvalidResponse('the node answered another block than the one asked for')
  const receiptsAnswer = given === null ? early : await askReceipts(rpc, block, source)
  if (lacksMethod(receiptsAnswer)) source.hasBlockReceipts = false
  const receipts = await receiptsOf(rpc, block, { source, answer: receiptsAnswer })
  if (receipts instanceof RpcError) throw receipts
  const read = checkBlock(block, receipts, source.verification)
  return { read, answers: { block: answer, receipts: receipts as unknown[] } }
}

function askBoth(
  rpc: Rpc,
  hash: Hex,
  { source, isWhole }: { source: ReceiptSource; isWhole: boolean },
): Promise<unknown[]> {
  const calls = [{ method: 'eth_getBlockByHash', params: [hash, isWhole] }]
  if (source.hasBlockReceipts) calls.push({ method: 'eth_getBlockReceipts', params: [hash] })
  return rpc.batch(calls)
}

/** The receipts of a block that is known, or what the node said instead; [] unasked where the header says that it has none. */
async function askReceipts(rpc: Rpc, block: RawBlock, source: ReceiptSource): Promise<unknown> {
  if (isEmpty(block)) return []
  if (!source.hasBlockReceipts) return undefined
  const [answer] = await rpc.batch([{ method: 'eth_getBlockReceipts', params: [block.hash] }])
  return answer
}

/** Nulls in a row after which receipts are asked for one by one: a node that is a moment late says null, too. */
const MAX_NULLS = 3

/** The receipts of a block, in whichever way the node gives them. An empty block has none, so nothing hangs on the answer. */
async function receiptsOf(
  rpc: Rpc,
  block: RawBlock,
  { source, answer }: { source: ReceiptSource; answer: unknown },
): Promise<unknown> {
  // Of a block that has none nobody learns whether the node gives any.
  if (isEmpty(block) && Array.isArray(answer)) return answer
  if (source.hasBlockReceipts) {
    source.nulls = answer === null ? (source.nulls ?? 0) + 1 : 0
    if (isEmpty(block) && !Array.isArray(answer)) return []
    if (source.nulls < MAX_NULLS) return answer
  }
  return fetchReceiptsOneByOne(rpc, block)
}

/** Whether receipts are asked for one by one. */
export const asksOneByOne = ({ hasBlockReceipts, nulls = 0 }: ReceiptSource): boolean =>
  !hasBlockReceipts || nulls >= MAX_NULLS

/** That the list is not merely left out is told by the header, where it says so as Ethereum's do. */
const isEmpty = ({ transactions, transactionsRoot }: RawBlock): boolean =>
  transactions.length === 0 && transactionsRoot === EMPTY_ROOT

/** keccak256(rlp('')), the root of a trie without entries */
const EMPTY_ROOT = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'

/** How blocks are asked for and how far answers are believed. */
export type ReceiptSource = {
  /** answers in a row that were null */ nulls?: number
  hasBlockReceipts: boolean
  verification: Verification
  provability?: Provability
}

const learned = slot('whether blocks can be proven', (_chain: Chain): Provability => ({ wasProven: false, doubts: 0 }))

/** How to ask the nodes of a network; what is learned of whether its blocks can be proven is learned for the whole process. */
export function sourceOf(chain: Chain): ReceiptSource {
  return { hasBlockReceipts: true, verification: chain.verification, provability: learned.of(chain) }
}

/** Also nodes that know the method by number only: they call a hash a wrong parameter. */
function lacksMethod(answer: unknown): boolean {
  if (!(answer instanceof RpcError)) return false
  const text = answer.message.replace(/eth_\w+/g, '')
  if (/header|block|resource/i.test(text)) return false
  return [-32601, -32602].includes(answer.rpcCode) || /not (found|supported|available|exist)/i.test(text)
}

/** One receipt per transaction: they hold every log of the block, so nothing else need be asked. */
async function fetchReceiptsOneByOne(rpc: Rpc, block: RawBlock): Promise<unknown[]> {
  return inBatches(
    rpc,
    block.transactions.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  )
}

/**
 * Puts block and receipts together. Nodes do answer empty or partial lists for blocks that are not empty
 * (go-ethereum #24078, lotus #13749): then this refuses, and the block is asked for again.
 * @throws InvalidResponse
 */
function checkBlock(
  block: RawBlock,
  receiptsAnswer: unknown,
  verification: Verification,
): Block & { receipts: Receipt[] } {
  if (!Array.isArray(receiptsAnswer)) throw new InvalidResponse('the node does not know the receipts of the block')
  const answers = receiptsAnswer.map(readReceipt)
  if (answers.length !== block.transactions.length) throw new InvalidResponse('receipts are missing')
  let lastLog = -1
  const receipts = answers.map(({ blockHash, ...receipt }, index): Receipt => {
    if (blockHash !== block.hash) throw new InvalidResponse('a receipt belongs to another block')
    if (receipt.transactionHash !== block.transactions[index]) throw new InvalidResponse('a receipt is out of order')
    for (const { logIndex } of receipt.logs) {
      // The index is half of a transfer's identity: a repeated one would hide a transfer behind another.
      const isNext = verification === 'count' ? logIndex > lastLog : logIndex === lastLog + 1
      if (!isNext) throw new InvalidResponse('log indexes do not count through the block')
      lastLog = logIndex
    }
    return receipt
  })
  if (verification !== 'count') checkBloom(block, receipts)
  return { ...headerOf(block), receipts }
}

/** A log that is missing, invented or about someone else changes the filter, but for one in many thousands. */
function checkBloom({ logsBloom }: RawBlock, receipts: Receipt[]): void {
  const bloom = `0x${bloomOf(receipts.flatMap(({ logs }) => logs)).toString('hex')}`
  if (logsBloom?.toLowerCase() !== bloom)
    throw new InvalidResponse('the logs of the block are not those its filter names')
}

const headerOf = ({ number, hash, parentHash, timestamp, baseFee }: Block): Block => ({
  number,
  hash,
  parentHash,
  timestamp,
  baseFee,
})

/** Many calls as several batches, one after another. @throws the first error among them */
async function inBatches(rpc: Rpc, calls: { method: string; params: unknown[] }[]): Promise<unknown[]> {
  const answers: unknown[] = []
  for (let start = 0; start < calls.length; start += BATCH) {
    answers.push(...(await rpc.batch(calls.slice(start, start + BATCH))))
  }
  const failed = answers.find((answer) => answer instanceof RpcError)
  if (failed !== undefined) throw failed
  return answers
}
