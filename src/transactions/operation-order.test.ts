import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age } from '../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../test/sponsored.ts'
import { until } from '../../test/until.ts'
import type { Writer } from '../../test/writing.ts'

/** What becomes of an operation by what is beside it: the same one once more. */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
afterEach(async () => {
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const add = (writer: Writer, amount = 1, key?: string) => world.add(world.first, writer, amount, key)

/** The node answers no estimate for the dispatcher until that is let go. */
function holdEstimates(): { let: () => void; held: () => number } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let held = 0
  world.first.misbehave(async (method, params, next) => {
    const to = (params[0] as { to?: string } | undefined)?.to
    if (method === 'eth_estimateGas' && to?.toLowerCase() === world.dispatcher) {
      held++
      await promise
    }
    return next()
  })
  return { let: resolve, held: () => held }
}

test('a write that is repeated while it waits is packed once, and nobody beside it is refused', async () => {
  const [one, two, same, beside] = [await world.poor('d1'), await world.poor('d2'), await world.poor('d3'), await world.poor('d4')] // prettier-ignore
  const estimates = holdEstimates()
  const first = add(one)
  await until('the first is under way', async () => estimates.held() === 1)
  const second = add(two)
  await until('the second is under way', async () => estimates.held() === 2)
  const asked = add(same, 1, 'again')
  await until('it waits', async () =>
    (await world.db.selectFrom('operations').select('id').where('account_id', '=', same.accountId).execute()).length === 1) // prettier-ignore
  await new Promise((resolve) => setTimeout(resolve, 200))
  await age(world.first.app, 5)
  const repeated = add(same, 1, 'again')
  const other = add(beside)
  await new Promise((resolve) => setTimeout(resolve, 500))
  estimates.let()
  const all = await Promise.allSettled([first, second, asked, repeated, other])
  for (const each of all) assert.equal(each.status, 'fulfilled', each.status === 'rejected' ? String(each.reason) : '')
  await world.mine()
  const { id } = await world.db.selectFrom('operations').select('id').where('account_id', '=', same.accountId).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal((await world.db.selectFrom('carried').selectAll().where('operation_id', '=', id).execute()).length, 1)
  for (const writer of [one, two, same, beside]) assert.equal(await world.countOf(writer), 1n)
})
