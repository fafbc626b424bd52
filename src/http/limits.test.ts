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
