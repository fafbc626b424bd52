import type { App } from '../app.ts'
import { oldBlock } from '../chain/block-at.ts'
import { newestBlock } from '../chain/latest-block.ts'
import type { Chain } from '../chain/network.ts'
import { readAt, type BlockTag, type StateMethod } from '../chain/reads.ts'
import { readNumber, readObject, readQuantity } from '../chain/rpc/answers.ts'
import { CALL_GAS } from '../chain/rpc/call.ts'
import {
  isBroken,
  isHurried,
  isInsufficientFunds,
  isMissingMethod,
  isUnknownBlock,
  revertDataOf,
} from '../chain/rpc/errors.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { readFollowerCursor } from '../follower/cursor.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { failedInput, invalidParams, reverted } from './errors.ts'
import * as read from './params.ts'
import type { MethodName } from './wire.ts'

type ReadContext = { app: App; chain: Chain }
/**
 * A method. `params`: fewest and most parameters. `isLong`: the result may be long, so long results of one request are
 * read one after another.
 */
type Method = {
  params: readonly [fewest: number, most: number]
  isLong?: (params: readonly unknown[]) => boolean
  answer: (ask: ReadContext, params: readonly unknown[]) => unknown
}

/** characters of the results of one request, and bytes of one long result */
export const MAX_RESULT = 4_194_304
/** blocks of a log filter with an address or a topic */
const MAX_LOG_BLOCKS = 2_000
/** blocks of a log filter without an address and a topic, because nodes then read every log */
const MAX_ALL_LOGS_BLOCKS = 10

/** All methods: reads of public data. */
const table: Record<MethodName, Method> = {
  eth_chainId: { params: [0, 0], answer: ({ chain }) => quantityOf(chain.chainId) },
  net_version: { params: [0, 0], answer: ({ chain }) => String(chain.chainId) },
  eth_blockNumber: { params: [0, 0], answer: async ({ chain }) => quantityOf((await newestBlock(chain)).number) },
  eth_call: { params: [1, 2], answer: call },
  eth_estimateGas: { params: [1, 2], answer: estimate },
  eth_getBalance: {
    params: [1, 2],
    answer: async ({ chain }, [address, block]) => {
      const who = read.addressOf(address, 'address')
      return quantityOf(await readAt(chain, read.blockOf(block), (reads) => reads.balance(who)))
    },
  },
  eth_getCode: {
    params: [1, 2],
    answer: (ask, [address, block]) => state(ask, 'eth_getCode', [read.addressOf(address, 'address')], block),
  },
  eth_getTransactionCount: { params: [1, 2], answer: (ask, [address, block]) => state(ask, 'eth_getTransactionCount', [read.addressOf(address, 'address')], block) }, // prettier-ignore
  eth_getStorageAt: { params: [2, 3], answer: (ask, [address, slot, block]) => state(ask, 'eth_getStorageAt', [read.addressOf(address, 'address'), read.slotOf(slot)], block) }, // prettier-ignore
  eth_getBlockByNumber: { params: [1, 2], isLong: ([, isFull]) => isFull === true, answer: blockByNumber },
  eth_getBlockByHash: {
    params: [1, 2],
    isLong: ([, isFull]) => isFull === true,
    answer: ({ chain }, [hash, isFull]) => fetchBlock(chain, 'eth_getBlockByHash', read.hashOf(hash, 'hash'), isFull),
  },
  eth_getTransactionByHash: { params: [1, 1], answer: transaction },
  eth_getTransactionReceipt: { params: [1, 1], answer: receipt },
  eth_getLogs: { params: [1, 1], isLong: () => true, answer: logs },
  eth_gasPrice: { params: [0, 0], answer: ({ chain }) => price(chain, 'eth_gasPrice') },
  eth_maxPriorityFeePerGas: { params: [0, 0], answer: ({ chain }) => price(chain, 'eth_maxPriorityFeePerGas') },
  eth_feeHistory: { params: [2, 3], answer: feeHistory },
}

/** Returns a method; null if it is not offered. */
export const methodOf = (name: string): Method | null => (Object.hasOwn(table, name) ? table[name as MethodName] : null)

