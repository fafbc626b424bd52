import { openKnownCode, type KnownCode } from './code.ts'
import type { Fees } from './fees.ts'
import type { Head } from './head.ts'
import type { Block } from './rpc/block.ts'
import { openAnswers, type ReadAnswers } from './shared-answers.ts'

/** wei per gas, and until when it counts, in ticks */
export type NamedFee = { wei: bigint; until: number }

/**
 * Knowledge of this process about a network besides its head, while the network is open. Each part belongs to one
 * file.
 */
export type Memory = {
  /** `reads.ts`: results read at the newest block */
  reads: ReadAnswers
  /** `latest-block.ts`: the running request for it, and the next one for later callers */
  latest: { running: Promise<Block>; next: Promise<Block> | null } | null
  /** `current-fees.ts`: fees for the newest block */
  fees: { blockHash: string; fees: Promise<Fees> } | null
  /** `current-fees.ts`: the node has no `eth_maxPriorityFeePerGas` */
  lacksTip: boolean
  /** `fee-floor.ts`: stated minimums, wei per gas, with their expiry in ticks; the base fee belongs to one block */
  floor: { tip: NamedFee; price: NamedFee; baseFee: bigint; blockHash: string | null } | null
  /** `code.ts` */
  code: KnownCode
  /** `lost.ts`: since when the node's newest block has been below ours, in ticks */
  belowSince: number | null
}

export const openMemory = (head: Head): Memory => ({
  reads: openAnswers(),
  latest: null,
  fees: null,
  lacksTip: false,
  floor: null,
  code: openKnownCode(head),
  belowSince: null,
})
