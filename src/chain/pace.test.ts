import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPace } from './pace.ts'

const paceOf = (timestamps: number[], first = 1) => {
  const pace = openPace()
  timestamps.forEach((timestamp, index) => pace.note({ number: first + index, timestamp }))
  return pace
}
const every = (seconds: number, count: number) => Array.from({ length: count }, (_, index) => 1_000 + index * seconds)

test('the shortest time between two blocks is known after eight of them', () => {
  assert.equal(paceOf(every(12, 8)).intervalMs(), null)
  assert.equal(paceOf(every(12, 9)).intervalMs(), 12_000)
  const missed = every(12, 20).map((timestamp, index) => (index < 10 ? timestamp : timestamp + 12))
  assert.equal(paceOf(missed).intervalMs(), 12_000)
})

test('one or two blocks that came early say nothing, a third counts as long as it is among the last thirty-two', () => {
  const pace = paceOf(every(12, 40))
  let timestamp = 1_000 + 39 * 12
  let number = 40
  const next = (seconds: number) => pace.note({ number: ++number, timestamp: (timestamp += seconds) })
  next(3)
  next(11)
  assert.equal(pace.intervalMs(), 12_000)
  next(4)
  assert.equal(pace.intervalMs(), 11_000)
  next(0)
  assert.equal(pace.intervalMs(), 4_000)
  for (let count = 0; count < 28; count++) next(12)
  assert.equal(pace.intervalMs(), 4_000)
  next(12)
  assert.equal(pace.intervalMs(), 11_000)
  next(12)
  assert.equal(pace.intervalMs(), 12_000)
})

test('several blocks a second, or timestamps that go back, say nothing; an hour between blocks counts as fifteen seconds', () => {
  assert.equal(paceOf([...every(2, 10), 1_018]).intervalMs(), null)
  assert.equal(paceOf([...every(2, 10), 500]).intervalMs(), null)
  assert.equal(paceOf(Array.from({ length: 40 }, (_, index) => index >> 2)).intervalMs(), null)
  assert.equal(paceOf(every(3_600, 20)).intervalMs(), 15_000)
  assert.equal(paceOf(every(2, 20).map((timestamp) => timestamp * Number.NaN)).intervalMs(), null)
})

test('blocks that were passed over, and those of another chain of the same numbers, are no neighbours', () => {
  const pace = openPace()
  for (let number = 0; number < 100; number += 2) pace.note({ number, timestamp: number * 12 })
  assert.equal(pace.intervalMs(), null)
  const forked = paceOf(every(12, 20))
  forked.note({ number: 20, timestamp: 1_000 })
  forked.note({ number: 19, timestamp: 1_229 })
  assert.equal(forked.intervalMs(), 12_000)
  forked.note({ number: 20, timestamp: 1_241 })
  assert.equal(forked.intervalMs(), 12_000)
})

test('of two blocks of one number the first one counts', () => {
  const pace = paceOf(every(12, 8))
  pace.note({ number: 8, timestamp: 1_089 })
  pace.note({ number: 9, timestamp: 1_096 })
  assert.equal(pace.intervalMs(), 12_000)
})

test('a block is expected as long after its timestamp as the quickest of the last thirty-two was seen', () => {
  const pace = openPace()
  assert.equal(pace.expectedAt({ timestamp: 100 }), null)
  pace.note({ number: 1, timestamp: 100 })
  assert.equal(pace.expectedAt({ timestamp: 100 }), null, 'one that was not seen as the newest says nothing')
  pace.note({ number: 2, timestamp: 112 }, 7_300)
  pace.note({ number: 3, timestamp: 124 }, 19_100)
  pace.note({ number: 4, timestamp: 136 }, 33_000)
  assert.equal(pace.expectedAt({ timestamp: 136 }), 31_100)
  for (let number = 5; number <= 36; number++) pace.note({ number, timestamp: 140 + number }, number * 1_000 + 50_000)
  assert.equal(pace.expectedAt({ timestamp: 200 }), 110_000)
})
