import type { Chain } from './network.ts'
import type { NamedFees } from './rpc/errors.ts'

/** milliseconds for which what a pool named is believed: it may take less by then, and one node's word is not to cost permanently */
const BELIEVED_MS = 600_000

/** The least that pools of a network take, wei per gas; 0 where none has named any. `baseFee` only counts in the block in which it was named. */
export type FeeFloor = { tip: bigint; price: bigint; baseFee: bigint }

/** Remembers what a node named when it refused a transaction as too cheap: what is sent from now on begins there. */
export function noteFloor(chain: Chain, named: NamedFees): void {
  const { memory, head, clock } = chain
  const known = floorOf(chain)
  memory.floor = {
    tip: larger(known.tip, named.tip),
    price: larger(known.price, named.price),
    baseFee: larger(known.baseFee, named.baseFee),
    blockHash: head.current()?.hash ?? null,
    until: clock.ticks() + BELIEVED_MS,
  }
  // What the block wants is more than was found before.
  memory.fees = null
}

export function floorOf({ memory, head, clock }: Chain): FeeFloor {
  const { floor } = memory
  if (floor === null || floor.until < clock.ticks()) return { tip: 0n, price: 0n, baseFee: 0n }
  const { tip, price, baseFee, blockHash } = floor
  return { tip, price, baseFee: blockHash === (head.current()?.hash ?? null) ? baseFee : 0n }
}

const larger = (known: bigint, named = 0n): bigint => (named > known ? named : known)
