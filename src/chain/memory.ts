import { openKnownCode, type KnownCode } from './code.ts'
import type { Fees } from './fees.ts'
import type { Head } from './head.ts'
import type { Block } from './rpc/block.ts'
import { openAnswers, type ReadAnswers } from './shared-answers.ts'

/** A minimum fee in wei per gas, and when it expires, in ticks. */
export type NamedFee = { wei: bigint; until: number }

/**
 * Facts about a network other than its head, which this process remembers while the network is open. Each field belongs
 * to one file.
 */
export type Memory = {
  /** `reads.ts`: results read at the newest block */
  reads: ReadAnswers
  /** `latest-block.ts`: the running request for the newest block, and the next request for later callers */
  latest: { running: Promise<Block>; next: Promise<Block> | null } | null
  /** `current-fees.ts`: fees for the newest block */
  fees: { blockHash: string; fees: Promise<Fees> } | null
  /** `current-fees.ts`: whether the node lacks `eth_maxPriorityFeePerGas` */
  lacksTip: boolean
  /** `fee-floor.ts`: stated minimums, wei per gas, with their expiry in ticks; the base fee belongs to one block */
  floor: { tip: NamedFee; price: NamedFee; baseFee: bigint; blockHash: string | null } | null
  /** `code.ts`: addresses with code */
  code: KnownCode
  /** `lost.ts`: time since which the node's newest block has been below ours, in ticks */
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
