import assert from 'node:assert/strict'
import { test } from 'node:test'
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

test('asks one request at a time, no more calls a second than it may, and a failure is no end', async () => {
  const { rpc, seen } = node()
  const paced = pacedRpc(rpc, { callsPerSecond: 200, stopping: new AbortController().signal })
  const since = performance.now()
  const all = await Promise.allSettled([
    paced.batch([CALL, CALL, CALL, CALL]),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
    paced.call('eth_chainId', []),
  ])
  assert.deepEqual(
    all.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
  // Four calls, one and one before the last: 30 ms of 200 a second; a timer may be 1 ms early each time.
  assert.ok(performance.now() - since >= 27, `${performance.now() - since}`)
  assert.deepEqual(seen, { atOnce: 0, most: 1, requests: 4 })
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
