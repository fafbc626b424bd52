import type { Hex } from '../../src/ids.ts'
import type { Asked } from '../kit/chain.ts'
import type { ChaosWorld } from './transactions-world.ts'

/** What the chain itself says of a mined transaction. All hex is lower-case, prices are wei per gas. */
export type MinedTx = {
  hash: Hex
  from: Hex
  to: Hex | null
  nonce: number
  data: Hex
  value: bigint
  block: Block
}

export type Block = { number: number; hash: Hex; timestamp: number; transactions: MinedTx[] }

export type Receipt = { succeeded: boolean; gasUsed: bigint; effectiveGasPrice: bigint; logs: Log[] }
export type Log = { address: Hex; topics: Hex[]; data: Hex; logIndex: number }

/** The canonical chain from its first block to its newest, asked of the node itself and not through its faults. */
export type Canonical = { head: Block; transactions: MinedTx[] }

type WireBlock = {
  number: Hex
  hash: Hex
  timestamp: Hex
  transactions: { hash: Hex; from: Hex; to: Hex | null; nonce: Hex; input: Hex; value: Hex }[]
}
type WireReceipt = {
  transactionHash: Hex
  status: Hex
  gasUsed: Hex
  effectiveGasPrice: Hex
  logs: { address: Hex; topics: Hex[]; data: Hex; logIndex: Hex }[]
}

/** Every transaction of the canonical chain, in order. */
export async function readChain(world: Pick<ChaosWorld, 'node'>): Promise<Canonical> {
  const last = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
  const numbers = Array.from({ length: last + 1 }, (_, number) => number)
  const blocks = await askAll<WireBlock>(
    world,
    numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [`0x${number.toString(16)}`, true] })),
  )
  const read = blocks.map(readBlock)
  return { head: read.at(-1)!, transactions: read.flatMap(({ transactions }) => transactions) }
}

/** The receipts of mined transactions, by hash. */
export async function readReceipts(
  world: Pick<ChaosWorld, 'node'>,
  transactions: MinedTx[],
): Promise<Map<Hex, Receipt>> {
  const receipts = await askAll<WireReceipt>(
    world,
    transactions.map(({ hash }) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  )
  return new Map(
    receipts.map(({ transactionHash, status, gasUsed, effectiveGasPrice, logs }) => [
      transactionHash,
      {
        succeeded: status === '0x1',
        gasUsed: BigInt(gasUsed),
        effectiveGasPrice: BigInt(effectiveGasPrice),
        logs: logs.map((log) => ({
          ...log,
          address: log.address.toLowerCase() as Hex,
          logIndex: Number(log.logIndex),
        })),
      },
    ]),
  )
}

function readBlock({ number, hash, timestamp, transactions }: WireBlock): Block {
  const block: Block = { number: Number(number), hash, timestamp: Number(timestamp), transactions: [] }
  for (const tx of transactions) {
    block.transactions.push({
      hash: tx.hash,
      from: tx.from.toLowerCase() as Hex,
      to: (tx.to?.toLowerCase() as Hex | undefined) ?? null,
      nonce: Number(tx.nonce),
      data: tx.input,
      value: BigInt(tx.value),
      block,
    })
  }
  return block
}

/** calls per batch */
const AT_ONCE = 64

/** The answers to many calls, in order. A node that has nothing to say for a moment is asked again. */
export async function askAll<T>(
  { node }: Pick<ChaosWorld, 'node'>,
  calls: Pick<Asked, 'method' | 'params'>[],
): Promise<T[]> {
  const all: T[] = []
  while (all.length < calls.length) {
    const some = calls.slice(all.length, all.length + AT_ONCE)
    const answers = await node.anvil.ask(some.map((call, id) => ({ jsonrpc: '2.0', id, ...call })))
    const failed = answers.find(({ error }) => error !== undefined)
    if (failed !== undefined) throw new Error(`${some[0]!.method}: ${failed.error!.message}`)
    const results = answers.map(({ result }) => result as T | null)
    if (!results.includes(null)) all.push(...(results as T[]))
  }
  return all
}
