import { openKnownCode, type KnownCode } from './code.ts'
import type { Fees } from './fees.ts'
import type { Head } from './head.ts'
import type { Block } from './rpc/block.ts'
import { openAnswers, type ReadAnswers } from './shared-answers.ts'

/** wei per gas, and until when that is believed, in ticks */
export type NamedFee = { wei: bigint; until: number }

/** What this process has learned of a network beside its head: opened with it, and gone with it. Each part is one file's. */
export type Memory = {
  /** `reads.ts`: what was read at the newest block */
  reads: ReadAnswers
  /** `latest-block.ts`: the question for it that is under way, and the one for those who came since */
  latest: { running: Promise<Block>; next: Promise<Block> | null } | null
  /** `current-fees.ts`: those of the newest block */
  fees: { blockHash: string; fees: Promise<Fees> } | null
  /** `current-fees.ts`: the node has no `eth_maxPriorityFeePerGas` */
  lacksTip: boolean
  /** `fee-floor.ts`: what pools named as the least that they take, wei per gas, each until when, in ticks; the base fee is of one block */
  floor: { tip: NamedFee; price: NamedFee; baseFee: bigint; blockHash: string | null } | null
  /** `code.ts` */
  code: KnownCode
  /** `lost.ts`: since when the node's newest block is below ours, in ticks */
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
