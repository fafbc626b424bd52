import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { diesAt } from '../../../test/interrupted.ts'
import { age, keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { describeNetworks } from '../../applications/networks.ts'
import { AppError } from '../../errors.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

/** The gas mode of a network changes while writes are open: neither earlier nor later writes wait permanently. */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
afterEach(async () => {
  world.first.chain.gas = 'sponsor'
  interruptSteps(world.first.app, null)
  await world.mine()
})
after(() => world?.close())

const { add, rowOf, stateOf } = operationsOf(() => world)
const codeOf = ({ address }: Writer) => world.rpc<string>('eth_getCode', address, 'latest')

async function withCoins(name: string): Promise<Writer> {
  const writer = await world.poor(name)
  await world.rpc('anvil_setBalance', writer.address, '0xde0b6b3a7640000')
  await world.mine()
  return writer
}

const dies = (step: Step, work: () => Promise<unknown>): Promise<void> => diesAt(world.first.app, step, work)

test('what sponsors carried before a network went back to `self` is packed again and done', async () => {
  const writer = await withCoins('packed-after')
  const { answer } = await add(writer)
  const { outer_id: outer } = await rowOf(answer.id)
  await world.cancelOuter(outer!)
  world.first.chain.gas = 'self'
  await until('it is done', async () => {
    await keep(world)
    await world.mine()
    return (await stateOf(writer, answer.id)) !== 'SUBMITTED'
  })
  assert.notEqual((await rowOf(answer.id)).outer_id, outer)
  assert.equal(await world.countOf(writer), 1n)
  // New writes use the new gas mode.
  const { answer: own } = await add(writer, 2)
  assert.deepEqual([own.tx.from.toLowerCase(), own.operation], [writer.address, undefined])
  await world.mine()
  assert.deepEqual([await stateOf(writer, own.id), await world.countOf(writer)], ['MINED', 3n])
})

test('who signed an authorization that nothing carried has one more write carried, and then pays', async () => {
  const writer = await withCoins('never-carried')
  await dies('after-sign-operation', () => add(writer, 1, 'never carried'))
  assert.equal(await codeOf(writer), '0x')
  world.first.chain.gas = 'self'
  const { answer } = await add(writer, 2)
  assert.equal(answer.gas?.strategy, 'sponsor')
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await codeOf(writer)], ['MINED', world.delegated])
  const { answer: own } = await add(writer, 4)
  assert.deepEqual([own.tx.from.toLowerCase(), Number(own.tx.nonce)], [writer.address, 1])
  await world.mine()
  assert.deepEqual([await stateOf(writer, own.id), await world.countOf(writer)], ['MINED', 6n])
})

test('who owes a delegation is counted, and refused as what it is where sponsors are gone: nothing is answered that would wait for good', async () => {
  const writer = await withCoins('owes')
  await dies('after-sign-operation', () => add(writer, 1, 'owes'))
  const owed = async () => (await describeNetworks(world.db)).map(({ owedDelegations }) => owedDelegations)
  const setGas = (gas: string) => world.db.updateTable('networks').set({ gas }).execute()
  await setGas('sponsor')
  assert.deepEqual(await owed(), [0])
  const { chain } = world.first
  const space = chain.gasSpace!
  chain.gas = 'self'
  await setGas('self')
  try {
    assert.deepEqual(await owed(), [1])
    chain.gasSpace = null
    for (let time = 0; time < 2; time++)
      await assert.rejects(add(writer, 2), (error: unknown) => {
        assert.ok(error instanceof AppError && error.code === 'sponsor_empty')
        return /no gas space for sponsors.*--gas-space/.test(error.message)
      })
    const own = await world.db
      .selectFrom('transactions')
      .select('id')
      .where('account_id', '=', writer.accountId)
      .execute()
    assert.deepEqual(own, [])
    // Accounts can write whether or not they have delegated before.
    const { answer } = await add(await withCoins('owes-nothing'), 2)
    assert.equal(answer.operation, undefined)
    chain.gasSpace = space
    assert.equal((await add(writer, 2)).answer.gas?.strategy, 'sponsor')
    await world.mine()
    assert.deepEqual(await owed(), [0])
  } finally {
    chain.gasSpace = space
    await setGas('sponsor')
  }
})

test('the first write of a person whose own write is not mined yet is refused as what it is, and reserves nothing', async () => {
  const writer = await withCoins('own-pending')
  world.first.chain.gas = 'self'
  const { answer: own } = await add(writer)
  world.first.chain.gas = 'sponsor'
  const refused = (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'conflict')
    assert.match(error.message, /not mined yet/)
    return error.retryAfter !== undefined
  }
  await assert.rejects(add(writer, 2), refused)
  await assert.rejects(add(writer, 2, 'keyed'), refused)
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  await world.mine()
  const { answer } = await add(writer, 2, 'keyed')
  await world.mine()
  assert.deepEqual([await stateOf(writer, own.id), await stateOf(writer, answer.id)], ['MINED', 'MINED'])
  assert.equal(await world.countOf(writer), 3n)
})

test('an own write of before the switch that was never signed keeps no first operation waiting once its nonce is filled', async () => {
  const writer = await withCoins('own-unsigned')
  world.first.chain.gas = 'self'
  await dies('after-bind', () => add(writer, 1, 'unsigned'))
  world.first.chain.gas = 'sponsor'
  await assert.rejects(add(writer, 2), (error: unknown) => error instanceof AppError && error.code === 'conflict')
  await age(world.first.app, 40)
  await keep(world)
  await world.mine()
  const { answer } = await add(writer, 2)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 2n])
})

test('who wrote, delegated and pays again is stopped by nothing: the nonce of the authorization is nobody’s alarm', async () => {
  const writer = await withCoins('pays-again')
  world.first.chain.gas = 'self'
  await add(writer, 1)
  await world.mine()
  world.first.chain.gas = 'sponsor'
  await add(writer, 2)
  await world.mine()
  assert.equal(await codeOf(writer), world.delegated)
  world.first.chain.gas = 'self'
  let sum = 3
  for (let write = 0; write < 20; write++) {
    await assert.doesNotReject(async () => {
      const { answer } = await add(writer, 4)
      assert.equal(answer.tx.from.toLowerCase(), writer.address)
    })
    sum += 4
    if (write % 5 === 4) await world.mine()
  }
  await age(world.first.app, 60)
  for (let block = 0; block < 3; block++) {
    await world.mine()
    await keep(world)
  }
  assert.equal(await world.countOf(writer), BigInt(sum))
  assert.deepEqual(await world.db.selectFrom('stopped_lanes').selectAll().execute(), [])
  const open = await world.db.selectFrom('transactions').select(['nonce', 'state']).where('account_id', '=', writer.accountId).where('state', 'in', ['BOUND', 'VACANT', 'SUBMITTED']).execute() // prettier-ignore
  assert.deepEqual(open, [])
})
