import { readNumber } from '../chain/answers.ts'
import { BadAnswer } from '../chain/failures.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'

/** How many transactions of an account are mined at a block. @throws RpcError | RpcUnavailable */
export const countAt = async ({ rpc }: Chain, from: Hex, tag: string): Promise<number> =>
  readNumber(await rpc.call('eth_getTransactionCount', [from, tag]), 'count of transactions')

/**
 * The counts of an account at the newest block and at a final one. Upon the final one a write may be given up for good,
 * so a node that has counted more there than at its newest block is not believed.
 * @throws RpcError | RpcUnavailable
 */
export async function countsOf(chain: Chain, from: Hex, tag: string): Promise<{ newest: number; final: number }> {
  const [newest, final] = await Promise.all([countAt(chain, from, 'latest'), countAt(chain, from, tag)])
  if (final > newest) throw new BadAnswer('the node has counted more at a final block than at its newest')
  return { newest, final }
}

/** The newest block that counts as final, as a parameter of a call. */
export function finalTag({ finality, head }: Chain): string {
  if (finality === 'finalized') return 'finalized'
  return `0x${Math.max(0, (head.current()?.number ?? 0) - finality).toString(16)}`
}
