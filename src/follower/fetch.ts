import { readHeader } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import { isRateLimited, isUnknownBlock } from '../chain/rpc/errors.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { readBlock, type RawBlock } from './answers.ts'
import { fetchReceipts, inBatches } from './batches.ts'
import type { FollowedBlock, Ours } from './block.ts'
import { checkBlock, checkSame } from './check-block.ts'
import { nativeOf } from './native.ts'
import { fetchByLogs } from './logs.ts'
import { proveAll, proveOwn, proveSome } from './prove.ts'
import { lacksMethod, MAX_NULLS, mayAskForLogs, readsFrom, type ReceiptSource } from './receipt-source.ts'

/**
 * Fetches the header at a number or tag; null if the node has none there.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function fetchHeader(rpc: Rpc, at: number | 'latest' | 'finalized'): Promise<Block | null> {
  const answer = await rpc.call('eth_getBlockByNumber', [typeof at === 'number' ? quantityOf(at) : at, false])
  return answer === null ? null : readHeader(answer)
}

/**
 * Fetches headers of the node's canonical chain by number, in the given order; null for a number that the node lacks.
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
 * Fetches a whole block by its hash: block and receipts from the same node in one batch, checked against each other.
 * @param source  remembers, while the process runs, that a node lacks eth_getBlockReceipts
 * @param given  a block that the node has sent already, with hashes only: then only its receipts are fetched, if it has
 *     any
 * @throws RpcError | RpcUnavailable | InvalidResponse  also if the node does not know the block (yet, or no longer)
 */
export async function fetchBlock(
  rpc: Rpc,
  hash: Hex,
  source: ReceiptSource,
  given: unknown = null,
): Promise<FollowedBlock> {
  const { verification } = source
  // Fetch only transaction hashes. Whole transactions double the bytes, cost anvil more than all receipts, and matter
  // only in the few blocks with our transactions. With logs, transactions must be whole, because logs have no sender.
  const isWhole = verification === 'hash' || readsFrom(source) === 'logs'
  const { block, answer, receipts } = await askBlock(rpc, hash, {
    source,
    isWhole,
    given: verification === 'hash' ? null : given,
  })
  if (receipts === null && block.transactions.length > MAX_SINGLY && mayAskForLogs(source)) {
    const byLogs = await fetchByLogs(rpc, { block, answer }, source)
    if (byLogs !== null) return byLogs
  }
  const answers = { block: answer, receipts: receipts ?? (await fetchReceipts(rpc, block.transactions)) }
  const read = { ...checkBlock(block, answers.receipts, verification), ...nativeOf(answer) }
  if (verification === 'hash') {
    const proven = proveAll(answers, read)
    return { ...read, receipts: proven.receipts, prove: () => Promise.resolve(proven.proof) }
  }
  const prove = async (ours: Ours) => {
    source.provability ??= { wasProven: false, doubts: 0 }
    const how = { ours, verification, provability: source.provability }
    const own = proveOwn(answers, read, how)
    if (own !== null) return own
    // Do not fetch the receipts again: the receipts verified here must be the ones that are stored.
    const whole = await rpc.call('eth_getBlockByHash', [hash, true])
    checkSame(read, whole)
    return proveSome({ block: whole, receipts: answers.receipts }, read, how)
  }
  return { ...read, prove }
}

/**
 * Up to this number of transactions, fetching single receipts costs no more calls than fetching logs and the whole
 * block.
 */
const MAX_SINGLY = 2

/** Returns the requested block, and its receipts; null for receipts if the node does not return them in one call. */
async function askBlock(
  rpc: Rpc,
  hash: Hex,
  { source, isWhole, given = null }: { source: ReceiptSource; isWhole: boolean; given?: unknown },
): Promise<{ block: RawBlock; answer: unknown; receipts: readonly unknown[] | null }> {
  const [answer, early] = given === null ? await askBoth(rpc, hash, { source, isWhole }) : [given]
  if (answer instanceof RpcError) throw answer
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const block = readBlock(answer)
  if (block.hash !== hash) throw new InvalidResponse('the node answered another block than the one asked for')
  const said = given === null ? early : await askReceipts(rpc, block, source)
  if (lacksMethod(said)) source.hasBlockReceipts = false
  const receipts = receiptsOf(block, { source, said })
  if (receipts instanceof RpcError) throw receipts
  if (receipts !== null && !Array.isArray(receipts))
    throw new InvalidResponse('the node does not know the receipts of the block')
  return { block, answer, receipts }
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

/**
 * Returns the receipts of a known block, or the node's error. If the header shows that there are none, returns []
 * without a request.
 */
async function askReceipts(rpc: Rpc, block: RawBlock, source: ReceiptSource): Promise<unknown> {
  if (isEmpty(block)) return []
  if (!source.hasBlockReceipts) return undefined
  const [answer] = await rpc.batch([{ method: 'eth_getBlockReceipts', params: [block.hash] }])
  return answer
}

/**
 * Returns the node's response for all receipts; null if the node does not return them in one call. An empty block needs
 * no response.
 */
function receiptsOf(block: RawBlock, { source, said }: { source: ReceiptSource; said: unknown }): unknown {
  // An empty block does not show whether the node returns all receipts in one call.
  if (isEmpty(block) && Array.isArray(said)) return said
  if (!source.hasBlockReceipts) return null
  source.nulls = said === null || isOfOneBlock(said) ? (source.nulls ?? 0) + 1 : 0
  if (isEmpty(block) && !Array.isArray(said)) return []
  if (source.nulls >= MAX_NULLS) return null
  return said ?? 'none'
}

/**
 * Returns whether the error may concern only this block: some nodes cannot return all receipts of a certain block, but
 * can return them one by one. If the node is busy or does not know the block, the same call is retried.
 */
const isOfOneBlock = (said: unknown): boolean =>
  said instanceof RpcError && !isRateLimited(said) && !isUnknownBlock(said)

/** Returns whether the header's root proves that the block has no transactions, as Ethereum's headers do. */
const isEmpty = ({ transactions, transactionsRoot }: RawBlock): boolean =>
  transactions.length === 0 && transactionsRoot === EMPTY_ROOT

/** keccak256(rlp('')), the root of a trie without entries */
const EMPTY_ROOT = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'
