import type { Hex } from '../../ids.ts'

/** The stored fields of a block. */
export type Block = {
  number: number
  hash: Hex
  parentHash: Hex
  /** Unix time, seconds */
  timestamp: number
  /** wei per gas; null on networks without EIP-1559 */
  baseFee: bigint | null
}
