import type { Chain, Verification } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/failures.ts'
import { slot } from '../state.ts'
import type { Provability } from './prove.ts'

/** How the blocks of a network are fetched, and how far responses are verified. */
export type ReceiptSource = {
  /** consecutive responses that were null or an error of the block */ nulls?: number
  hasBlockReceipts: boolean
  /** whether the node supports eth_getLogs for one block by its hash; assumed until it refuses */ hasBlockLogs?: boolean
  verification: Verification
  provability?: Provability
}

/** Source of the results of a block. `receipts`: one call per transaction. */
export type ReadFrom = 'block receipts' | 'logs' | 'receipts'

const learned = slot('whether blocks can be proven', (_chain: Chain): Provability => ({ wasProven: false, doubts: 0 }))

/** Returns how to fetch blocks of a network. The process remembers whether the network's blocks can be verified. */
export function sourceOf(chain: Chain): ReceiptSource {
  return { hasBlockReceipts: true, verification: chain.verification, provability: learned.of(chain) }
}

/** Returns which calls a node's results are read from, as far as known. */
export function readsFrom(source: ReceiptSource): ReadFrom {
  if (source.hasBlockReceipts && (source.nulls ?? 0) < MAX_NULLS) return 'block receipts'
  return mayAskForLogs(source) ? 'logs' : 'receipts'
}

/**
 * Returns whether logs may replace receipts. They may only if the header's filter reveals a missing log. Mode `hash`
 * needs all receipts for their root, and in mode `count` nothing would reveal a missing log.
 */
export const mayAskForLogs = ({ verification, hasBlockLogs = true }: ReceiptSource): boolean =>
  verification === 'bloom' && hasBlockLogs

/**
 * Consecutive null responses after which receipts are fetched one by one. A node that lags briefly also responds with
 * null.
 */
export const MAX_NULLS = 3

/**
 * Returns whether a node lacks a method. Some nodes support the method only by block number, and reject a hash as an
 * invalid parameter. An error that names a block or its state concerns only that block.
 */
export function lacksMethod(answer: unknown): boolean {
  if (!(answer instanceof RpcError)) return false
  const text = answer.message.replace(/(eth|debug|trace)_\w+/g, '')
  if (/header|block|resource|state/i.test(text)) return false
  return [-32601, -32602].includes(answer.rpcCode) || /not (found|supported|available|exist)/i.test(text)
}
