import type { Hex } from '../ids.ts'
import { isUnknownBlock } from './rpc/errors.ts'
import { isDevelopment, isEmbedded, type Chain } from './network.ts'
import { RpcError } from './rpc/rpc.ts'

/** milliseconds for which a node's newest block stays below ours before it is asked whether it has lost it */
const LOST_AFTER_MS = 5_000

/**
 * Whether the node has lost our newest block, and not merely lags: what it shows has stayed below for seconds, and it no
 * longer knows our block by its hash. In development a snapshot that was reverted loses blocks immediately, so nothing is
 * waited for there; of our own chain, which has one node only, the lower head says enough.
 * @param ours    the newest block that this process, or its follower, knows
 * @param latest  the newest block that the node shows now
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
