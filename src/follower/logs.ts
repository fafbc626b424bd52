import { isDeepStrictEqual } from 'node:util'
import { readAddress, readHash, readNumber, readObject } from '../chain/rpc/answers.ts'
import type { Block } from '../chain/rpc/block.ts'
import { isRateLimited, isUnknownBlock } from '../chain/rpc/errors.ts'
import { InvalidResponse, RpcTooLarge } from '../chain/rpc/failures.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { readBlock, readLog, readReceipt, type RawBlock } from './answers.ts'
import { fetchReceipts } from './batches.ts'
import type { BlockProof, FollowedBlock, Log, Logged, Ours, Receipt } from './block.ts'
import { checkBlock, checkBloom, headerOf } from './check-block.ts'
import { nativeOf } from './native.ts'
import { doubtOf, proveSome, readNonces, takeDoubt } from './prove.ts'
import { lacksMethod, type ReceiptSource } from './receipt-source.ts'
import { readTransactions } from './strict.ts'

/**
 * Fetches a block with its logs in one call, from a node that returns receipts only one by one. Receipts are fetched
 * when transactions are verified: all receipts of a block with Ethereum's header, to check them against the root;
 * otherwise only those of our transactions.
 * @param asked  the block, and the node's response, with whole transactions or with hashes
 * @returns null if the node does not return all logs of the block: then its receipts are needed
 * @throws RpcError | RpcUnavailable | InvalidResponse  to be tried again
 */
export async function fetchByLogs(
  rpc: Rpc,
  asked: { block: RawBlock; answer: unknown },
  source: ReceiptSource,
): Promise<FollowedBlock | null> {
  const { block } = asked
  const both = await askWholeAndLogs(rpc, asked)
  if (both === null) return null
  const { whole, logs: said } = both
  if (said instanceof RpcError) {
    if (isRateLimited(said) || isUnknownBlock(said)) throw said
    if (lacksMethod(said)) source.hasBlockLogs = false
    return null
  }
  const senders = sendersOf(block, whole)
  const logs = tryGroup(block, said)
  if (logs === null) return null
  const receipts = block.transactions.map((hash, index): Logged => {
    return { transactionHash: hash, from: senders[index]!, status: null, logs: logs.get(hash) ?? [] }
  })
  const read = { ...headerOf(block), receipts, ...nativeOf(whole) }
  return { ...read, prove: (ours) => prove(rpc, { block, whole, read, ours, source }) }
}

/**
 * Fetches the whole block and its logs. If the header's filter is empty, no logs are requested. Returns null if the
 * response is too large.
 */
async function askWholeAndLogs(
  rpc: Rpc,
  { block, answer }: { block: RawBlock; answer: unknown },
): Promise<{ whole: unknown; logs: unknown } | null> {
  const isWhole = typeof readTransactions(answer)[0] === 'object'
  const hasLogs = !/^0x0+$/.test(block.logsBloom ?? '')
  const calls = [
    ...(isWhole ? [] : [{ method: 'eth_getBlockByHash', params: [block.hash, true] }]),
    ...(hasLogs ? [{ method: 'eth_getLogs', params: [{ blockHash: block.hash }] }] : []),
  ]
  if (calls.length === 0) return { whole: answer, logs: [] }
  try {
    const answers = await rpc.batch(calls)
    return { whole: isWhole ? answer : answers[0], logs: hasLogs ? answers.at(-1) : [] }
  } catch (error) {
    if (error instanceof RpcTooLarge) return null
    throw error
  }
}

/**
 * Returns the senders of a block's transactions, in order.
 * @throws InvalidResponse  if it is not the block that was read before
 */
function sendersOf(block: RawBlock, whole: unknown): Hex[] {
  if (whole instanceof RpcError) throw whole
  if (whole === null) throw new InvalidResponse('the node does not know the block')
  if (!isDeepStrictEqual(readBlock(whole), block))
    throw new InvalidResponse('the node contradicts itself about a block')
  return readTransactions(whole).map((one) =>
    readAddress(readObject(one, 'a whole transaction').from, 'sender of a transaction'),
  )
}

/**
 * Groups a block's logs by transaction. Returns null if they do not match the block's filter or are not consecutive.
 * Nodes truncate long lists, and return an empty list for a block that they have not read yet.
 */
