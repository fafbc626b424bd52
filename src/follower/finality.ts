import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import { FALLBACK_FINALITY } from '../chain/block-at.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import type { Finality } from './apply.ts'
import { fetchHeader } from './fetch.ts'
import { askLatest, type Follower } from './follower.ts'

/**
 * share of the distance between final and newest block by which that distance may grow before the node is asked again
 */
const ASKED_AGAIN = 1 / 16
/** blocks after which the node is asked in any case: after a standstill, finality may advance far at once */
const ASKED_EVERY = 8

/**
 * Returns the block that the network considers final. The node is asked only when finality may have advanced enough to
 * matter: at every fourth block if finality is 64 blocks behind, at every block if it is close. In between, returns the
 * last value, because finality only advances.
 * @throws RpcUnavailable | InvalidResponse
 */
export async function askFinality(follower: Follower, latest: Block): Promise<Finality> {
  const { chain, final } = follower
  if (final !== null && typeof chain.finality !== 'number') {
    const { said, of } = final
    if (latest.number >= of && latest.number - of < Math.min((of - said.number) * ASKED_AGAIN, ASKED_EVERY)) return said
  }
  const said = await findFinality(follower, latest)
  follower.final = { said, of: latest.number }
  return said
}

/**
 * Asks the node for the block that the network considers final now.
 * @throws RpcUnavailable | InvalidResponse
 */
export async function findFinality(follower: Follower, latest: Block): Promise<Finality> {
  const { chain, app } = follower
  if (typeof chain.finality === 'number') return { number: latest.number - chain.finality, hash: null }
  try {
    const header = await fetchHeader(chain.rpc, 'finalized')
    if (header !== null) return await believed(follower, header, latest)
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
  }
  if (!follower.hasWarnedOfFinality)
    app.telemetry.log.warn('finalized_block_missing', {
      chainId: chain.chainId,
      blocksInstead: FALLBACK_FINALITY,
    })
  follower.hasWarnedOfFinality = true
  return { number: latest.number - FALLBACK_FINALITY, hash: null }
}

/**
 * Checks a final block against the newest one. With instant finality, the final block may be above the newest block as
 * last fetched, but not above the newest block now.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
async function believed(follower: Follower, final: Block, latest: Block): Promise<Finality> {
  if (final.number > latest.number && final.number > (await askLatest(follower)).number)
    throw new InvalidResponse('the node calls a block final that is above its newest')
  return final
}
