import { readHeader } from './rpc/answers.ts'
import type { Hex } from '../ids.ts'
import type { Block } from './rpc/block.ts'
import { hasLost } from './lost.ts'
import { isDevelopment, type Chain } from './network.ts'

/**
 * milliseconds: maximum age of the head without a new request to the node, while a new block may appear at any moment;
 * one request serves all reads of that time
 */
const MAX_AGE_MS = 20
/** maximum age of the head as a share of the shortest time between two blocks, if that is longer than MAX_AGE_MS */
const SHARE_OF_INTERVAL = 0.02
/**
 * share of the block interval after a block in which no other block is expected, and maximum age of the head during it
 */
const QUIET = 0.8
const QUIET_MS = 1_000
/** milliseconds for which the head is current while a subscription is active and has announced no higher block */
const SUBSCRIBED_MS = 2_000

/** share of the maximum age after which a read refreshes the head for later reads, without waiting for it */
const AHEAD = 0.75

/** milliseconds after which the node is asked a second time: one request that hangs must not delay all reads */
const LATE_MS = 1_000

/**
 * Returns the newest block that this service has seen; asks the node if the known one is older than `maxAgeMs`.
 * Simultaneous calls share one request, and no call gets the response to a request sent before it. A node that lags, or
 * that has another block of the same height, changes nothing. The head moves only forward here, unless the node has
 * lost our block; otherwise only the follower moves it back.
 * @param options.lost  hash of a block that no node has: another block of its height replaces it
 * @throws RpcUnavailable | RpcError
 */
export async function newestBlock(
  chain: Chain,
  { maxAgeMs = mostAge(chain), lost = null }: { maxAgeMs?: number; lost?: Hex | null } = {},
): Promise<Block> {
  const fresh = freshBlock(chain, maxAgeMs)
  if (fresh !== null) return fresh
  const block = await fetchLatest(chain)
  const known = chain.head.current()
  if (known === null || !(await hasLost(chain, known, block))) return move(chain, block, lost)
  chain.head.set(block)
  return block
}

/**
 * Returns the milliseconds for which the head is current: as long as no newer block is possible, as far as this process
 * can know. It is longer than a moment only in the process of the follower, which determines what is mined. On a
 * development chain it is 0, because developers mine by hand and read immediately.
 */
function mostAge(chain: Chain): number {
  if (isDevelopment(chain)) return 0
  const { head, newHeads } = chain
  if (!head.isFollowed()) return MAX_AGE_MS
  const newest = head.current()?.number ?? -1
  if (newHeads?.isLive() === true) return newHeads.hasAbove(newest) ? MAX_AGE_MS : SUBSCRIBED_MS
  const intervalMs = head.pace.intervalMs()
  if (intervalMs === null) return MAX_AGE_MS
  return head.sinceChangeMs() < QUIET * intervalMs ? QUIET_MS : Math.max(MAX_AGE_MS, SHARE_OF_INTERVAL * intervalMs)
}

/** Returns the newest block if it is known without asking the node; otherwise null. */
export function freshBlock(chain: Chain, maxAgeMs = mostAge(chain)): Block | null {
  const ageMs = chain.head.ageMs()
  if (maxAgeMs <= 0 || ageMs > maxAgeMs) return null
  // Refresh shortly before a read would have to wait.
  if (ageMs > AHEAD * maxAgeMs && chain.memory.latest === null) {
    fetchLatest(chain)
      .then((block) => move(chain, block, null))
      .catch(() => {})
  }
  return chain.head.current()
}

function fetchLatest(chain: Chain): Promise<Block> {
  const now = chain.memory.latest
  if (now === null) return start(chain)
  now.next ??= now.running.then(
    () => start(chain),
    () => start(chain),
  )
  return now.next
}

function start(chain: Chain): Promise<Block> {
  const { memory } = chain
  const entry: NonNullable<typeof memory.latest> = { running: askTwice(chain), next: null }
  memory.latest = entry
  const forget = () => {
    if (memory.latest === entry && entry.next === null) memory.latest = null
  }
  entry.running.then(forget, forget)
  return entry.running
}

async function askTwice(chain: Chain): Promise<Block> {
  const first = askNode(chain)
  const { promise: late, resolve } = Promise.withResolvers<'late'>()
  const timer = chain.clock.after(LATE_MS, () => resolve('late'))
  try {
    const block = await Promise.race([first, late])
    if (block !== 'late') return block
  } finally {
    timer.cancel()
  }
  return Promise.any([first, askNode(chain)]).catch(() => first)
}

const askNode = ({ rpc, head }: Chain): Promise<Block> =>
  head.node.observe(async () => readHeader(await rpc.call('eth_getBlockByNumber', ['latest', false])))

/** Moves the head forward. @returns the newer of the known block and the node's block */
function move(chain: Chain, block: Block, lost: Hex | null): Block {
  const { head } = chain
  const known = head.current()
  // A lower block neither contradicts nor confirms the head, which therefore ages.
  if (known !== null && block.number < known.number) return known
  const isSibling = known !== null && block.number === known.number && block.hash !== known.hash
  if (isSibling && !isDevelopment(chain) && known.hash !== lost) {
    head.confirm()
    return known
  }
  head.set(block)
  return block
}
