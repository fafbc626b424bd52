import type { App } from '../app.ts'
import { readHeader } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { Finality } from './apply.ts'
import type { BlockListener, FollowedBlock } from './block.ts'
import type { Position } from './cursor.ts'
import { fetchHeader } from './fetch.ts'
import type { ReadFrom, ReceiptSource } from './receipt-source.ts'

/**
 * Blocks by which a process may lag before its head is the node's newest block instead of the block that it followed.
 */
export const FAR_BEHIND = 3

/** State of one process that follows a network. */
export type Follower = {
  app: App
  chain: Chain
  listeners: BlockListener[]
  stopping: AbortSignal
  owner: string
  /**
   * the cursor while this process holds its lease; null if another process does, or if the cursor must be read again
   */
  held: Position | null
  /** the epoch with which this process last held the lease */
  epoch: number | null
  /** start of the last successful renewal of the lease, in ticks of the clock */
  renewedAt: number
  hasStarted: boolean
  /** the node's newest block, as last seen by a process that does not follow */
  observed: { block: Block | null; at: number } | null
  /** the node's newest block as received, so that it need not be fetched again by its hash */
  newest: { hash: Hex; answer: unknown } | null
  /** when the node was last asked for its newest block, in ticks of the clock */
  lookedAt: number
  /** ends the current pause */
  wake: () => void
  /** whether the subscription has announced something since `lookedAt` */
  wasHinted: boolean
  /** consecutive blocks found by a query and not announced; after MAX_UNANNOUNCED, the subscription is not relied on */
  unannounced: number
  /** the node's last response about finality, and the number of its newest block at that time */
  final: { said: Finality; of: number } | null
  receipts: ReceiptSource
  /** the blocks after the block `after`, fetched while that one is being stored; used only if they still link to it */
  ahead: { after: Hex; window: Promise<Window> } | null
  hasWarnedOfFinality: boolean
  /** the history's indexer, which runs behind the cursor; null without a trailing listener */
  trail: Trail | null
  /** how the node is read, as last stored in the database */
  toldReadFrom: ReadFrom | null
  /** whether the current step works on the block after the cursor: a failure then blocks the network */
  isAtBlock: boolean
  /** what blocks the network, as last stored in the database */
  blockedBy: string | null
  /** labels of the metric that shows a stopped follower, while it is shown */
  shownStop: Record<string, string> | null
}

/** Indexes a network's history behind the follower, in the process that holds its lease. */
export type Trail = {
  /** Queues blocks that were just stored, and starts a step. */
  follow(blocks: readonly FollowedBlock[]): void
  /** Starts a step after a reorganisation. */
  wake(): void
  /**
   * Resolves when the history can take the next blocks into memory, when it fails, or after a second. Waiting avoids
   * fetching blocks twice.
   */
  untilRoom(): Promise<void>
  done: Promise<void>
}

/** Linked headers, the whole blocks before the first failure, finality, and that failure. */
export type Window = { headers: Block[]; blocks: FollowedBlock[]; finality: Finality | null; error: unknown }

/**
 * Fetches the node's newest block.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function askLatest(follower: Follower): Promise<Block> {
  const { rpc, head } = follower.chain
  let answer: unknown
  const asked = head.node.observe(async () => {
    answer = await rpc.call('eth_getBlockByNumber', ['latest', false])
    if (answer === null) throw new InvalidResponse('the node has no newest block')
    return readHeader(answer)
  })
  const latest = await untilStopped(follower, asked)
  follower.newest = { hash: latest.hash, answer }
  return latest
}

/**
 * Checks that the node also returns its newest block by number. A block far above ours cannot be linked to our blocks
 * yet, and finality may be counted from it.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function confirmHead(follower: Follower, latest: Block): Promise<void> {
  const again = await untilStopped(follower, fetchHeader(follower.chain.rpc, latest.number))
  if (again?.hash !== latest.hash) throw new InvalidResponse('the node does not have its own newest block')
}

/** Sets this process's head. Logs errors of listeners, which belong to other modules. */
export function showHead({ app, chain }: Follower, block: Block): void {
  app.telemetry.headBlock.set({ chain_id: String(chain.chainId) }, block.number)
  try {
    if (chain.head.current()?.hash === block.hash) chain.head.confirm()
    else chain.head.set(block)
  } catch (error) {
    app.telemetry.log.error('head_listener_failed', { chainId: chain.chainId }, error)
  }
}

/** Waits for a node's response. Rejects when the program stops, and then ignores the response. */
export async function untilStopped<T>({ stopping }: Follower, asked: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(new InvalidResponse('stopped'))
  if (stopping.aborted) stop()
  stopping.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([asked, promise])
  } finally {
    stopping.removeEventListener('abort', stop)
  }
}
