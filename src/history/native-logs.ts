import { decodeNativeLog, isNativeLog } from '../abi/native-log.ts'
import type { KeptBlock, Log, SentNative } from '../follower/block.ts'
import type { Hex } from '../ids.ts'

/** A transfer that a contract made, in wei. A transaction's transfers are listed in execution order. */
export type InternalTransfer = { from: Hex; to: Hex; value: bigint }

/**
 * Reads the internal transfers of a transaction from its native currency logs (EIP-7708). The transaction's own value
 * is logged before anything else, so such a first log is skipped.
 */
export function readNativeLogs(
  { logs }: { logs: readonly Log[] },
  own: { from: Hex; to: Hex | null; value: bigint },
): InternalTransfer[] {
  const moved = logs.flatMap((log) => decodeNativeLog(log) ?? [])
  return isOwn(moved[0], own) ? moved.slice(1) : moved
}

/** Returns whether the first log is the transaction's own value. A transfer to oneself is not logged. */
const isOwn = (
  first: InternalTransfer | undefined,
  { from, to, value }: { from: Hex; to: Hex | null; value: bigint },
) => first !== undefined && value > 0n && from !== to && first.from === from && first.to === to && first.value === value

/**
 * Returns whether the network logs native currency transfers, as proven by a block with a transaction that moves value;
 * null if the block has no such transaction.
 */
export function logsNative({ receipts }: KeptBlock, sent: readonly SentNative[]): boolean | null {
  for (const [index, { status, logs }] of receipts.entries()) {
    if (logs.some(isNativeLog)) return true
    const { from, to, value } = sent[index]!
    if (status === true && value > 0n && to !== null && from !== to) return false
  }
  return null
}
