import { AppError } from '../errors.ts'
import { readHeader, readQuantity } from './rpc/answers.ts'
import { isBroken, isMissingMethod, isRateLimited } from './rpc/errors.ts'
import type { Chain } from './network.ts'
import { RpcError, type Rpc } from './rpc/rpc.ts'

/** What a transaction offers for gas, wei per gas. `legacy` on networks without EIP-1559. */
export type Fees =
  | { type: 'eip1559'; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }
  | { type: 'legacy'; gasPrice: bigint }

/** The highest price per gas that these fees may cost, wei. */
export const highestPrice = (fees: Fees): bigint => (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas)

type FeesAtBlock = { blockHash: string; fees: Promise<Fees> }
const asked = new WeakMap<Chain, FeesAtBlock>()

/**
 * Fees for a transaction sent now. Asked of the node once per block, by the first who asks; the base fee comes with the head.
 * @returns  2 × base fee + tip, so that six full blocks in a row do not price it out; never above the network's cap
 * @throws fee_cap_reached  when base fee and tip alone are above the cap
 * @throws RpcError | RpcUnavailable
 */
export function currentFees(chain: Chain): Promise<Fees> {
  const block = chain.head.current()
  if (block === null) return askWithoutHead(chain)
  const known = asked.get(chain)
  if (known?.blockHash === block.hash) return known.fees
  const fees = fetchFees(chain, block.baseFee)
  asked.set(chain, { blockHash: block.hash, fees })
  // A failure is not remembered for the rest of the block.
  fees.catch(() => {
    if (asked.get(chain)?.fees === fees) asked.delete(chain)
  })
  return fees
}

async function askWithoutHead(chain: Chain): Promise<Fees> {
  const { baseFee } = readHeader(await chain.rpc.call('eth_getBlockByNumber', ['latest', false]))
  return fetchFees(chain, baseFee)
}

async function fetchFees({ rpc, feeCapWei }: Chain, baseFee: bigint | null): Promise<Fees> {
  if (baseFee === null) {
    const gasPrice = readQuantity(await rpc.call('eth_gasPrice', []), 'gas price')
    return offer({ baseFee: null, tip: gasPrice, cap: feeCapWei })
  }
  return offer({ baseFee, tip: await askTip(rpc, baseFee), cap: feeCapWei })
}

/** nodes that do not suggest a tip */
const withoutTip = new WeakSet<Rpc>()

/**
 * What the node suggests as tip. Where it has no such method, which the specification of the JSON-RPC API leaves open,
 * what its gas price has above the base fee. A node that is in trouble for a moment is not one that lacks the method.
 */
async function askTip(rpc: Rpc, baseFee: bigint): Promise<bigint> {
  if (!withoutTip.has(rpc)) {
    try {
      return readQuantity(await rpc.call('eth_maxPriorityFeePerGas', []), 'tip')
    } catch (error) {
      if (!(error instanceof RpcError) || isRateLimited(error) || isBroken(error)) throw error
      if (isMissingMethod(error)) withoutTip.add(rpc)
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

/**
 * @param tip  wei per gas; on networks without a base fee the whole price
 * @throws fee_cap_reached
 */
export function offer({ baseFee, tip, cap }: { baseFee: bigint | null; tip: bigint; cap: bigint }): Fees {
  const least = (baseFee ?? 0n) + tip
  if (least > cap) throw capReached(least, cap)
  if (baseFee === null) return { type: 'legacy', gasPrice: tip }
  const wanted = 2n * baseFee + tip
  return { type: 'eip1559', maxFeePerGas: wanted < cap ? wanted : cap, maxPriorityFeePerGas: tip }
}

/**
 * Fees for replacing a pending transaction.
 * @param previous  what the attempt that it replaces offered, wei per gas
 * @param market    what is right now
 * @param cap       wei per gas
 * @returns         both fields at least 12.5 % above `previous`: nodes want 10 %, and geth wants each to grow
 * @throws fee_cap_reached  when that is above the cap
 * Source: go-ethereum core/txpool/legacypool/list.go, Add
 */
export function nextFee(previous: Fees, market: Fees, cap: bigint): Fees {
  const price = most(raised(highestPrice(previous)), highestPrice(market))
  const limited = price > cap ? most(raised(highestPrice(previous)), cap) : price
  if (limited > cap) throw capReached(limited, cap)
  if (previous.type === 'legacy') return { type: 'legacy', gasPrice: limited }
  const tip = most(raised(previous.maxPriorityFeePerGas), market.type === 'legacy' ? 0n : market.maxPriorityFeePerGas)
  // A tip cannot be above the whole; where the market's tip is, the raised one of before still fits.
  const maxPriorityFeePerGas = tip > limited ? limited : tip
  return { type: 'eip1559', maxFeePerGas: limited, maxPriorityFeePerGas }
}

const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/** 12.5 % more, rounded up, and more in any case. */
const raised = (fee: bigint): bigint => most((fee * 9n + 7n) / 8n, fee + 1n)

const capReached = (needed: bigint, cap: bigint): AppError =>
  new AppError('fee_cap_reached', `The network requires ${needed} wei per gas; the operator allows ${cap}.`)
