import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { openHead } from '../../chain/head.ts'
import type { Hex } from '../../ids.ts'
import { AppError } from '../../errors.ts'
import { namingClocks, networkSeconds } from './network-clock.ts'
import { systemClock } from '../../clock.ts'

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

test('that clocks disagree is told with the signer’s, the network’s and the server’s, and logged; other errors stay as they are', () => {
  const clock = { ...systemClock, wall: () => 1_000_000_000_000 }
  const head = openHead(clock)
  head.set(blockAt(1_000_007_200))
  const logged: unknown[] = []
  const telemetry = { log: { error: (event: string, fields: unknown) => void logged.push([event, fields]) } }
  const app = { clock, telemetry } as never
  const chain = { chainId: 5, name: 'five', head } as never
  const other = new AppError('policy_denied', 'No.')
  assert.equal(namingClocks(app, chain, other), other)
  assert.deepEqual(logged, [])
  const named = namingClocks(app, chain, new AppError('clocks_apart', 'The signer’s clock reads noon.'))
  assert.ok(named instanceof AppError)
  assert.deepEqual([named.code, named.statusCode, named.retryAfter], ['clocks_apart', 503, 60])
  for (const part of [
    'reads noon',
    'five is of 2001-09-09T03:46:40.000Z',
    'server’s clock reads 2001-09-09T01:46:40.000Z',
  ])
    assert.ok(named.message.includes(part), named.message)
  assert.deepEqual(logged, [['clocks_apart', { chainId: 5, network: '2001-09-09T03:46:40.000Z', server: '2001-09-09T01:46:40.000Z', signer: 'The signer’s clock reads noon.' }]]) // prettier-ignore
})
