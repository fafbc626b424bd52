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

/** What moved native currency. `FEE` leaves for nobody: what is burned and what the block's maker gets are one entry. */
export type NativeKind = 'FEE' | 'VALUE' | 'MINT' | 'INTERNAL' | 'WITHDRAWAL' | 'REWARD'

/** A transfer of native currency in the chain, never of nothing. `value` in wei. */
export type FoundNative = {
  from: Hex
  to: Hex
  value: bigint
  /** of the transaction; of what no transaction made, that of the block */
  hash: Hex
  logIndex: number
  batchIndex: number
}

/**
 * The position of entries without a log in the order of a block: behind all of its logs. Those of a transaction at the first plus its place
 * in the block, by what they are and then as they were made; then the withdrawals, then the reward.
 */
export const FIRST_NATIVE = LOG_PLACES
export const FIRST_WITHDRAWAL = 2_000_000_000
const REWARD_PLACE = 2_100_000_000
export const FEE_PLACE = 0
export const VALUE_PLACE = 1
const MINT_PLACE = 2
const FIRST_INTERNAL = 3

/** The address zero: fees go to it, and what comes from no account comes from it. */
export const NOBODY: Hex = `0x${'0'.repeat(40)}`

/** What an entry is, by its place: it needs no column. */
export function kindOf({ logIndex, batchIndex }: { logIndex: number; batchIndex: number }): NativeKind {
  if (logIndex >= REWARD_PLACE) return 'REWARD'
  if (logIndex >= FIRST_WITHDRAWAL) return 'WITHDRAWAL'
  return batchIndex >= FIRST_INTERNAL ? 'INTERNAL' : (['FEE', 'VALUE', 'MINT'] as const)[batchIndex]!
}

/**
 * The transfers of native currency of a whole block.
 * @param native     with whole transactions
 * @param receipts  by place; a receipt whose outcome is not known says nothing of value and fee, and is not here
 * @param internal  by place, from traces; null: from logs as EIP-7708 has them, where there are any, or not known
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
    // Also what a call of it that failed brings.
    add({ ...place, batchIndex: MINT_PLACE, from: NOBODY, to: from, value: minted })
    if (receipt.status === null) continue
    const price = receipt.effectiveGasPrice || (sent.gasPrice ?? 0n)
    const gas = BigInt(receipt.gasUsed)
    const fee = gas * price + (receipt.extraFeeWei ?? 0n)
    // What failed has paid for it, too.
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
