import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openLimit } from './limits.ts'

test('a clock that is put back by an hour refuses nobody for that hour, and gives nothing away', () => {
  let at = 7_200_000
  const limit = openLimit({ name: 'reads', perSecond: 1, burst: 2, now: () => at })
  assert.equal(limit.take('alice', 2).allowed, true)
  at -= 3_600_000
  assert.deepEqual(limit.take('alice'), { allowed: false, remaining: 0, retryAfter: 1 })
  at += 1_000
  assert.equal(limit.take('alice').allowed, true)
  assert.equal(limit.take('alice').allowed, false)
  at -= 10
  at += 1_010
  assert.equal(limit.take('alice').allowed, true)
})

test('who is refused waits no longer for having asked, and what another limit refused is put back', () => {
  let at = 0
  const limit = openLimit({ name: 'writes', perSecond: 5, burst: 20, now: () => at })
  for (let n = 0; n < 20; n++) assert.equal(limit.take('alice').allowed, true)
  for (let n = 0; n < 1_000; n++) assert.equal(limit.take('alice').allowed, false)
  at += 200
  assert.deepEqual([limit.take('alice').allowed, limit.take('alice').allowed], [true, false])
  limit.giveBack('alice')
  assert.deepEqual([limit.take('alice').allowed, limit.take('alice').allowed], [true, false])
  limit.giveBack('nobody')
  assert.equal(limit.take('nobody').remaining, 19)
})
