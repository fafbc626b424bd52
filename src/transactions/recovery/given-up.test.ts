import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age, keep, unseen, useElsewhere } from '../../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { fromHex } from '../../hex.ts'
import { readTransaction } from '../read/read.ts'
import { listStopped } from './resume.ts'
import { interruptSteps } from '../crash-points.ts'

/** Intents that are abandoned because a foreign transaction used their nonce for good, whoever has the key. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const mine = async (blocks: number) => {
  for (let block = 0; block < blocks; block++) await world.mine()
}
const isStopped = async ({ userId }: Writer) => (await listStopped(world.db)).some((lane) => lane.userId === userId)

test('an account whose write is FAILED is stopped, also when the database goes away between the two', async () => {
  const writer = await world.writer('between')
  await mine(4)
  const { answer } = await world.add(world.first, writer, 1)
  await world.rpc('anvil_dropAllTransactions')
  await unseen(world, writer, async () => {
    await useElsewhere(world, writer)
    await world.mine()
  })
  await mine(4)
  await sql`update attempts set broadcast_at = null where transaction_id = ${answer.id}`.execute(world.db)
  await sql`alter table stopped_lanes rename to stopped_lanes_away`.execute(world.db)
  await keep(world)
  await sql`alter table stopped_lanes_away rename to stopped_lanes`.execute(world.db)
  for (let round = 0; round < 3; round++) {
    await sql`update attempts set broadcast_at = null where transaction_id = ${answer.id}`.execute(world.db)
    await keep(world)
    await world.mine()
  }
  assert.deepEqual(
    [(await readTransaction(world.first.app, writer, answer.id)).state, await isStopped(writer)],
    ['FAILED', true],
  )
})

test('an account whose bound nonce was used by somebody else for good is stopped', async () => {
  const writer = await world.writer('bound')
  await mine(4)
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(world.add(world.first, writer, 1, 'k'), /killed/)
  interruptSteps(world.first.app, null)
  await unseen(world, writer, async () => {
    await useElsewhere(world, writer)
    await useElsewhere(world, writer)
    await world.mine()
  })
  await mine(4)
  await age(world, 60)
  await keep(world)
  const rows = await world.db
    .selectFrom('transactions')
    .select(['nonce', 'state'])
    .where('sender', '=', fromHex(writer.address))
    .execute()
  assert.deepEqual(rows, [{ nonce: 0, state: 'FAILED' }])
  await assert.rejects(world.add(world.first, writer, 10, 'k'), { code: 'account_stopped' })
  assert.equal(await isStopped(writer), true)
})
