import assert from 'node:assert/strict'
import { syncBuiltinESMExports } from 'node:module'
import { test, type TestContext } from 'node:test'
import { openExpensiveCalls } from '../chain/rpc/expensive-calls.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import { pacedRpc } from './paced-rpc.ts'

/** A node that notes how many requests it has at once, and answers the third with a failure. */
function node() {
  const seen = { atOnce: 0, most: 0, requests: 0 }
  const answer = async () => {
    seen.requests++
    seen.most = Math.max(seen.most, ++seen.atOnce)
    await new Promise((resolve) => setImmediate(resolve))
    seen.atOnce--
    if (seen.requests === 3) throw new Error('away')
    return []
  }
  const rpc: Rpc = { call: async () => (await answer()) as never, batch: answer, expensive: openExpensiveCalls(), close: () => {} } // prettier-ignore
  return { rpc, seen }
}
const CALL = { method: 'eth_chainId', params: [] }

/** A clock that stands still until it is put forward, for whoever pauses and whoever measures. */
function clock(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.timers.reset()
    syncBuiltinESMExports()
  })
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const settled = async () => {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    /** the node takes so long */
    takes: (ms: number) => void (now += ms),
    passes: async (ms: number) => {
      await settled()
      now += ms
      t.mock.timers.tick(ms)
      await settled()
    },
  }
}

test('asks one request at a time, no more calls a second than it may, and a failure is no end', async (t) => {
  const { passes } = clock(t)
  const { rpc, seen } = node()
  const paced = pacedRpc(rpc, { callsPerSecond: 200, stopping: new AbortController().signal })
  const all = Promise.allSettled([
    paced.batch([CALL, CALL, CALL, CALL]),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
  ])
  await passes(0)
  // Four calls of 200 a second are 20 ms; one is 5.
  for (const [ms, requests] of [
    [19, 1],
    [1, 2],
    [4, 2],
    [1, 3],
    [4, 3],
    [1, 4],
  ] as const) {
    await passes(ms)
    assert.deepEqual(seen, { atOnce: 0, most: 1, requests })
  }
  assert.deepEqual(
    (await all).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
})

test('rests as long as the node took to answer', async (t) => {
  const { passes, takes } = clock(t)
  const { rpc, seen } = node()
  const slow = { ...rpc, batch: async (calls: (typeof CALL)[]) => (takes(700), rpc.batch(calls)) }
  const paced = pacedRpc(slow, { callsPerSecond: 200, stopping: new AbortController().signal })
  const both = [paced.batch([CALL]), paced.batch([CALL])]
  await passes(0)
  for (const [ms, requests] of [
    [699, 1],
    [1, 2],
  ] as const) {
    await passes(ms)
    assert.equal(seen.requests, requests)
  }
  await Promise.all(both)
})

test('asks nothing any more once it is stopped, also while it waits for its turn', async () => {
  const { rpc, seen } = node()
  const stopping = new AbortController()
  const paced = pacedRpc(rpc, { callsPerSecond: 0.001, stopping: stopping.signal })
  await paced.call('eth_chainId', [])
  const waiting = [paced.call('eth_chainId', []), paced.batch([CALL])]
  stopping.abort()
  for (const one of waiting) await assert.rejects(one, { name: 'AbortError' })
  assert.equal(seen.requests, 1)
})
