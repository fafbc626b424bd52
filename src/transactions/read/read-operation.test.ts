import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import { listTransactions, readTransaction } from './read.ts'

/** Responses for a write that a sponsor sent, and who gets them. */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
after(() => world?.close())

test('what a person wrote by one application is shown to no other of the same network, by id, hash or list', async () => {
  const { app } = world.first
  const writer = await world.poor('of-demo')
  const other = { ...writer, clientId: 'one-contract' }
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  for (const name of [answer.id, answer.hash]) {
    assert.equal((await readTransaction(app, writer, name)).id, answer.id)
    await assert.rejects(readTransaction(app, other, name), /has sent no transaction with this id or hash/)
  }
  const listed = async (caller: typeof writer) => (await listTransactions(app, caller, { limit: 10 })).transactions.map(({ id }) => id) // prettier-ignore
  assert.deepEqual([await listed(writer), await listed(other)], [[answer.id], []])
})

test('the receipt of a write says that it succeeded when it is mined, and when it is final', async () => {
  const { app } = world.first
  const writer = await world.poor('final')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  const seen = new Map<string, string | undefined>()
  await until('it is final', async () => {
    const { state, receipt } = await readTransaction(app, writer, answer.id)
    seen.set(state, receipt?.status)
    await world.mine()
    return state === 'FINALIZED'
  })
  assert.deepEqual([...seen], [['MINED', 'SUCCESS'], ['FINALIZED', 'SUCCESS']]) // prettier-ignore
})
