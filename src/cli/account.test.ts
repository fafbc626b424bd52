import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingOf } from './account.ts'

test('a list of requests for keys that is cut says so, and one that is whole says nothing', () => {
  assert.equal(missingOf(500, 501), 'The newest 500 of 501 are listed.\n')
  assert.equal(missingOf(500, null), 'The newest 500 are listed; there may be more.\n')
  for (const [listed, total] of [[0, 0], [500, 500], [499, null]] as const) assert.equal(missingOf(listed, total), '') // prettier-ignore
})
