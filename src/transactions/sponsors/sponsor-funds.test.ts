import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age, keep } from '../../../test/lost-tail.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import type { Hex } from '../../ids.ts'

/** A sponsor without funds, beside one with funds. */
let world: Sponsored
before(async () => {
  world = await sponsored()
  await world.sponsor('SECOND')
})
after(() => world?.close())

const { add, stateOf } = operationsOf(() => world)

test('writes of a sponsor whose funds are gone are sent by another that has some, while nodes go on refusing the first', async () => {
  const writer = await world.poor('left-behind')
  const { answer } = await add(writer)
  const payer = answer.tx.from.toLowerCase() as Hex
  await world.rpc('anvil_dropAllTransactions')
  await world.rpc('anvil_setBalance', payer, '0x1')
  await world.mine()
  // A node reports insufficient funds in each round.
  for (let round = 0; round < 4; round++) {
    await age(world.first.app, 20)
    await sql`update waits set since = since - interval '20 seconds', due_at = due_at - interval '20 seconds'`.execute(world.db) // prettier-ignore
    await sql`update attempts set broadcast_at = broadcast_at - interval '20 seconds', created_at = created_at - interval '20 seconds'`.execute(world.db) // prettier-ignore
    await world.mine()
    await keep(world)
  }
  await world.mine()
  assert.match(await stateOf(writer, answer.id), /MINED|FINALIZED/)
  assert.equal(await world.countOf(writer), 1n)
})
