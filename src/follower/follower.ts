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

/** A process that is further behind than this shows the node's newest block as head instead of its own. */
export const FAR_BEHIND = 3

/** One process's part in following one network, from start to stop. */
export type Follower = {
  app: App
  chain: Chain
  listeners: BlockListener[]
  stopping: AbortSignal
  owner: string
  /** the cursor, while this process holds its lease; null when another does or the truth must be read again */
  held: Position | null
  /** the epoch under which this process last held the lease */
  epoch: number | null
  /** when the renewal of the lease that succeeded last was begun, by the clock of `performance` */
  renewedAt: number
  hasStarted: boolean
  /** the node's newest block, as a process that does not follow last heard of it */
  observed: { block: Block | null; at: number } | null
  /** the node's newest block as it answered, so that it need not be asked for again by its hash */
  newest: { hash: Hex; answer: unknown } | null
  /** when the node was last asked for its newest block, by the clock of `performance` */
  lookedAt: number
  /** ends the pause under way */
  wake: () => void
  /** the subscription has announced something since that look */
  wasHinted: boolean
  /** blocks in a row that were found and not announced: a subscription that says nothing of several is not relied upon */
  unannounced: number
  /** what was final when the node last said it, and its newest block then */
  final: { said: Finality; of: number } | null
  receipts: ReceiptSource
  /** the blocks after a block, on their way while that one is stored; a mere guess, used only where it fits */
  ahead: { after: Hex; window: Promise<Window> } | null
  hasWarnedOfFinality: boolean
  /** the history, behind the cursor; null where nobody listens to it */
  trail: Trail | null
  /** how the node is read, as the database was told last */
  toldReadFrom: ReadFrom | null
  /** it is at work on the block behind the cursor: what fails holds the network up */
  isAtBlock: boolean
  /** what holds it up, as the database was told last */
  blockedBy: string | null
  /** labels of the metric of a follower that is stopped, while it shows one */
  shownStop: Record<string, string> | null
}

/** The history's part in following one network: behind the follower, in the process that holds its lease. */
export type Trail = {
  /** Keeps what was stored just now, and looks. */
  follow(blocks: readonly FollowedBlock[]): void
  /** Looks at what was reorganised. */
  wake(): void
  /** Resolves when the history has room for the next blocks, does not get on, or after a second: blocks need not be read twice. */
  untilRoom(): Promise<void>
  done: Promise<void>
}

/** Linked headers, the whole blocks of a good start of them, what is final, and what went wrong. */
export type Window = { headers: Block[]; blocks: FollowedBlock[]; finality: Finality | null; error: unknown }

/** The node's newest block. @throws RpcError | RpcUnavailable | InvalidResponse */
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
 * A head that is far above ours does not link to it yet, and what is final may be counted from it: the node has to have
 * it by its number, too.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function confirmHead(follower: Follower, latest: Block): Promise<void> {
  const again = await untilStopped(follower, fetchHeader(follower.chain.rpc, latest.number))
  if (again?.hash !== latest.hash) throw new InvalidResponse('the node does not have its own newest block')
}

/** Those who listen to the head are other slices: their errors are not ours. */
export function showHead({ app, chain }: Follower, block: Block): void {
  app.telemetry.headBlock.set({ chain_id: String(chain.chainId) }, block.number)
  try {
    if (chain.head.current()?.hash === block.hash) chain.head.confirm()
    else chain.head.set(block)
  } catch (error) {
    app.telemetry.log.error('head_listener_failed', { chainId: chain.chainId }, error)
  }
}

/** A question to the node need not be waited for when the program ends; its answer is then dropped. */
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
