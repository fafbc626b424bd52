import type { App } from '../app.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Chain } from '../chain/network.ts'
import { fetchHeaders } from './fetch.ts'
import { blockOf } from './cursor.ts'
import type { Block } from '../chain/rpc/block.ts'
import { toHex } from '../hex.ts'

/** blocks compared per step; the first step is short, because most reorganisations are one block deep */
const STEPS = [4, 50]

/**
 * Returns the newest stored block at or below `fromNumber` that is in the node's canonical chain. If no stored block
 * is, returns the first one's parent if the node has it; otherwise null.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function findAncestor({ db }: Pick<App, 'db'>, chain: Chain, fromNumber: number): Promise<Block | null> {
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
    if (rows.length === 0) return findParent({ db }, chain)
    const stored = rows.map(blockOf)
    const canonical = await fetchHeaders(
      chain.rpc,
      stored.map((block) => block.number),
    )
    // A node has every block below its newest one. A node that lacks one proves nothing about our chain.
    if (canonical.includes(null)) throw new InvalidResponse('the node lacks a block below its newest')
    const found = stored.find((block, index) => canonical[index]?.hash === block.hash)
    if (found !== undefined) return found
    below = stored.at(-1)!.number
  }
}

/** Returns the parent of the first stored block, if the node has it. Only the parent's hash is stored. */
async function findParent({ db }: Pick<App, 'db'>, { chainId, rpc }: Chain): Promise<Block | null> {
  const lowest = await db
    .selectFrom('blocks')
    .select(['number', 'parent_hash'])
    .where('chain_id', '=', chainId)
    .orderBy('number')
    .limit(1)
    .executeTakeFirst()
  if (lowest === undefined || lowest.number === 0) return null
  const [parent] = await fetchHeaders(rpc, [lowest.number - 1])
  return parent?.hash === toHex(lowest.parent_hash) ? parent : null
}
