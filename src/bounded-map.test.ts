import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BoundedMap } from './bounded-map.ts'

test('of too many entries the one that was set longest ago leaves; one that is set again is the newest', () => {
  const map = new BoundedMap<string, number>(3)
  for (const [key, value] of Object.entries({ a: 1, b: 2, c: 3 })) map.set(key, value)
  assert.equal(map.get('a'), 1)
  map.set('a', 4).set('d', 5)
  assert.deepEqual([...map], [['c', 3], ['a', 4], ['d', 5]]) // prettier-ignore
  assert.equal(map.delete('c'), true)
  map.set('e', 6)
  assert.deepEqual([...map.keys()], ['a', 'd', 'e'])
})

test('a key that is undefined leaves like any other', () => {
  const map = new BoundedMap<undefined | number, string>(1)
  map.set(undefined, 'none').set(1, 'one')
  assert.deepEqual([...map], [[1, 'one']])
})
