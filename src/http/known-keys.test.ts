import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openKnownKeys } from './known-keys.ts'

const asking = { application: 'shop', person: 'usr_1', path: '/v1/transactions', headers: { 'idempotency-key': 'k' } }

test('a key is known of the same person, application and path, by either header, and by nothing else', () => {
  const keys = openKnownKeys(() => 0)
  assert.equal(keys.has(asking), false)
  keys.add(asking)
  assert.equal(keys.has(asking), true)
  assert.equal(keys.has({ ...asking, headers: { 'x-idempotency-key': 'k' } }), true)
  const others = [{ person: 'usr_2' }, { application: 'other' }, { path: '/v1/tokens/transfers' }, { headers: { 'idempotency-key': 'l' } }, { headers: {} }] // prettier-ignore
  for (const other of others) assert.equal(keys.has({ ...asking, ...other }), false, JSON.stringify(other))
})

test('what has no key, or none that is one, is not remembered; of ten thousand and one the first is forgotten', () => {
  const keys = openKnownKeys(() => 0)
  const of = (key: string) => ({ ...asking, headers: { 'idempotency-key': key } })
  for (const odd of [{ ...asking, headers: {} }, of('x'.repeat(256))]) {
    keys.add(odd)
    assert.equal(keys.has(odd), false)
  }
  for (let key = 0; key <= 10_000; key++) keys.add(of(`${key}`))
  assert.deepEqual([keys.has(of('0')), keys.has(of('1')), keys.has(of('10000'))], [false, true, true])
})

test('a key is known for as long as the database must keep it, and then it may stand for something new', () => {
  let at = 0
  const keys = openKnownKeys(() => at)
  keys.add(asking)
  at = 24 * 3_600_000 - 1
  assert.equal(keys.has(asking), true)
  at++
  assert.equal(keys.has(asking), false)
  keys.add(asking)
  assert.equal(keys.has(asking), true)
})
