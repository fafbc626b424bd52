import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { writing, type Writing } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { askToChange, makeRequestedChanges, readChange } from './requested-changes.ts'
import { readTransaction } from '../read/read.ts'

let world: Writing
before(async () => void (world = await writing()))
after(() => world?.close())

const attempts = (id: string) =>
  world.db.selectFrom('attempts').select(['is_cancel']).where('transaction_id', '=', id).orderBy('created_at').execute()

test('an operator bumps a fee and cancels a write without its user, each request once', async () => {
  const { app } = world.first
  const writer = await world.writer('waiting')
  const { answer } = await world.add(world.first, writer)
  const { id } = answer
  await askToChange(world.db, { id, change: 'speed-up' })
  assert.deepEqual([(await readChange(id)(world.db))!.doneAt, (await attempts(id)).length], [null, 1])
  // Two servers at once: one of them takes it.
  await Promise.all([makeRequestedChanges(app), makeRequestedChanges(app)])
  await makeRequestedChanges(app)
  assert.deepEqual(
    (await attempts(id)).map(({ is_cancel: isCancel }) => isCancel),
    [false, false],
  )
  assert.notEqual((await readChange(id)(world.db))!.doneAt, null)
  await askToChange(world.db, { id, change: 'cancel' })
  await makeRequestedChanges(app)
  assert.deepEqual(
    (await attempts(id)).map(({ is_cancel: isCancel }) => isCancel),
    [false, false, true],
  )
  await world.mine()
  assert.equal((await readTransaction(app, writer, id)).state, 'CANCELLED')
  assert.equal(await world.countOf(writer), 0n)
  await assert.rejects(askToChange(world.db, { id, change: 'cancel' }), hasCode('not_cancellable'))
  await assert.rejects(askToChange(world.db, { id: 'tx_none', change: 'cancel' }), hasCode('transaction_not_found'))
})

test('a change whose process died before it recorded the change is not made again', async () => {
  const { app } = world.first
  const writer = await world.writer('died')
  const { id } = (await world.add(world.first, writer)).answer
  for (const [change, count] of [
    ['speed-up', 2],
    ['cancel', 3],
  ] as const) {
    await askToChange(world.db, { id, change })
    await makeRequestedChanges(app)
    const unrecorded = { done_at: null, claimed_at: new Date(Date.now() - 61_000) }
    await world.db.updateTable('requested_changes').set(unrecorded).where('transaction_id', '=', id).execute()
    await makeRequestedChanges(app)
    assert.notEqual((await readChange(id)(world.db))!.doneAt, null)
    assert.equal((await attempts(id)).length, count, change)
  }
})

test('a request that can no longer be met is rejected with its reason', async () => {
  const writer = await world.writer('late')
  const { answer } = await world.add(world.first, writer)
  await askToChange(world.db, { id: answer.id, change: 'cancel' })
  await world.mine()
  await makeRequestedChanges(world.first.app)
  assert.match(
    (await readChange(answer.id)(world.db))!.refusal ?? '',
    /^not_cancellable: The transaction is already MINED/,
  )
  assert.equal(await world.countOf(writer), 1n)
})

test('a request waits while the signer is unavailable, and is met once it is back', async () => {
  const writer = await world.writer('patient')
  const { answer } = await world.add(world.first, writer)
  const { id } = answer
  await askToChange(world.db, { id, change: 'cancel' })
  const { app } = world.first
  const recall = async () => Promise.reject(new AppError('signer_unavailable', 'The signer does not respond.'))
  await makeRequestedChanges({ ...app, signer: { ...app.signer, recall } })
  const waiting = (await readChange(id)(world.db))!
  assert.deepEqual([waiting.doneAt, waiting.refusal], [null, null])
  await makeRequestedChanges(world.first.app)
  assert.equal((await attempts(id)).length, 1, 'not before the pause is over')
  await world.db
    .updateTable('requested_changes')
    .set({ claimed_at: new Date(Date.now() - 61_000) })
    .execute()
  await makeRequestedChanges(world.first.app)
  assert.equal((await attempts(id)).length, 2)
})

const hasCode = (code: string) => (error: unknown) => error instanceof AppError && error.code === code
