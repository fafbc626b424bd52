import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openExpensiveCalls } from '../chain/rpc/expensive-calls.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import { pacedRpc } from './paced-rpc.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

/** A node that counts its concurrent requests, and fails the third one. */
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

test('asks one request at a time, no more calls a second than it may, and a failure is no end', async () => {
  const clock = stoppedClock()
  const { rpc, seen } = node()
  const paced = pacedRpc(rpc, { clock, callsPerSecond: 200, stopping: new AbortController().signal })
  const all = Promise.allSettled([
    paced.batch([CALL, CALL, CALL, CALL]),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
  ])
  await clock.advance(0)
  // At 200 calls a second, four calls take 20 ms, and one takes 5 ms.
  for (const [ms, requests] of [
    [19, 1],
    [1, 2],
    [4, 2],
    [1, 3],
    [4, 3],
    [1, 4],
  ] as const) {
    await clock.advance(ms)
    assert.deepEqual(seen, { atOnce: 0, most: 1, requests })
  }
  assert.deepEqual(
    (await all).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
})

test('rests as long as the node took to answer', async () => {
  const clock = stoppedClock()
  const { rpc, seen } = node()
  const slow = {
    ...rpc,
    batch: async (calls: (typeof CALL)[]) => {
      const answer = rpc.batch(calls)
      await clock.advance(700)
      return answer
    },
  }
  const paced = pacedRpc(slow, { clock, callsPerSecond: 200, stopping: new AbortController().signal })
  const both = [paced.batch([CALL]), paced.batch([CALL])]
  await both[0]
  for (const [ms, requests] of [
    [699, 1],
    [1, 2],
  ] as const) {
    await clock.advance(ms)
    assert.equal(seen.requests, requests)
  }
  await Promise.all(both)
})

test('asks nothing any more once it is stopped, also while it waits for its turn', async () => {
  const { rpc, seen } = node()
  const stopping = new AbortController()
  const paced = pacedRpc(rpc, { clock: stoppedClock(), callsPerSecond: 0.001, stopping: stopping.signal })
  await paced.call('eth_chainId', [])
  const waiting = [paced.call('eth_chainId', []), paced.batch([CALL])]
  stopping.abort()
  for (const one of waiting) await assert.rejects(one, { name: 'AbortError' })
  assert.equal(seen.requests, 1)
})
