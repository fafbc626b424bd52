import type { Chain, Verification } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/failures.ts'
import { slot } from '../state.ts'
import type { Provability } from './prove.ts'

/** How blocks are fetched, and how far responses are verified. */
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

/**
 * Returns how to ask the nodes of a network. Whether its blocks can be verified is remembered for the whole process.
 */
export function sourceOf(chain: Chain): ReceiptSource {
  return { hasBlockReceipts: true, verification: chain.verification, provability: learned.of(chain) }
}

/** Returns how a node is read, as far as known. */
export function readsFrom(source: ReceiptSource): ReadFrom {
  if (source.hasBlockReceipts && (source.nulls ?? 0) < MAX_NULLS) return 'block receipts'
  return mayAskForLogs(source) ? 'logs' : 'receipts'
}

/**
 * Returns whether logs may replace receipts: only if the header's filter shows a missing log. Mode `hash` needs all
 * receipts for their root, and in mode `count` nothing would show it.
 */
export const mayAskForLogs = ({ verification, hasBlockLogs = true }: ReceiptSource): boolean =>
  verification === 'bloom' && hasBlockLogs

/**
 * Consecutive nulls after which receipts are fetched one by one: a node that is briefly late responds with null as
 * well.
 */
export const MAX_NULLS = 3

/**
 * Returns whether a node lacks a method. Some support it only by number, and reject a hash as an invalid parameter. An
 * error that names a block or its state concerns that block only.
 */
export function lacksMethod(answer: unknown): boolean {
  if (!(answer instanceof RpcError)) return false
  const text = answer.message.replace(/(eth|debug|trace)_\w+/g, '')
  if (/header|block|resource|state/i.test(text)) return false
  return [-32601, -32602].includes(answer.rpcCode) || /not (found|supported|available|exist)/i.test(text)
}
