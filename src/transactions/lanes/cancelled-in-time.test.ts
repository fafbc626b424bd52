import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age, keep, rememberWithBlocks, replay } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { cancelTransaction } from './change.ts'
import { readTransaction } from '../read/read.ts'

/**
 * A cancellation of one operation among several uses up no id. Its response also holds if the database returns to an
 * earlier state.
 */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
after(() => world?.close())

/**
 * Cancels an operation whose transaction is then abandoned. @returns a function that restores the database from before
 */
async function cancelledAmongOthers(name: string): Promise<{ writer: Writer; id: string; goBack(): Promise<void> }> {
  const { app } = world.first
  const [writer, other] = [await world.poor(name), await world.poor(`${name}-other`)]
  for (const one of [writer, other]) await world.add(world.first, one)
  await world.mine()
  await world.mine()
  const [mine, beside] = await world.inOne([() => world.add(world.first, writer, 2), () => world.add(world.first, other, 2)]) // prettier-ignore
  const { id } = mine!.answer
  const { outer_id: outer } = await world.db.selectFrom('operations').select('outer_id').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  const goBack = await rememberWithBlocks(app)
  await cancelTransaction(app, writer, id)
  await world.cancelOuter(outer!)
  for (let block = 0; block < 4; block++) {
    await world.mine()
    await keep(world)
  }
  // The other operation is packed again.
  await until('the other is done', async () => {
    await world.mine()
    await keep(world)
    return /MINED|FINALIZED/.test((await readTransaction(app, other, beside!.answer.id)).state)
  })
  return { writer, id, goBack }
}

async function afterIt(goBack: () => Promise<void>): Promise<void> {
  await goBack()
  await replay(world.first)
  for (let block = 0; block < 8; block++) {
    await world.mine()
    await age(world.first.app, 40)
    await keep(world)
  }
}

test('what is cancelled among others, and may be done by a database that goes back, is not told CANCELLED', async () => {
  const { writer, id, goBack } = await cancelledAmongOthers('in-time')
  const { state, isCancel, isFinal } = await readTransaction(world.first.app, writer, id)
  assert.deepEqual([state, isCancel, isFinal], ['SUBMITTED', true, false])
  assert.equal(await world.countOf(writer), 1n)
  await afterIt(goBack)
  assert.match((await readTransaction(world.first.app, writer, id)).state, /MINED|FINALIZED/)
  assert.equal(await world.countOf(writer), 3n)
})

test('it is CANCELLED when its last second is over: then nothing does it, whatever the database loses', async () => {
  const { writer, id, goBack } = await cancelledAmongOthers('over')
  await world.rpc('evm_increaseTime', 700)
  for (let block = 0; block < 4; block++) {
    await world.mine()
    await keep(world)
  }
  const { state, isFinal } = await readTransaction(world.first.app, writer, id)
  assert.deepEqual([state, isFinal], ['CANCELLED', true])
  await afterIt(goBack)
  assert.equal(await world.countOf(writer), 1n)
  assert.match((await readTransaction(world.first.app, writer, id)).state, /FAILED|CANCELLED/)
})
