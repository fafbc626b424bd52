import { floorOf } from './fee-floor.ts'
import { most, offer, type Fees } from './fees.ts'
import type { Chain } from './network.ts'
import { readHeader, readQuantity } from './rpc/answers.ts'
import { isBroken, isMissingMethod, isRateLimited } from './rpc/errors.ts'
import { RpcError } from './rpc/rpc.ts'

/**
 * Returns the fees for a transaction sent now. Asks the node once per block, at the first request. The base fee is that
 * of the head.
 * The tip is a block's revenue above its base fee, wei per gas. A node's suggestion or stated minimum is accepted up to
 * the network's `tipCapWei`.
 * @returns 2 × base fee + tip, so that the transaction can still be mined after six full blocks in a row. At least
 *   the minimum that pools have stated, and never above the network's cap.
 * @throws fee_cap_reached  if base fee and tip alone are above the cap
 * @throws RpcError | RpcUnavailable
 */
export function currentFees(chain: Chain): Promise<Fees> {
  const block = chain.head.current()
  if (block === null) return askWithoutHead(chain)
  const { memory } = chain
  const known = memory.fees
  if (known?.blockHash === block.hash) return known.fees
  const fees = fetchFees(chain, block.baseFee)
  memory.fees = { blockHash: block.hash, fees }
  // Do not remember a failure for the rest of the block.
  fees.catch(() => {
    if (memory.fees?.fees === fees) memory.fees = null
  })
  return fees
}

async function askWithoutHead(chain: Chain): Promise<Fees> {
  const { baseFee } = readHeader(await chain.rpc.call('eth_getBlockByNumber', ['latest', false]))
  return fetchFees(chain, baseFee)
}

async function fetchFees(chain: Chain, baseFee: bigint | null): Promise<Fees> {
  const { rpc, feeCapWei, tipCapWei = feeCapWei } = chain
  const floor = floorOf(chain)
  if (baseFee === null) {
    const gasPrice = readQuantity(await rpc.call('eth_gasPrice', []), 'gas price')
    return offer({ baseFee: null, tip: most(gasPrice, floor.tip), floor: floor.price, cap: feeCapWei })
  }
  const wanted = most(await askTip(chain, baseFee), floor.tip)
  const tip = wanted > tipCapWei ? tipCapWei : wanted
  return offer({ baseFee: most(baseFee, floor.baseFee), tip, floor: floor.price, cap: feeCapWei })
}

/**
 * Returns the tip that the node suggests. The JSON-RPC specification does not require that method. Without it, the tip
 * is the gas price minus the base fee. A temporary failure does not mean that the method is missing.
 */
async function askTip({ rpc, memory }: Chain, baseFee: bigint): Promise<bigint> {
  if (!memory.lacksTip) {
    try {
      return readQuantity(await rpc.call('eth_maxPriorityFeePerGas', []), 'tip')
    } catch (error) {
      if (!(error instanceof RpcError) || isRateLimited(error) || isBroken(error)) throw error
      if (isMissingMethod(error)) memory.lacksTip = true
    }
  }
  // Request both at once: the gas price of one block minus the base fee of another is no tip.
  const [price, latest] = await rpc.batch([
    { method: 'eth_gasPrice', params: [] },
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
  ])
  for (const answer of [price, latest]) if (answer instanceof RpcError) throw answer
  const tip = readQuantity(price, 'gas price') - (readHeader(latest).baseFee ?? baseFee)
  return tip > 0n ? tip : 0n
}