function tryGroup(block: RawBlock, said: unknown): Map<Hex, Log[]> | null {
  try {
    return group(block, said)
  } catch (error) {
    if (error instanceof InvalidResponse) return null
    throw error
  }
}

/**
 * Multiple at which a number of logs is suspicious: nodes that silently truncate a list cut it at a round number. The
 * filter cannot show a missing log whose address and topics occur in another log.
 */
const SUSPICIOUS = 500

function group(block: RawBlock, said: unknown): Map<Hex, Log[]> {
  if (!Array.isArray(said)) throw new InvalidResponse('the node did not answer a list of logs')
  if (said.length > 0 && said.length % SUSPICIOUS === 0) throw new InvalidResponse('the logs end at a round number')
  const placed = said.map((one) => readPlaced(block, one)).toSorted((a, b) => a.log.logIndex - b.log.logIndex)
  const logs = new Map<Hex, Log[]>()
  for (const [index, { log, hash, transactionIndex }] of placed.entries()) {
    if (log.logIndex !== index || transactionIndex < (placed[index - 1]?.transactionIndex ?? 0))
      throw new InvalidResponse('log indexes do not count through the block')
    const some = logs.get(hash)
    if (some === undefined) logs.set(hash, [log])
    else some.push(log)
  }
  checkBloom(
    block,
    placed.map(({ log }) => log),
  )
  return logs
}

function readPlaced(block: RawBlock, answer: unknown): { log: Log; hash: Hex; transactionIndex: number } {
  const { blockHash, transactionHash, transactionIndex: index, removed } = readObject(answer, 'a log')
  if (removed === true || readHash(blockHash, 'block hash of a log') !== block.hash)
    throw new InvalidResponse('a log belongs to another block')
  const hash = readHash(transactionHash, 'transaction hash of a log')
  const transactionIndex = readNumber(index, 'transaction index of a log')
  if (block.transactions[transactionIndex] !== hash) throw new InvalidResponse('a log belongs to another transaction')
  return { log: readLog(answer), hash, transactionIndex }
}

type Read = Block & { receipts: Logged[] }

async function prove(
  rpc: Rpc,
  {
    block,
    whole,
    read,
    ours,
    source,
  }: { block: RawBlock; whole: unknown; read: Read; ours: Ours; source: ReceiptSource },
): Promise<BlockProof> {
  const { verification } = source
  source.provability ??= { wasProven: false, doubts: 0 }
  const { provability } = source
  const doubt = doubtOf(whole, block.hash)
  if (doubt === null) {
    const answers = await fetchReceipts(rpc, block.transactions)
    const all = checkBlock(block, answers, verification)
    for (const [index, receipt] of all.receipts.entries()) checkLogged(read.receipts[index]!, receipt)
    return proveSome({ block: whole, receipts: answers }, all, { ours, verification, provability })
  }
  takeDoubt(provability, doubt)
  const hashes = new Set([...ours.signed.keys(), ...ours.claimed])
  const logged = read.receipts.filter(({ transactionHash }) => hashes.has(transactionHash))
  const answers = await fetchReceipts(
    rpc,
    logged.map(({ transactionHash }) => transactionHash),
  )
  const receipts = new Map<Hex, Receipt>()
  for (const [index, answer] of answers.entries()) {
    const { blockHash, ...receipt } = readReceipt(answer)
    if (blockHash !== block.hash) throw new InvalidResponse('a receipt belongs to another block')
    checkLogged(logged[index]!, receipt)
    receipts.set(receipt.transactionHash, receipt)
  }
  return { nonces: readNonces({ block: whole }, read, ours), receipts, doubt }
}

/** @throws InvalidResponse  if a receipt contradicts the logs and the sender that were read */
function checkLogged({ transactionHash, from, logs }: Logged, receipt: Receipt): void {
  const { transactionHash: hash, from: sender, logs: its, status } = receipt
  if (hash !== transactionHash || sender !== from) throw new InvalidResponse('a receipt is of another transaction')
  if (!isDeepStrictEqual(its, logs) || (!status && logs.length > 0))
    throw new InvalidResponse('a receipt has other logs than its block')
}
