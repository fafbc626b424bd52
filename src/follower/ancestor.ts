import type { App } from '../app.ts'
import { BadAnswer } from '../chain/failures.ts'
import type { Chain } from '../chain/network.ts'
import { fetchHeaders } from './fetch.ts'
import { blockOf } from './cursor.ts'
import type { Block } from '../chain/head.ts'

/** blocks compared per step of the walk; most reorganisations are one deep, so the first step is short */
const STEPS = [4, 50]

/**
 * The newest block that we stored and that the node still has in its canonical chain, at or below `fromNumber`.
 * Null when no stored block is left of that chain.
 * @throws RpcError | RpcUnavailable | BadAnswer
 */
export async function findAncestor({ db }: App, chain: Chain, fromNumber: number): Promise<Block | null> {
  let below = fromNumber + 1
  for (let step = 0; ; step++) {
    const rows = await db
      .selectFrom('blocks')
      .selectAll()
      .where('chain_id', '=', chain.chainId)
      .where('number', '<', below)
      .orderBy('number', 'desc')
      .limit(STEPS[Math.min(step, STEPS.length - 1)]!)
      .execute()
    if (rows.length === 0) return null
    const stored = rows.map(blockOf)
    const canonical = await fetchHeaders(
      chain.rpc,
      stored.map((block) => block.number),
    )
    // Below its own newest block a node has every number; one that says it has none proves nothing about our chain.
    if (canonical.includes(null)) throw new BadAnswer('the node lacks a block below its newest')
    const found = stored.find((block, index) => canonical[index]?.hash === block.hash)
    if (found !== undefined) return found
    below = stored.at(-1)!.number
  }
}
