import { most } from './fees.ts'
import type { NamedFee } from './memory.ts'
import type { Chain } from './network.ts'
import type { NamedFees } from './rpc/errors.ts'

/**
 * milliseconds for which a stated minimum counts: the pool may accept less later, and a single node must not raise
 * costs permanently
 */
const BELIEVED_MS = 600_000

/**
 * Minimum fees that pools of a network have stated, wei per gas; 0: none. `baseFee` counts only in the block in which
 * it was stated.
 */
export type FeeFloor = { tip: bigint; price: bigint; baseFee: bigint }

/**
 * Remembers the minimum that a node stated when it rejected a transaction as underpriced; later transactions start from
 * it. Ignores a value above the network's cap: it would never be paid, and one node must not stop a network.
 */
export function noteFloor(chain: Chain, named: NamedFees): void {
  const { memory, head, clock, feeCapWei } = chain
  const known = floorOf(chain)
  const within = (wei = 0n) => (wei > feeCapWei ? 0n : wei)
  /** Extends a minimum only if it is stated again. */
  const newest = (what: 'tip' | 'price'): NamedFee => {
    const wei = within(named[what])
    return wei > 0n && wei >= known[what] ? { wei, until: clock.ticks() + BELIEVED_MS } : (memory.floor?.[what] ?? NONE)
  }
  memory.floor = {
    tip: newest('tip'),
    price: newest('price'),
    baseFee: most(known.baseFee, within(named.baseFee)),
    blockHash: head.current()?.hash ?? null,
  }
  // Discard the fees of this block, because it requires more than computed.
  memory.fees = null
}

const NONE: NamedFee = { wei: 0n, until: 0 }

/** Returns the minimum fees in force now, wei per gas; 0 for a fee without a minimum. */
export function floorOf({ memory, head, clock }: Chain): FeeFloor {
  const { floor } = memory
  if (floor === null) return { tip: 0n, price: 0n, baseFee: 0n }
  const inForce = ({ wei, until }: NamedFee) => (until < clock.ticks() ? 0n : wei)
  const isOfBlock = floor.blockHash === (head.current()?.hash ?? null)
  return { tip: inForce(floor.tip), price: inForce(floor.price), baseFee: isOfBlock ? floor.baseFee : 0n }
}
