import type { Hex } from '../ids.ts'
import type { Block } from './head.ts'
import type { Chain } from './network.ts'
import { RpcUnavailable } from './rpc.ts'

export type RawBlock = { number: Hex; hash: Hex; parentHash: Hex; timestamp: Hex; baseFeePerGas?: Hex }

/** The fields we keep of a block as nodes write it. */
export function readBlock(raw: RawBlock): Block {
  return {
    number: Number(raw.number),
    hash: raw.hash,
    parentHash: raw.parentHash,
    timestamp: Number(raw.timestamp),
    baseFee: raw.baseFeePerGas === undefined || raw.baseFeePerGas === null ? null : BigInt(raw.baseFeePerGas),
  }
}

const asking = new WeakMap<Chain, Promise<Block>>()

/**
 * The newest block that this service has seen, asked of the node when what we know is older than `maxAgeMs`.
 * All who ask at the same time share one request. A node that lags behind us changes nothing: heads move only
 * forward here, the follower alone moves them back.
 * @throws RpcUnavailable
 */
export async function newestBlock(chain: Chain, maxAgeMs = MAX_AGE_MS): Promise<Block> {
  const known = chain.head.current()
  if (known !== null && chain.head.ageMs() <= maxAgeMs) return known
  let request = asking.get(chain)
  if (request === undefined) {
    request = askNode(chain).finally(() => asking.delete(chain))
    asking.set(chain, request)
  }
  return request
}

/** milliseconds: how old the known head may be before a read asks the node again; one look-up serves all reads of that time */
const MAX_AGE_MS = 20

async function askNode(chain: Chain): Promise<Block> {
  const raw = await chain.rpc.call<RawBlock | null>('eth_getBlockByNumber', ['latest', false])
  if (raw === null) throw new RpcUnavailable('the node has no latest block', { timedOut: false })
  const block = readBlock(raw)
  const known = chain.head.current()
  if (known !== null && block.number < known.number) {
    chain.head.confirm()
    return known
  }
  chain.head.set(block)
  return block
}
