import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomOf } from '../../../test/random.ts'
import { charge, countFrom, usedIn, windowFromText, windowToText, type MeterWindow } from './window.ts'

const HOUR = 3_600

/** What any span of `period` may hold, by each charge alone: no buckets, no sums that are kept. */
function mostInAnySpan(charges: { at: number; amount: bigint }[], period: number): bigint {
  let most = 0n
  for (const { at: start } of charges) {
    const sum = charges
      .filter(({ at }) => at >= start && at < start + period * 1_000)
      .reduce((total, { amount }) => total + amount, 0n)
    if (sum > most) most = sum
  }
  return most
}

test('in 2,000 seeded schedules no span of the period holds more than the limit, and none is refused that fits a longer one', () => {
  for (let seed = 0; seed < 2_000; seed++) {
    const random = randomOf(seed)
    const limit = BigInt(1 + random(100))
    const charged: { at: number; amount: bigint }[] = []
    let window: MeterWindow | null = null
    let at = 1_700_000_000_000 + random(HOUR * 1_000)
    // The time of the newest charge: a clock that was set back frees nothing.
    let newest = -Infinity
    for (let step = 0; step < 60; step++) {
      at += random(10) === 0 ? -random(3 * HOUR * 1_000) : random(random(4) === 0 ? 2 * HOUR * 1_000 : 90_000)
      const amount = BigInt(random(40))
      const { used } = usedIn(window, { at, period: HOUR })
      const time = Math.max(at, newest)
      const span = (ms: number) => charged.filter((one) => one.at > time - ms).reduce((sum, one) => sum + one.amount, 0n) // prettier-ignore
      assert.ok(used >= span(HOUR * 1_000), `seed ${seed}: ${used} used, and ${span(HOUR * 1_000)} within the hour`)
      assert.ok(used <= span(HOUR * 1_000 + 120_000), `seed ${seed}: more counts than the hour and two buckets`)
      if (used + amount > limit) continue
      if (amount === 0n) continue
      window = charge(window, { at, period: HOUR, amount })
      newest = time
      charged.push({ at: time, amount })
      window = windowFromText(windowToText(window))
      assert.ok(window.buckets.length <= 61)
    }
    assert.ok(mostInAnySpan(charged, HOUR) <= limit, `seed ${seed}`)
  }
})

test('what is used counts for its period to the millisecond, and at most two buckets longer', () => {
  const at = 1_700_000_000_123
  const window = charge(null, { at, period: HOUR, amount: 5n })
  assert.equal(usedIn(window, { at: at + HOUR * 1_000 - 1, period: HOUR }).used, 5n)
  const { resetsAt } = usedIn(window, { at, period: HOUR })
  assert.equal(usedIn(window, { at: resetsAt! - 1, period: HOUR }).used, 5n)
  assert.deepEqual(usedIn(window, { at: resetsAt!, period: HOUR }), { used: 0n, resetsAt: null })
  assert.ok(resetsAt! - at <= (HOUR + 60) * 1_000)
})

test('another period begins with what the old one still holds', () => {
  const at = 1_700_000_000_000
  let window = charge(null, { at, period: HOUR, amount: 5n })
  assert.equal(usedIn(window, { at, period: 86_400 }).used, 5n)
  window = charge(window, { at: at + 60_000, period: 86_400, amount: 2n })
  assert.equal(usedIn(window, { at: at + 20 * HOUR * 1_000, period: 86_400 }).used, 7n)
  assert.equal(usedIn(window, { at: at + 26 * HOUR * 1_000, period: 86_400 }).used, 0n)
  assert.equal(charge(window, { at: at + 26 * HOUR * 1_000, period: HOUR, amount: 1n }).buckets.length, 1)
})

test('a period that was shortened or lengthened frees what is older than it, and nothing that is not', () => {
  const at = 1_700_000_000_000
  const day = charge(null, { at, period: 24 * HOUR, amount: 5n })
  assert.equal(usedIn(day, { at: at + (HOUR - 1) * 1_000, period: HOUR }).used, 5n)
  const { resetsAt } = usedIn(day, { at, period: HOUR })
  assert.ok(resetsAt! <= at + (HOUR + 24 * 60 + 60) * 1_000, 'a bucket of the day and one of the hour late')
  for (const later of [0, 600_000, HOUR * 1_000])
    assert.equal(usedIn(day, { at: at + later, period: HOUR }).resetsAt, resetsAt)
  assert.equal(usedIn(day, { at: resetsAt! - 1, period: HOUR }).used, 5n)
  assert.deepEqual(usedIn(day, { at: resetsAt!, period: HOUR }), { used: 0n, resetsAt: null })
  // Each bucket at its own time, not all at the newest.
  const later = charge(day, { at: at + 10 * HOUR * 1_000, period: 24 * HOUR, amount: 7n })
  assert.equal(usedIn(later, { at: at + 10 * HOUR * 1_000, period: HOUR }).used, 7n)

  for (let seed = 0; seed < 500; seed++) {
    const random = randomOf(seed)
    const periods = [HOUR, 24 * HOUR, 7 * 24 * HOUR]
    let [time, window, period] = [at, null as MeterWindow | null, periods[random(3)]!]
    const charged: { at: number; amount: bigint; period: number }[] = []
    for (let step = 0; step < 80; step++) {
      time += random(2 * period * 20)
      if (random(20) === 0) period = periods[random(3)]!
      const { used } = usedIn(window, { at: time, period })
      // What an earlier, shorter period had let go of is gone.
      const shortest = (since: number) => Math.min(period, ...charged.slice(since).map((one) => one.period))
      const kept = charged.filter((one, index) => one.at > time - shortest(index) * 1_000)
      const least = kept.reduce((sum, one) => sum + one.amount, 0n)
      assert.ok(used >= least, `seed ${seed}: ${used} used, and ${least} within the period`)
      const amount = BigInt(1 + random(40))
      window = charge(window, { at: time, period, amount })
      assert.ok(window.buckets.length <= 61)
      charged.push({ at: time, amount, period })
    }
  }
})

test('what is dated by a clock that was ahead counts from a time, all of it and in the order it was', () => {
  const at = 1_700_000_000_000
  let window = charge(null, { at: at - 600_000, period: HOUR, amount: 1n })
  window = charge(window, { at: at + 86_400_000, period: HOUR, amount: 2n })
  window = charge(window, { at: at + 86_400_000 + 120_000, period: HOUR, amount: 4n })
  const counted = countFrom(window, at)
  assert.equal(usedIn(counted, { at: at + (HOUR - 1) * 1_000, period: HOUR }).used, 6n)
  assert.equal(usedIn(counted, { at: at + (HOUR + 60) * 1_000, period: HOUR }).used, 0n)
  assert.equal(countFrom(counted, at), counted)
})
