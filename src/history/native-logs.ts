import { decodeNativeLog, isNativeLog } from '../abi/native-log.ts'
import type { KeptBlock, Log, SentNative } from '../follower/block.ts'
import type { Hex } from '../ids.ts'

/** One that a contract made, in wei. Those of a transaction are listed in the order in which they were made. */
export type InternalTransfer = { from: Hex; to: Hex; value: bigint }

/**
 * Internal transfers of a transaction as the chain logs them (EIP-7708): all of its logs of native currency but the first, where that is of its own
 * value, which is logged before anything else.
 */
export function readNativeLogs(
  { logs }: { logs: readonly Log[] },
  own: { from: Hex; to: Hex | null; value: bigint },
): InternalTransfer[] {
  const moved = logs.flatMap((log) => decodeNativeLog(log) ?? [])
  return isOwn(moved[0], own) ? moved.slice(1) : moved
}

/** What is sent to oneself is not logged. */
const isOwn = (
  first: InternalTransfer | undefined,
  { from, to, value }: { from: Hex; to: Hex | null; value: bigint },
) => first !== undefined && value > 0n && from !== to && first.from === from && first.to === to && first.value === value

/**
 * Whether the network logs transfers of native currency: a block that moves value by a transaction says it either way. Null where the block
 * says nothing of it.
 */
export function logsNative({ receipts }: KeptBlock, sent: readonly SentNative[]): boolean | null {
  for (const [index, { status, logs }] of receipts.entries()) {
    if (logs.some(isNativeLog)) return true
    const { from, to, value } = sent[index]!
    if (status === true && value > 0n && to !== null && from !== to) return false
  }
  return null
}
