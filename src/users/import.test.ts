import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { addressOf, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import type { Signer } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
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

test('a signer that lacks the keys is asked to make none: what is refused leaves no account on either side', async () => {
  const made: string[] = []
  const signer = attestingSigner((userId) => (userId === 'X-5' ? null : addressOf(userId)))
  const app = {
    ...world.app,
    signer: {
      ...signer,
      createAccount: (request: { userId: string }) => {
        made.push(request.userId)
        return signer.createAccount(request)
      },
    } as unknown as Signer,
    state: openState(),
  }
  const { imported, refused } = await importAccounts(app, of([{ userId: 'X-5', address: addressOf('X-5') }, { userId: 'X-6', address: addressOf('X-7') }, { end: { keys: 2 } }])) // prettier-ignore
  assert.deepEqual([imported, refused], [0, [
    { row: 'X-5', reason: 'the signer has no account for this user: run import-keys first' },
    { row: 'X-6', reason: 'the account of this user has another address' },
  ]]) // prettier-ignore
  assert.deepEqual(made, [])
  const rows = await app.db.selectFrom('accounts').select('user_id').where('user_id', 'in', ['X-5', 'X-6']).execute()
  assert.deepEqual(rows, [])
})
