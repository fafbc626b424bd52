import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KeptBlock } from '../follower/block.ts'
import type { Hex } from '../ids.ts'
import { addressOf, logOf } from '../../test/nodes/scripted-chain.ts'
import { findTransfers } from './rows.ts'

test('what a transaction logged is a transfer where it succeeded, and where only its logs are known; of a failed one nothing is', () => {
  const coin = (value: bigint) => ({
    ...logOf({
      type: 'ERC20',
      token: addressOf(0x70),
      from: addressOf(1),
      to: addressOf(2),
      items: [{ id: null, value }],
    }),
    logIndex: Number(value),
  })
  const receipt = (value: bigint, status: boolean | null) => ({
    ...{ transactionHash: `0x${String(value).repeat(64)}` as Hex, from: addressOf(3), status, logs: [coin(value)] },
  })
  const receipts = [receipt(1n, true), receipt(2n, false), receipt(3n, null)]
  const block = { number: 7, hash: `0x${'22'.repeat(32)}` as Hex, timestamp: 5, receipts } as unknown as KeptBlock
  const found = findTransfers(block).map(({ value, hash, sentBy }) => ({ value, hash: hash.slice(0, 3), sentBy }))
  assert.deepEqual(found, [
    { value: 1n, hash: '0x1', sentBy: addressOf(3) },
    { value: 3n, hash: '0x3', sentBy: addressOf(3) },
  ])
})
