import { currentFees } from '../../chain/current-fees.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'

/**
 * Returns the fees that the next blocks require.
 * @throws fee_cap_reached, chain_unavailable, chain_timeout
 */
export async function marketOf(chain: Chain): Promise<Fees> {
  try {
    return await currentFees(chain)
  } catch (error) {
    throw mapChainError(error)
  }
}
