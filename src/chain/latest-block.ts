import { readHeader } from './rpc/answers.ts'
import type { Hex } from '../ids.ts'
import type { Block } from './rpc/block.ts'
import { hasLost } from './lost.ts'
import { isDevelopment, type Chain } from './network.ts'

/**
 * milliseconds: how old the known head may be before a read asks the node again where a new block may come at any moment;
 * one look-up serves all reads of that time
 */
const MAX_AGE_MS = 20
/** the same as a share of the shortest time between two blocks, where that is longer */
const SHARE_OF_INTERVAL = 0.02
/** share of that time during which no next block is to be expected, and how long the head is believed then */
const QUIET = 0.8
const QUIET_MS = 1_000
/** milliseconds for which the head is believed while a subscription is active and announced nothing above it */
const SUBSCRIBED_MS = 2_000

/** share of that age from which on a read that need not wait asks for those after it */
const AHEAD = 0.75

/** milliseconds after which the node is asked once more beside: one request that hangs must not hold up all readers */
const LATE_MS = 1_000

/**
 * The newest block that this service has seen, asked of the node when what we know is older than `maxAgeMs`.
 * All who ask at the same time share one request, and nobody is given the answer to a request that was sent before
 * they asked. A node that lags behind us changes nothing, nor does one with another block of the same height: heads
 * move only forward here, the follower alone moves them back, or a node that has lost what we know.
 * @param options.lost  a block that nobody knows any more: another one of its height takes its place
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
 * How long the head is believed, milliseconds: as long as none can be newer, as far as this process can know. Longer than a
 * moment only where the follower runs, which is the one that says what is mined; on a development chain not at all,
 * because people mine a block by hand there and look immediately.
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

/** The newest block where that is known without asking the node; null where it has to be asked. */
export function freshBlock(chain: Chain, maxAgeMs = mostAge(chain)): Block | null {
  const ageMs = chain.head.ageMs()
  if (maxAgeMs <= 0 || ageMs > maxAgeMs) return null
  // Looked for shortly before someone would have to wait for it.
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

/** @returns the newest of what we knew and what the node says */
function move(chain: Chain, block: Block, lost: Hex | null): Block {
  const { head } = chain
  const known = head.current()
  // Says nothing of ours: a head that only lower ones are heard of grows old.
  if (known !== null && block.number < known.number) return known
  const isSibling = known !== null && block.number === known.number && block.hash !== known.hash
  if (isSibling && !isDevelopment(chain) && known.hash !== lost) {
    head.confirm()
    return known
  }
  head.set(block)
  return block
}
