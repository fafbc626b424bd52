import { AppError } from '../errors.ts'
import { quantityOf } from '../ids.ts'
import { readHeader } from './rpc/answers.ts'
import { isRateLimited, isUnknownBlock } from './rpc/errors.ts'
import { newestBlock } from './latest-block.ts'
import type { Block } from './rpc/block.ts'
import type { Chain } from './network.ts'
import { RpcError } from './rpc/rpc.ts'

/** number of newest blocks that are not final if a node reports no finalized block: two epochs of the beacon chain */
export const FALLBACK_FINALITY = 64

/**
 * Returns the block of a number, or the final block: the node's finalized block, or the one a number of blocks below
 * the newest, depending on the network's settings.
 * @returns null if the node lags: it lacks a block that this service has seen
 * @throws invalid_request  if the chain does not have the block yet
 * @throws RpcUnavailable | RpcError
 */
export async function oldBlock(chain: Chain, tag: 'finalized' | number): Promise<Block | null> {
  if (typeof tag === 'number') return numbered(chain, tag)
  const named = chain.finality === 'finalized' ? await fetchTagged(chain, 'finalized') : null
  if (named !== null) return named
  const depth = chain.finality === 'finalized' ? FALLBACK_FINALITY : chain.finality
  return numbered(chain, Math.max(0, (await newestBlock(chain)).number - depth))
}

async function numbered(chain: Chain, number: number): Promise<Block | null> {
  const newest = chain.head.current()
  if (newest?.number === number) return newest
  const block = await fetchTagged(chain, quantityOf(number))
  if (block !== null || number <= (chain.head.current()?.number ?? -1)) return block
  throw new AppError('invalid_request', 'The network does not have this block yet.', {
    errors: [{ pointer: '/blockTag', code: 'unknown_block', detail: 'The network does not have this block yet.' }],
  })
}

/** Returns the block at a tag; null if the node lacks the block or does not support the tag. */
async function fetchTagged({ rpc }: Chain, tag: string): Promise<Block | null> {
  try {
    const raw = await rpc.call('eth_getBlockByNumber', [tag, false])
    return raw === null ? null : readHeader(raw)
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
    if (isUnknownBlock(error) || (tag === 'finalized' && !isRateLimited(error))) return null
    throw error
  }
}
