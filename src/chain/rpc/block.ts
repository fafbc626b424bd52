import type { Hex } from '../../ids.ts'

/** What is kept of a block. */
export type Block = {
  number: number
  hash: Hex
  parentHash: Hex
  /** seconds since 1970 */
  timestamp: number
  /** wei per gas; null on networks without EIP-1559 */
  baseFee: bigint | null
}
