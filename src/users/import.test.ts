import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addressOf, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { importAccounts } from './import.ts'

let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

async function* of(lines: object[]): AsyncGenerator<string> {
  for (const line of lines) yield JSON.stringify(line)
}

test('accounts of a manifest are there and marked; twice is the same as once, and another address is refused', async () => {
  const rows = ['X-1', 'X-2'].map((userId) => ({ userId, address: addressOf(userId) }))
  const end = { end: { keys: 2 } }
  assert.deepEqual(await importAccounts(world.app, of([...rows, end])), { imported: 2, present: 0, refused: [] })
  assert.deepEqual(await importAccounts(world.app, of([...rows, end])), { imported: 0, present: 2, refused: [] })
  const marked = await world.app.db.selectFrom('accounts').select(['user_id', 'imported_at']).where('user_id', 'like', 'X-%').orderBy('user_id').execute() // prettier-ignore
  assert.deepEqual(marked.map((row) => [row.user_id, row.imported_at !== null]), [['X-1', true], ['X-2', true]]) // prettier-ignore
  const { refused } = await importAccounts(world.app, of([{ userId: 'X-3', address: addressOf('X-4') }, { userId: 'nobody', address: '0x' }, {}])) // prettier-ignore
  assert.deepEqual(
    refused.map(({ row }) => row),
    ['X-3', 'line 2', 'line 3', 'the manifest'],
  )
  const third = await world.app.db.selectFrom('accounts').select('imported_at').where('user_id', '=', 'X-3').executeTakeFirst() // prettier-ignore
  assert.equal(third?.imported_at ?? null, null)
})