async function call({ chain }: ReadContext, [object, block]: readonly unknown[]): Promise<Hex> {
  const request = read.callOf(object, { chainId: chain.chainId, maxGas: CALL_GAS })
  const tag = read.blockOf(block)
  try {
    const result = await readAt(chain, tag, (reads) => reads.call(request))
    if ('reverted' in result) throw reverted(result.reverted)
    return result.data
  } catch (error) {
    throw isInsufficientFunds(error) ? noFunds() : error
  }
}

/** Estimates at the node's newest block: estimates cannot be pinned to a block on every node. */
async function estimate({ chain }: ReadContext, [object, block]: readonly unknown[]): Promise<Hex> {
  const { to, data, from, value, gas = CALL_GAS } = read.callOf(object, { chainId: chain.chainId, maxGas: CALL_GAS })
  if (read.blockOf(block) !== 'latest') throw invalidParams('block: an estimate is made at the newest block.')
  const fields = {
    ...(to === undefined ? {} : { to }),
    ...(from === undefined ? {} : { from }),
    data,
    ...(value === undefined ? {} : { value: quantityOf(value) }),
    gas: quantityOf(gas),
  }
  try {
    // Alone: a node runs a call many times to estimate it, and other reads would wait for that.
    const asked = await chain.rpc.call('eth_estimateGas', [fields, 'latest'], { alone: true })
    return quantityOf(readQuantity(asked, 'estimate'))
  } catch (error) {
    if (isInsufficientFunds(error)) throw noFunds()
    throw revertDataOf(error) === undefined ? error : reverted(error as RpcError)
  }
}

const noFunds = () => failedInput('insufficient funds for gas * price + value')

async function state({ chain }: ReadContext, method: StateMethod, params: Hex[], block: unknown): Promise<Hex> {
  return readAt(chain, read.blockOf(block), (reads) => reads.state(method, params))
}

async function blockByNumber({ chain }: ReadContext, [block, isFull]: readonly unknown[]): Promise<unknown> {
  const tag = read.blockOf(block)
  const full = read.flagOf(isFull, 'full')
  const newest = await newestBlock(chain)
  if (typeof tag === 'number' && tag > newest.number) return null
  if (typeof tag === 'number') return known(await fetchBlock(chain, 'eth_getBlockByNumber', quantityOf(tag), full))
  if (tag === 'latest')
    // By its hash, so that a node that lags is asked again, and another block of the same height is not returned.
    return readAt(chain, tag, async ({ block: { hash } }) => {
      const found = await fetchBlock(chain, 'eth_getBlockByHash', hash, full)
      if (found === null) throw new RpcError(-32001, 'unknown block', undefined)
      return found
    })
  const final = known(await oldBlock(chain, tag))
  return known(await fetchBlock(chain, 'eth_getBlockByHash', final.hash, full))
}

/** @throws InvalidResponse  if the node lags: it lacks a block at or below our newest */
function known<T>(block: T | null): T {
  if (block === null) throw new InvalidResponse('the node lacks a block below the newest')
  return block
}

async function fetchBlock(
  chain: Chain,
  method: 'eth_getBlockByHash' | 'eth_getBlockByNumber',
  which: Hex,
  isFull: unknown,
): Promise<Record<string, unknown> | null> {
  const full = read.flagOf(isFull, 'full')
  const asked = await chain.rpc.call(method, [which, full], full ? { maxBytes: MAX_RESULT } : {})
  return asked === null ? null : readObject(asked, 'a block')
}

async function transaction(ask: ReadContext, [hash]: readonly unknown[]): Promise<unknown> {
  const found = await ask.chain.rpc.call('eth_getTransactionByHash', [read.hashOf(hash, 'hash')])
  if (found === null) return null
  const fields = readObject(found, 'a transaction')
  if (fields.blockNumber === null || fields.blockNumber === undefined) return fields
  if (await hasReached(ask, readNumber(fields.blockNumber, 'block of a transaction'))) return fields
  return { ...fields, blockHash: null, blockNumber: null, transactionIndex: null }
}

