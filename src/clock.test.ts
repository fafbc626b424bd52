import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stoppedClock } from '../test/kit/clock.ts'
import { every, systemClock } from './clock.ts'

test('rounds come one at a time, so many milliseconds after the end of the one before, and none after the end', async () => {
  const clock = stoppedClock()
  const gates: (() => void)[] = []
  const { round, current, stop } = every(clock, 1_000, () => new Promise<void>((resolve) => gates.push(resolve)))
  await clock.advance(999)
  assert.equal(gates.length, 0)
  await clock.advance(1)
  assert.equal(gates.length, 1)
  assert.equal(round(), current(), 'asked for during one, it is that one')
  await clock.advance(5_000)
  assert.equal(gates.length, 1)
  gates[0]!()
  await clock.advance(1_000)
  assert.equal(gates.length, 2)
  let isStopped = false
  const stopped = stop().then(() => (isStopped = true))
  await clock.advance(0)
  assert.equal(isStopped, false, 'the last round is waited for')
  gates[1]!()
  await stopped
  assert.deepEqual([clock.sleepers(), current()], [0, null])
})

test('a round says when the next is due, and one that fails is followed by another', async () => {
  const clock = stoppedClock()
  const failures: unknown[] = []
  let rounds = 0
  const { round, stop } = every(
    clock,
    1_000,
    async () => {
      rounds++
      if (rounds === 2) throw new Error('away')
      return rounds === 1 ? 10 : undefined
    },
    (error) => failures.push(error),
  )
  await round()
  await clock.advance(10)
  assert.deepEqual([rounds, String(failures)], [2, 'Error: away'])
  await clock.advance(1_000)
  assert.equal(rounds, 3)
  await stop()
})

test('a sleep ends with its signal, by the reason of that', async () => {
  for (const clock of [systemClock, stoppedClock()]) {
    const stopping = new AbortController()
    const sleeping = clock.sleep(60_000, stopping.signal)
    stopping.abort()
    await assert.rejects(sleeping, { name: 'AbortError' })
    await assert.rejects(clock.sleep(1, stopping.signal), { name: 'AbortError' })
  }
})

test('a test clock wakes who sleeps in the order of their times, each at its own', async () => {
  const clock = stoppedClock()
  const woken: [string, number][] = []
  const wake = (name: string) => () => void woken.push([name, clock.ticks()])
  void clock.sleep(30).then(wake('late'))
  clock.after(10, () => {
    wake('early')()
    clock.after(5, wake('again'))
  })
  clock.after(20, wake('cancelled')).cancel()
  const before = clock.wall()
  await clock.advance(40)
  assert.deepEqual(woken, [['early', 10], ['again', 15], ['late', 30]]) // prettier-ignore
  assert.deepEqual([clock.ticks(), clock.wall() - before], [40, 40])
})
