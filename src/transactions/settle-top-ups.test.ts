import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { diesAt, whileMining } from '../../test/interrupted.ts'
import { age, keep } from '../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../test/sponsored.ts'
import { until } from '../../test/until.ts'
import type { Writer } from '../../test/writing.ts'
import { underDeadline } from '../deadline.ts'
import { AppError } from '../errors.ts'
import { spentOfBudget } from '../store/sponsor-budget.ts'
import { interruptSteps } from './crash-points.ts'
import { scopeOf, settleLeft } from './settle-top-ups.ts'
import { transactionIdOf, type Hex } from '../ids.ts'

/** A person's request that began a top-up does not come back: what budgets count of it in the end is what it cost. */
let world: Sponsored
before(async () => {
  world = await sponsored({}, 'chatelaine')
  world.first.chain.gas = 'topup'
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  await world.mine()
})
after(() => world?.close())

const add = (writer: Writer, key?: string) => world.add(world.first, writer, 1, key)
const settle = () => settleLeft(world.first.app, world.first.chain)
const rowsOf = ({ accountId }: Writer) =>
  world.db.selectFrom('top_ups').selectAll().where('account_id', '=', accountId).orderBy('ordinal').execute()
const later = () => world.db.updateTable('top_ups').set({ created_at: sql<Date>`created_at - interval '3 minutes'` }).execute() // prettier-ignore
const spentOn = ({ accountId }: Writer) => spentOfBudget(world.db, 'demo', accountId)
const transferOf = ({ accountId }: Writer) => {
  const id = transactionIdOf(scopeOf({ chainId: 31_337, accountId, ordinal: 0 }), 0)
  return world.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
}
const untilFinal = (writer: Writer) =>
  until('its transfer is final', async () => {
    await world.mine()
    await age(world.first.app, 20)
    await keep(world)
    return (await transferOf(writer)).is_final
  })
/** What the sponsor lost by the transfer, by the chain. */
async function costOf(writer: Writer): Promise<bigint> {
  const { hash } = await transferOf(writer)
  const said = `0x${Buffer.from(hash!).toString('hex')}`
  const { gasUsed, effectiveGasPrice } = await world.rpc<{ gasUsed: Hex; effectiveGasPrice: Hex }>('eth_getTransactionReceipt', said) // prettier-ignore
  const { value } = await world.rpc<{ value: Hex }>('eth_getTransactionByHash', said)
  return BigInt(gasUsed) * BigInt(effectiveGasPrice) + BigInt(value)
}

test('a top-up that no request comes back for counts what it cost once it is final, by however many processes look, and its write is paid for', async () => {
  const writer = await world.poor('gone')
  const hurried = () => underDeadline(performance.now() + 1_800, () => add(writer, 'key'))
  await assert.rejects(hurried(), (error: unknown) => error instanceof AppError && error.code === 'top_up_pending')
  const { charged } = (await rowsOf(writer))[0]!
  assert.equal(await spentOn(writer), BigInt(charged))
  await later()
  assert.equal(await settle(), 0, 'nothing is in a block yet')
  await world.mine()
  assert.equal((await transferOf(writer)).is_final, false)
  assert.equal(await settle(), 0, 'what a reorganisation may take back is not over')
  assert.equal(await spentOn(writer), BigInt(charged))
  await untilFinal(writer)
  await Promise.all([settle(), settle(), settle()])
  const cost = await costOf(writer)
  assert.ok(cost < BigInt(charged))
  assert.equal(await spentOn(writer), cost)
  const [row, ...others] = await rowsOf(writer)
  assert.deepEqual([others.length, row!.charged, row!.settled_at !== null], [0, String(cost), true])
  assert.equal(await settle(), 0)
  // Whoever comes back has their funds, and is sent no more.
  await whileMining(world, add(writer, 'key'))
  await world.mine()
  assert.deepEqual([(await rowsOf(writer)).length, await world.countOf(writer)], [1, 1n])
})

test('the keeper does that by itself, of a process that died as well', async () => {
  const writer = await world.poor('died')
  await diesAt(world.first.app, 'after-store', () => add(writer, 'key'))
  await later()
  await untilFinal(writer)
  const replica = await world.replica()
  const keeper = replica.keeper()
  await keeper.round()
  await keeper.stop()
  const cost = await costOf(writer)
  assert.equal(await spentOn(writer), cost)
  assert.ok((await rowsOf(writer))[0]!.settled_at !== null)
})

test('one that has no transaction yet counts as it was reserved, and is finished by the person’s next request', async () => {
  const writer = await world.poor('unsent')
  await diesAt(world.first.app, 'before-bind', () => add(writer, 'key'))
  const [row] = await rowsOf(writer)
  assert.equal(row!.settled_at, null)
  await later()
  assert.equal(await settle(), 0)
  assert.equal(await spentOn(writer), BigInt(row!.charged))
  await whileMining(world, add(writer, 'key'))
  await world.mine()
  assert.deepEqual([(await rowsOf(writer)).length, await world.countOf(writer)], [1, 1n])
})

test('a request at work on its top-up is left to it', async () => {
  const writer = await world.poor('at-work')
  await diesAt(world.first.app, 'after-store', () => add(writer, 'key'))
  await untilFinal(writer)
  assert.equal(await settle(), 0, 'it is younger than two minutes')
  await later()
  assert.equal(await settle(), 1)
})
