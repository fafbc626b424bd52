import { most } from './fees.ts'
import type { NamedFee } from './memory.ts'
import type { Chain } from './network.ts'
import type { NamedFees } from './rpc/errors.ts'

/** milliseconds for which what a pool named is believed: it may take less by then, and one node's word is not to cost permanently */
const BELIEVED_MS = 600_000

/** The least that pools of a network take, wei per gas; 0 where none has named any. `baseFee` only counts in the block in which it was named. */
export type FeeFloor = { tip: bigint; price: bigint; baseFee: bigint }

/**
 * Remembers what a node named when it refused a transaction as too cheap: what is sent from now on begins there. What is above the
 * network's cap is nothing that this service would ever pay, and one node's word must not stop a network.
 */
export function noteFloor(chain: Chain, named: NamedFees): void {
  const { memory, head, clock, feeCapWei } = chain
  const known = floorOf(chain)
  const within = (wei = 0n) => (wei > feeCapWei ? 0n : wei)
  /** Only what is named anew lasts longer. */
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
  // What the block wants is more than was found before.
  memory.fees = null
}

const NONE: NamedFee = { wei: 0n, until: 0 }

export function floorOf({ memory, head, clock }: Chain): FeeFloor {
  const { floor } = memory
  if (floor === null) return { tip: 0n, price: 0n, baseFee: 0n }
  const inForce = ({ wei, until }: NamedFee) => (until < clock.ticks() ? 0n : wei)
  const isOfBlock = floor.blockHash === (head.current()?.hash ?? null)
  return { tip: inForce(floor.tip), price: inForce(floor.price), baseFee: isOfBlock ? floor.baseFee : 0n }
}
