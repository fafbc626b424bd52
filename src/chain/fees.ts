import { AppError } from '../errors.ts'

/** Fees that a transaction offers, wei per gas. `legacy` on networks without EIP-1559. */
export type Fees =
  | { type: 'eip1559'; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }
  | { type: 'legacy'; gasPrice: bigint }

/** Returns the highest price per gas that these fees may cost, wei. */
export const highestPrice = (fees: Fees): bigint => (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas)

/**
 * Returns the fees to offer.
 * @param tip  wei per gas; on networks without a base fee, the whole price
 * @param floor  wei per gas: minimum total price that nodes accept
 * @throws fee_cap_reached
 */
export function offer({
  baseFee,
  tip,
  floor = 0n,
  cap,
}: {
  baseFee: bigint | null
  tip: bigint
  floor?: bigint
  cap: bigint
}): Fees {
  const needed = most((baseFee ?? 0n) + tip, floor)
  if (needed > cap) throw capReached(needed, cap)
  if (baseFee === null) return { type: 'legacy', gasPrice: needed }
  const wanted = most(2n * baseFee + tip, floor)
  return { type: 'eip1559', maxFeePerGas: wanted < cap ? wanted : cap, maxPriorityFeePerGas: tip }
}

/**
 * Returns fees for replacing a pending transaction.
 * @param previous  fees of the attempt to replace, wei per gas
 * @param market  fees that the market requires now
 * @param cap  wei per gas
 * @returns both fields at least 12.5 % above `previous`: nodes require 10 %, and geth requires both to grow
 * @throws fee_cap_reached  if that is above the cap
 * Source: go-ethereum core/txpool/legacypool/list.go, Add
 */
export function nextFee(previous: Fees, market: Fees, cap: bigint): Fees {
  const price = most(raised(highestPrice(previous)), highestPrice(market))
  const limited = price > cap ? most(raised(highestPrice(previous)), cap) : price
  if (limited > cap) throw capReached(limited, cap)
  if (previous.type === 'legacy') return { type: 'legacy', gasPrice: limited }
  const tip = most(raised(previous.maxPriorityFeePerGas), market.type === 'legacy' ? 0n : market.maxPriorityFeePerGas)
  // A tip cannot exceed the total price, so limit the market's tip to that price.
  const maxPriorityFeePerGas = tip > limited ? limited : tip
  return { type: 'eip1559', maxFeePerGas: limited, maxPriorityFeePerGas }
}

/** Returns the lower value of two offers for each field; the second offer if their types differ. */
export function cheaper(one: Fees, other: Fees): Fees {
  if (one.type === 'legacy' || other.type === 'legacy')
    return one.type === other.type && highestPrice(one) < highestPrice(other) ? one : other
  const maxFeePerGas = least(one.maxFeePerGas, other.maxFeePerGas)
  const tip = least(one.maxPriorityFeePerGas, other.maxPriorityFeePerGas)
  return { type: 'eip1559', maxFeePerGas, maxPriorityFeePerGas: least(tip, maxFeePerGas) }
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
export const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/** Returns a fee 12.5 % higher, rounded up, and at least 1 wei higher. */
const raised = (fee: bigint): bigint => most((fee * 9n + 7n) / 8n, fee + 1n)

const capReached = (needed: bigint, cap: bigint): AppError =>
  new AppError(
    'fee_cap_reached',
    `The network requires ${needed} wei per gas, and the operator allows ${cap}. Nothing was sent. Try again when fees are lower.`,
  )
