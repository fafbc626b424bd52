import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collected, MAX_WAITING } from './batch.ts'
import { RpcUnavailable } from './failures.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'

test('what waits for a node that answers nothing is bounded, and those beyond are refused at once', async () => {
  const { promise: never, resolve: answer } = Promise.withResolvers<unknown[]>()
  let batches = 0
  const call = collected(
    (calls) => {
      batches++
      return batches <= 4 ? (never as never) : Promise.resolve(calls.map(() => 'late') as never)
    },
    { clock: stoppedClock(), timeoutMs: 1_000 },
  )
  const inFlight = Array.from({ length: 200 }, () => call('eth_call', []))
  await new Promise((resolve) => setImmediate(resolve))
  const waiting = Array.from({ length: MAX_WAITING }, () => call('eth_call', []))
  await assert.rejects(call('eth_call', []), RpcUnavailable)
  answer(Array(50).fill('first'))
  assert.deepEqual(new Set(await Promise.all(inFlight)), new Set(['first']))
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set(['late']))
  assert.equal(await call('eth_call', []), 'late')
})
