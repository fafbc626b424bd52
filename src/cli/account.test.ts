import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingOf } from './account.ts'

test('a list of requests for keys that is cut says so, and one that is whole says nothing', () => {
  assert.equal(missingOf(500, 501), 'These are the newest 500 of 501.\n')
  assert.equal(missingOf(500, null), 'These are the newest 500; there may be more.\n')
  for (const [listed, total] of [[0, 0], [500, 500], [499, null]] as const) assert.equal(missingOf(listed, total), '') // prettier-ignore
})
