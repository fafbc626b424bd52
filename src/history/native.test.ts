import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BlockNative, KeptBlock, Receipt, SentNative } from '../follower/block.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { findNative, kindOf } from './native.ts'

const [ALICE, BOB, MINER] = [addressOf(0xa1), addressOf(0xb0b), addressOf(0xe1)]
const wordOf = (number: number): Hex => `0x${wordDigits(BigInt(number))}`

test('the price of a receipt counts, and where an old one has none that of its transaction: for the fee, and for the reward', () => {
  const sent = (number: number, gasPrice: bigint | null): SentNative => ({
    ...{ hash: wordOf(number), from: ALICE, to: BOB, value: 5n, gasPrice, minted: 0n },
  })
  const receipt = (number: number, effectiveGasPrice: bigint): Receipt => ({
    ...{ transactionHash: wordOf(number), from: ALICE, to: BOB, status: true, gasUsed: 21_000, effectiveGasPrice },
    ...{ contractAddress: null, logs: [] },
  })
  const native: BlockNative & { sent: SentNative[] } = { miner: MINER, withdrawals: [], sent: [sent(1, 9n), sent(2, 7n), sent(3, null)] } // prettier-ignore
  const block = { number: 7, hash: wordOf(7), baseFee: null } as KeptBlock
  const receipts = [receipt(1, 8n), receipt(2, 0n), receipt(3, 0n)]
  const found = findNative(block, native, { receipts, internal: null })
  assert.deepEqual(found.map((one) => [kindOf(one), one.value]), [
    ['FEE', 8n * 21_000n],
    ['VALUE', 5n],
    ['FEE', 7n * 21_000n],
    ['VALUE', 5n],
    ['VALUE', 5n],
    ['REWARD', 15n * 21_000n],
  ]) // prettier-ignore
})
