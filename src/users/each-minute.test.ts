import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eachMinute } from './each-minute.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

const MINUTE_MS = 60_000

/** Runs `work` with these results in turn; `told`: the calls of `done` and `failed`. */
function running(answers: (() => number | Promise<number>)[]) {
  const clock = stoppedClock()
  const told: string[] = []
  let begun = 0
  const { stop } = eachMinute({
    clock,
    work: async () => answers[begun++]!(),
    done: (count) => told.push(`did ${count}`),
    failed: (error) => told.push((error as Error).message),
  })
  return { told, stop, minute: () => clock.advance(MINUTE_MS), begun: () => begun }
}

const fail = (message: string) => () => Promise.reject(new Error(message))

test('what was done each minute is told, nothing of nothing, and a failure once until it works again', async () => {
  const { told, stop, minute, begun } = running([
    () => 2,
    () => 0,
    fail('away'),
    fail('still away'),
    () => 1,
    fail('away anew'),
  ])
  for (let n = 0; n < 5; n += 1) await minute()
  await stop()
  await minute()
  assert.equal(begun(), 6)
  assert.deepEqual(told, ['did 2', 'away', 'did 1', 'away anew'])
})

test('what takes longer than a minute is waited for, by the next and by the end, and what waited then is not begun', async () => {
  const { promise: slow, resolve: end } = Promise.withResolvers<number>()
  const { told, stop, minute, begun } = running([() => slow, () => 7])
  await minute()
  await minute()
  assert.equal(begun(), 1)
  const stopped = stop()
  end(3)
  await stopped
  assert.deepEqual([begun(), told], [1, ['did 3']])
})