async function receipt(ask: ReadContext, [hash]: readonly unknown[]): Promise<unknown> {
  const found = await ask.chain.rpc.call('eth_getTransactionReceipt', [read.hashOf(hash, 'hash')])
  if (found === null) return null
  const fields = readObject(found, 'a receipt')
  return (await hasReached(ask, readNumber(fields.blockNumber, 'block of a receipt'))) ? fields : null
}

const WAIT_MS = 50
const WAITS = 20

/**
 * Returns whether later reads, by any server of this installation, see a block of this number. A node may be ahead of
 * our head, and another server's head lasts until the follower has moved on.
 */
async function hasReached({ app, chain }: ReadContext, number: number): Promise<boolean> {
  const isBelow = () => (chain.head.current()?.number ?? -1) < number
  if (isBelow()) await newestBlock(chain, { maxAgeMs: 0 })
  if (isBelow()) return false
  for (let tries = 0; !chain.head.isFollowed(); tries++) {
    const cursor = await readFollowerCursor(app.db, chain.chainId)
    if (cursor === null || !cursor.isLeased || cursor.followed >= number) return true
    if (tries === WAITS) return false
    await chain.clock.sleep(WAIT_MS)
  }
  return true
}

async function logs({ chain }: ReadContext, [object]: readonly unknown[]): Promise<unknown[]> {
  const { blocks, address, topics } = read.filterOf(object)
  const isNarrow = address !== null || topics.some((topic) => topic !== null)
  const most = isNarrow ? MAX_LOG_BLOCKS : MAX_ALL_LOGS_BLOCKS
  const range = 'hash' in blocks ? { blockHash: blocks.hash } : await rangeOf(chain, blocks, most)
  if (range === null) return []
  const filter = { ...range, ...(address === null ? {} : { address }), ...(topics.length === 0 ? {} : { topics }) }
  try {
    const found = await chain.rpc.call('eth_getLogs', [filter], { maxBytes: MAX_RESULT })
    if (!Array.isArray(found)) throw new InvalidResponse('logs are not a list')
    return found
  } catch (error) {
    const isRefused = error instanceof RpcError && ![isHurried, isBroken, isUnknownBlock, isMissingMethod].some((is) => is(error)) // prettier-ignore
    throw isRefused ? invalidParams('filter: no node returns so many logs. Ask for fewer blocks.') : error
  }
}

/** @returns null if the range begins above the newest block */
async function rangeOf(
  chain: Chain,
  { from, to }: { from: BlockTag; to: BlockTag },
  most: number,
): Promise<{ fromBlock: Hex; toBlock: Hex } | null> {
  const newest = (await newestBlock(chain)).number
  const numberOf = async (tag: BlockTag): Promise<number> => {
    if (typeof tag === 'number') return tag
    return tag === 'latest' ? newest : known(await oldBlock(chain, tag)).number
  }
  const [first, last] = [await numberOf(from), await numberOf(to)]
  if (first > last) throw invalidParams('filter: fromBlock is above toBlock.')
  if (first > newest) return null
  const end = Math.min(last, newest)
  if (end - first >= most) throw invalidParams(`filter: at most ${most} blocks${most === MAX_LOG_BLOCKS ? '' : ', or an address or a topic'}.`) // prettier-ignore
  return { fromBlock: quantityOf(first), toBlock: quantityOf(end) }
}

const price = async ({ rpc }: Chain, method: string): Promise<Hex> =>
  quantityOf(readQuantity(await rpc.call(method, []), method))

async function feeHistory({ chain }: ReadContext, [count, block, percentiles]: readonly unknown[]): Promise<unknown> {
  const [blocks, tag, wanted] = [read.historyCountOf(count), read.blockOf(block), read.percentilesOf(percentiles)]
  const newest = (await newestBlock(chain)).number
  if (typeof tag === 'number' && tag > newest) throw invalidParams('newestBlock: the network does not have this block yet.') // prettier-ignore
  const last = typeof tag === 'number' ? tag : tag === 'latest' ? newest : known(await oldBlock(chain, tag)).number
  return readObject(
    await chain.rpc.call('eth_feeHistory', [quantityOf(blocks), quantityOf(last), wanted]),
    'a fee history',
  )
}
