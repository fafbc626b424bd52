import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openSeenProofs } from './seen-proofs.ts'

const NOW = Date.UTC(2026, 0, 31, 12) / 1_000
const at = (iat: number, now = NOW) => ({ iat, now: now * 1_000 })

test('a proof is taken once, also when the clock was put back in between', () => {
  const seen = openSeenProofs()
  assert.equal(seen.use('a', at(NOW)), 'first')
  assert.equal(seen.use('a', at(NOW, NOW + 299)), 'again')
  assert.equal(seen.use('a', at(NOW, NOW - 3_600)), 'again')
  assert.equal(seen.use('b', at(NOW)), 'first')
})

test('nor twice by a clock that was ahead for a while and put back, which costs the minutes that were forgotten', () => {
  const seen = openSeenProofs()
  assert.equal(seen.use('a', at(NOW)), 'first')
  assert.equal(seen.use('b', at(NOW + 600, NOW + 600)), 'first')
  assert.equal(seen.use('a', at(NOW, NOW + 1)), 'forgotten')
  assert.equal(seen.use('c', at(NOW + 59, NOW + 59)), 'forgotten')
  assert.equal(seen.use('c', at(NOW + 60, NOW + 60)), 'first')
  assert.equal(seen.use('b', at(NOW + 600, NOW + 600)), 'again')
})

test('a proof is remembered for as long as it is good, whenever it was used, and then no longer', () => {
  for (let second = 0; second < 60; second++) {
    const [now, seen] = [NOW + second, openSeenProofs()]
    assert.equal(seen.use('ahead', at(now + 60, now)), 'first')
    assert.equal(seen.use('other', at(now + 360, now + 360)), 'first')
    assert.equal(seen.use('ahead', at(now + 60, now + 360)), 'again')
  }
  const small = openSeenProofs({ most: 2 })
  for (let minute = 0; minute < 100; minute += 7)
    assert.equal(small.use(`m${minute}`, at(NOW + minute * 60, NOW + minute * 60)), 'first', String(minute))
})

test('where more come than are remembered, nothing that may have been used is taken for new', () => {
  const seen = openSeenProofs({ most: 3 })
  assert.equal(seen.use('old', at(NOW - 240)), 'first')
  assert.equal(seen.use('older', at(NOW - 290)), 'first')
  assert.equal(seen.use('now', at(NOW)), 'first')
  assert.equal(seen.use('next', at(NOW)), 'first', 'the oldest minute made room')
  assert.equal(seen.use('older', at(NOW - 290)), 'forgotten')
  assert.equal(seen.use('fresh but of that minute', at(NOW - 270)), 'forgotten')
  assert.equal(seen.use('old', at(NOW - 240)), 'again', 'the others are still known')
  assert.equal(seen.use('third', at(NOW)), 'first')
  assert.equal(seen.use('fourth', at(NOW)), 'full', 'what is good for a while makes no room')
  assert.equal(seen.use('fourth', at(NOW + 60, NOW + 60)), 'first', 'a minute later there is some again')
  assert.equal(seen.use('now', at(NOW, NOW + 61)), 'forgotten')
})
