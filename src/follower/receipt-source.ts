import type { Chain, Verification } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/failures.ts'
import { slot } from '../state.ts'
import type { Provability } from './prove.ts'

/** How blocks are asked for and how far answers are believed. */
export type ReceiptSource = {
  /** answers in a row that were null, or an error of the block */ nulls?: number
  hasBlockReceipts: boolean
  /** whether the node answers eth_getLogs of one block by its hash; until it says no, yes */ hasBlockLogs?: boolean
  verification: Verification
  provability?: Provability
}

/** What the results of a block are read from. `receipts`: one for each transaction, each by a call of its own. */
export type ReadFrom = 'block receipts' | 'logs' | 'receipts'

const learned = slot('whether blocks can be proven', (_chain: Chain): Provability => ({ wasProven: false, doubts: 0 }))

/** How to ask the nodes of a network; what is learned of whether its blocks can be proven is learned for the whole process. */
export function sourceOf(chain: Chain): ReceiptSource {
  return { hasBlockReceipts: true, verification: chain.verification, provability: learned.of(chain) }
}

/** How a node is read, as far as that is known yet. */
export function readsFrom(source: ReceiptSource): ReadFrom {
  if (source.hasBlockReceipts && (source.nulls ?? 0) < MAX_NULLS) return 'block receipts'
  return mayAskForLogs(source) ? 'logs' : 'receipts'
}

/**
 * Only where a filter in the header shows that a log was left out. `hash` needs every receipt for their root, and in `count` nothing would
 * show it.
 */
export const mayAskForLogs = ({ verification, hasBlockLogs = true }: ReceiptSource): boolean =>
  verification === 'bloom' && hasBlockLogs

/** Nulls in a row after which receipts are asked for one by one: a node that is a moment late says null, too. */
export const MAX_NULLS = 3

/** Also nodes that know the method by number only: they call a hash a wrong parameter. What a node lacks of one block is said of the block, or of its state. */
export function lacksMethod(answer: unknown): boolean {
  if (!(answer instanceof RpcError)) return false
  const text = answer.message.replace(/(eth|debug|trace)_\w+/g, '')
  if (/header|block|resource|state/i.test(text)) return false
  return [-32601, -32602].includes(answer.rpcCode) || /not (found|supported|available|exist)/i.test(text)
}
