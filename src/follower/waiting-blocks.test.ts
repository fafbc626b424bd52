import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hex } from '../ids.ts'
import type { FollowedBlock } from './block.ts'
import { WaitingBlocks } from './waiting-blocks.ts'

const hashOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

function blockOf(number: number, { hash = hashOf(number), bytes = 0 } = {}): FollowedBlock {
  const log = { address: '0x' as Hex, topics: [], data: `0x${'00'.repeat(bytes)}` as Hex, logIndex: 0 }
  return {
    ...{ number, hash, parentHash: hashOf(number - 1), timestamp: 0, baseFee: null },
    receipts: [{ transactionHash: '0x', from: '0x', status: null, logs: [log] }],
    prove: () => Promise.reject(new Error('not proven again')),
  }
}

test('blocks wait by number and hash, without what proves them, until they are in the history', () => {
  const waiting = new WaitingBlocks()
  for (let number = 1; number <= 5; number++) waiting.add(blockOf(number))
  assert.deepEqual(waiting.get(3, hashOf(3))!.number, 3)
  assert.ok(!('prove' in waiting.get(3, hashOf(3))!))
  assert.equal(waiting.get(3, hashOf(99)), null)
  assert.equal(waiting.get(6, hashOf(6)), null)
  // A block of another branch with the same number replaces the stored one.
  waiting.add(blockOf(3, { hash: hashOf(99) }))
  assert.deepEqual([waiting.get(3, hashOf(3)), waiting.get(3, hashOf(99))!.number], [null, 3])
  waiting.dropThrough(4)
  assert.deepEqual([waiting.get(4, hashOf(4)), waiting.get(5, hashOf(5))!.number], [null, 5])
})

test('64 of them wait and no more, and there is room again when half of them are gone', () => {
  const waiting = new WaitingBlocks()
  for (let number = 1; number <= 100; number++) waiting.add(blockOf(number))
  assert.deepEqual([waiting.get(64, hashOf(64))!.number, waiting.get(65, hashOf(65))], [64, null])
  assert.equal(waiting.isHalfEmpty, false)
  waiting.dropThrough(31)
  assert.equal(waiting.isHalfEmpty, false)
  waiting.dropThrough(32)
  assert.equal(waiting.isHalfEmpty, true)
  waiting.add(blockOf(65))
  assert.equal(waiting.get(65, hashOf(65))!.number, 65)
})

test('32 MiB of logs wait and no more, however few blocks they are in', () => {
  const waiting = new WaitingBlocks()
  for (let number = 1; number <= 6; number++) waiting.add(blockOf(number, { bytes: 4 * 1_048_576 }))
  // Each block has 8 Mi characters of hexadecimal data, and a little more. So a fourth does not fit.
  const kept = [1, 2, 3, 4, 5, 6].filter((number) => waiting.get(number, hashOf(number)) !== null)
  assert.deepEqual(kept, [1, 2, 3])
  assert.equal(waiting.isHalfEmpty, false)
  waiting.add(blockOf(7, { bytes: 20 * 1_048_576 }))
  assert.equal(waiting.get(7, hashOf(7)), null)
  waiting.dropThrough(2)
  assert.equal(waiting.isHalfEmpty, true)
})
