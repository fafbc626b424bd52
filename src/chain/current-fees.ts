import { floorOf } from './fee-floor.ts'
import { most, offer, type Fees } from './fees.ts'
import type { Chain } from './network.ts'
import { readHeader, readQuantity } from './rpc/answers.ts'
import { isBroken, isMissingMethod, isRateLimited } from './rpc/errors.ts'
import { RpcError } from './rpc/rpc.ts'

/**
 * Fees for a transaction sent now. Asked of the node once per block, by the first who asks; the base fee comes with the head.
 * The tip is what a block is paid above its real base fee, so what a node suggests or names as its least is believed up to the network's
 * `tipCapWei` only.
 * @returns  2 × base fee + tip, so that six full blocks in a row do not price it out, and what pools named as the least that they take; never
 *   above the network's cap
 * @throws fee_cap_reached  when base fee and tip alone are above the cap
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
  // A failure is not remembered for the rest of the block.
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
 * What the node suggests as tip. Where it has no such method, which the specification of the JSON-RPC API leaves open,
 * what its gas price has above the base fee. A node that is in trouble for a moment is not one that lacks the method.
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
  // Of one moment: the price of one block above the base fee of another is no tip.
  const [price, latest] = await rpc.batch([
    { method: 'eth_gasPrice', params: [] },
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
  ])
  for (const answer of [price, latest]) if (answer instanceof RpcError) throw answer
  const tip = readQuantity(price, 'gas price') - (readHeader(latest).baseFee ?? baseFee)
  return tip > 0n ? tip : 0n
}
