import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { openHead } from '../chain/head.ts'
import type { Hex } from '../ids.ts'
import { networkSeconds } from './network-clock.ts'
import { systemClock } from '../clock.ts'

const HASH: Hex = `0x${'ab'.repeat(32)}`
const blockAt = (timestamp: number) => ({ number: 7, hash: HASH, parentHash: HASH, timestamp, baseFee: null })

test('the time of a network is that of its newest block and what passed since, or the one here where that is later', () => {
  let passed = 0
  const clock = { ...systemClock, wall: () => 1_000_000_000 + passed, ticks: () => passed }
  const head = openHead(clock)
  const app = { clock }
  assert.equal(networkSeconds(app, { head }), 1_000_000)
  head.set(blockAt(1_000_700))
  assert.equal(networkSeconds(app, { head }), 1_000_700)
  passed = 30_999
  assert.equal(networkSeconds(app, { head }), 1_000_730)
  const behind = openHead(clock)
  behind.set(blockAt(999_000))
  assert.equal(networkSeconds(app, { head: behind }), 1_000_030)
})
