import type { Hex } from '../ids.ts'
import { isUnknownBlock } from './rpc/errors.ts'
import { isDevelopment, isEmbedded, type Chain } from './network.ts'
import { RpcError } from './rpc/rpc.ts'

/** milliseconds for which a node's newest block must be below ours before the node is asked whether it has lost ours */
const LOST_AFTER_MS = 5_000

/**
 * Returns whether the node has lost our newest block, and does not only lag: its newest block has been lower for
 * seconds, and it does not know our block's hash.
 * A development chain loses blocks when a snapshot is reverted, so there is no delay. For the embedded chain, which has
 * a single node, the lower block is enough.
 * @param ours  the newest block that this process, or its follower, knows
 * @param latest  the newest block that the node reports now
 * @throws RpcError | RpcUnavailable
 */
export async function hasLost(
  chain: Chain,
  ours: { number: number; hash: Hex },
  latest: { number: number },
): Promise<boolean> {
  if (latest.number >= ours.number) {
    chain.memory.belowSince = null
    return false
  }
  if (isEmbedded(chain)) return true
  const now = chain.clock.ticks()
  const since = (chain.memory.belowSince ??= now)
  const { lostAfterMs = isDevelopment(chain) ? 0 : LOST_AFTER_MS } = chain
  if (now - since < lostAfterMs) return false
  try {
    return (await chain.rpc.call('eth_getBlockByHash', [ours.hash, false])) === null
  } catch (error) {
    if (error instanceof RpcError && isUnknownBlock(error)) return true
    throw error
  }
}
