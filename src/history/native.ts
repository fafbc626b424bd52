import type { Hex } from '../ids.ts'
import {
  LOG_PLACES,
  type BlockNative,
  type KeptBlock,
  type Logged,
  type Receipt,
  type SentNative,
} from '../follower/block.ts'
import { readNativeLogs, type InternalTransfer } from './native-logs.ts'

/**
 * Causes of a native currency transfer. A `FEE` goes to the zero address: the burned part and the block maker's part
 * are one entry.
 */
export type NativeKind = 'FEE' | 'VALUE' | 'MINT' | 'INTERNAL' | 'WITHDRAWAL' | 'REWARD'

/** A transfer of native currency on the chain, never of zero. `value` in wei. */
export type FoundNative = {
  from: Hex
  to: Hex
  value: bigint
  /** hash of the transaction, or of the block if no transaction caused the transfer */
  hash: Hex
  logIndex: number
  batchIndex: number
}

/**
 * `logIndex` of entries without a log, after all logs of the block. For a transaction it is FIRST_NATIVE plus its index
 * in the block; `batchIndex` then orders its entries. Withdrawals and the reward follow.
 */
export const FIRST_NATIVE = LOG_PLACES
export const FIRST_WITHDRAWAL = 2_000_000_000
const REWARD_PLACE = 2_100_000_000
export const FEE_PLACE = 0
export const VALUE_PLACE = 1
const MINT_PLACE = 2
const FIRST_INTERNAL = 3

/** Zero address: recipient of fees, and sender of currency that no account sends. */
export const NOBODY: Hex = `0x${'0'.repeat(40)}`

/** Derives the kind of an entry from its position, so that it needs no column. */
export function kindOf({ logIndex, batchIndex }: { logIndex: number; batchIndex: number }): NativeKind {
  if (logIndex >= REWARD_PLACE) return 'REWARD'
  if (logIndex >= FIRST_WITHDRAWAL) return 'WITHDRAWAL'
  return batchIndex >= FIRST_INTERNAL ? 'INTERNAL' : (['FEE', 'VALUE', 'MINT'] as const)[batchIndex]!
}

/**
 * Finds the native currency transfers of a block.
 * @param native    the block's data, with all transactions
 * @param receipts  by index; a receipt without a known outcome yields no value and no fee
 * @param internal  internal transfers by index, from traces; null: from logs (EIP-7708), if there are any
 */
export function findNative(
  block: KeptBlock,
  native: BlockNative & { sent: SentNative[] },
  { receipts, internal }: { receipts: (Receipt | Logged)[]; internal: InternalTransfer[][] | null },
): FoundNative[] {
  const found: FoundNative[] = []
  const add = (one: FoundNative) => void (one.value > 0n && found.push(one))
  let reward = 0n
  for (const [index, sent] of native.sent.entries()) {
    const { hash, from, to, value, minted } = sent
    const receipt = receipts[index]!
    const place = { hash, logIndex: FIRST_NATIVE + index }
    // A deposit creates currency even if its call fails.
    add({ ...place, batchIndex: MINT_PLACE, from: NOBODY, to: from, value: minted })
    if (receipt.status === null) continue
    const price = receipt.effectiveGasPrice || (sent.gasPrice ?? 0n)
    const gas = BigInt(receipt.gasUsed)
    const fee = gas * price + (receipt.extraFeeWei ?? 0n)
    // A failed transaction also pays its fee.
    add({ ...place, batchIndex: FEE_PLACE, from, to: NOBODY, value: fee })
    const tip = price - (block.baseFee ?? 0n)
    if (tip > 0n) reward += gas * tip
    if (!receipt.status) continue
    const recipient = to ?? receipt.contractAddress
    if (recipient !== null) add({ ...place, batchIndex: VALUE_PLACE, from, to: recipient, value })
    const moved = internal === null ? readNativeLogs(receipt, { from, to: recipient, value }) : internal[index]!
    for (const [count, one] of moved.entries()) add({ ...place, batchIndex: FIRST_INTERNAL + count, ...one })
  }
  for (const [index, { address, value }] of native.withdrawals.entries())
    add({ hash: block.hash, logIndex: FIRST_WITHDRAWAL + index, batchIndex: 0, from: NOBODY, to: address, value })
  if (native.miner !== null)
    add({ hash: block.hash, logIndex: REWARD_PLACE, batchIndex: 0, from: NOBODY, to: native.miner, value: reward })
  return found
}
