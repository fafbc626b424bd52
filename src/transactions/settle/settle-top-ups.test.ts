// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { diesAt } from '../../../test/interrupted.ts'
import { age, keep, rememberWithBlocks, replay } from '../../../test/lost-tail.ts'
import { COIN, toppingUp, type ToppingUp } from '../../../test/topping-up.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { interruptSteps } from '../crash-points.ts'
import { settleBy, settleLeft } from './settle-top-ups.ts'
import type { Hex } from '../../ids.ts'

/** A request that began a top-up never returns. In the end, the budgets count the actual cost. */
let world: ToppingUp
before(async () => {
  world = await toppingUp()
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  await world.mine()
})
after(() => world?.close())

const settle = () => settleLeft(world.first.app, world.first.chain)
const later = () => world.db.updateTable('top_ups').set({ created_at: sql<Date>`created_at - interval '3 minutes'` }).execute() // prettier-ignore
const spentOn = ({ accountId }: Writer) => spentOfBudget(world.db, 'demo', accountId)
/** Reads the metric. */
const toldOf = async (outcome: string): Promise<number> => {
  const { values } = await world.first.app.telemetry.topUps.get()
  return values.find(({ labels }) => labels.outcome === outcome)?.value ?? 0
}
const untilFinal = (writer: Writer) =>
  until('its transfer is final', async () => {
    await world.mine()
    await age(world.first.app, 20)
    await keep(world)
    return (await world.transferOf(writer)).is_final
  })
/** Returns the sponsor's loss by the transfer, read from the chain. */
async function costOf(writer: Writer): Promise<bigint> {
  const { hash } = await world.transferOf(writer)
  const said = toHex(hash!)
  const { gasUsed, effectiveGasPrice } = await world.rpc<{ gasUsed: Hex; effectiveGasPrice: Hex }>('eth_getTransactionReceipt', said) // prettier-ignore
  const { value } = await world.rpc<{ value: Hex }>('eth_getTransactionByHash', said)
  return BigInt(gasUsed) * BigInt(effectiveGasPrice) + BigInt(value)
}

test('a top-up that no request comes back for counts what it cost once it is final, by however many processes look, and its write is paid for', async () => {
  const writer = await world.poor('gone')
  await world.begun(writer)
  const { charged } = (await world.rowsOf(writer))[0]!
  assert.equal(await spentOn(writer), BigInt(charged))
  await later()
  assert.equal(await settle(), 0, 'nothing is in a block yet')
  await world.mine()
  assert.equal((await world.transferOf(writer)).is_final, false)
  assert.equal(await settle(), 0, 'what a reorganisation may take back is not over')
  assert.equal(await spentOn(writer), BigInt(charged))
  await untilFinal(writer)
  const told = await toldOf('FINALIZED')
  await Promise.all([settle(), settle(), settle()])
  assert.ok((await toldOf('FINALIZED')) > told)
  const cost = await costOf(writer)
  assert.ok(cost < BigInt(charged))
  assert.equal(await spentOn(writer), cost)
  const [row, ...others] = await world.rowsOf(writer)
  assert.deepEqual([others.length, row!.charged, row!.settled_at !== null], [0, String(cost), true])
  assert.equal(await settle(), 0)
  // A user who retries has the funds, and gets no second top-up.
  await world.write(writer, 'key')
  assert.deepEqual([(await world.rowsOf(writer)).length, await world.countOf(writer)], [1, 1n])
})

test('the keeper does that by itself, of a process that died as well', async () => {
  const writer = await world.poor('died')
  await diesAt(world.first.app, 'after-store', () => world.send(writer, 'key'))
  await later()
  await untilFinal(writer)
  const replica = await world.replica()
  const keeper = replica.keeper()
  await keeper.round()
  await keeper.stop()
  const cost = await costOf(writer)
  assert.equal(await spentOn(writer), cost)
  assert.ok((await world.rowsOf(writer))[0]!.settled_at !== null)
})

test('one that has no transaction yet counts as it was reserved, and is finished by the person’s next request', async () => {
  const writer = await world.poor('unsent')
  await diesAt(world.first.app, 'before-bind', () => world.send(writer, 'key'))
  const [row] = await world.rowsOf(writer)
  assert.equal(row!.settled_at, null)
  await later()
  assert.equal(await settle(), 0)
  assert.equal(await spentOn(writer), BigInt(row!.charged))
  await world.write(writer, 'key')
  assert.deepEqual([(await world.rowsOf(writer)).length, await world.countOf(writer)], [1, 1n])
})

test('of a nonce that something else used it counts as it was reserved, since what that cost is not known', async () => {
  const writer = await world.poor('replaced')
  await world.begun(writer)
  const { charged } = (await world.rowsOf(writer))[0]!
  const { id } = await world.transferOf(writer)
  await later()
  await world.db.updateTable('transactions').set({ state: 'REPLACED', is_final: true }).where('id', '=', id).execute()
  assert.equal(await settle(), 1)
  const [row] = await world.rowsOf(writer)
  assert.deepEqual([row!.charged, row!.wei, await spentOn(writer)], [charged, '0', BigInt(charged)])
  await world.db.updateTable('transactions').set({ state: 'SUBMITTED', is_final: false }).where('id', '=', id).execute()
})

test('one that was mined and reverted cost its fee, and gave nothing', async () => {
  const writer = await world.poor('reverted')
  await world.begun(writer)
  await world.mine()
  await untilFinal(writer)
  const { id, gas_used: gasUsed, effective_gas_price: price } = await world.transferOf(writer)
  await world.db.updateTable('transactions').set({ state: 'REVERTED' }).where('id', '=', id).execute()
  await later()
  assert.equal(await settle(), 1)
  const fee = BigInt(gasUsed!) * fromWord(price!)
  assert.equal(await toldOf('REVERTED'), 1)
  const [row] = await world.rowsOf(writer)
  assert.deepEqual([row!.charged, row!.wei, await spentOn(writer)], [String(fee), '0', fee])
})

test('a request at work on its top-up is left to it', async () => {
  const writer = await world.poor('at-work')
  await diesAt(world.first.app, 'after-store', () => world.send(writer, 'key'))
  await untilFinal(writer)
  assert.equal(await settle(), 0, 'it is younger than two minutes')
  await later()
  assert.equal(await settle(), 1)
})

test('what was seen in a block that a reorganisation took out is settled by the block that it came to', async () => {
  const writer = await world.poor('seen-before')
  await world.begun(writer)
  await world.mine()
  const { id, state, block_number: block } = await world.transferOf(writer)
  assert.equal(state, 'MINED')
  const newest = await world.newestBlock()
  const { baseFeePerGas } = await world.rpc<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', `0x${block!.toString(16)}`, false) // prettier-ignore
  await world.rpc('anvil_reorg', newest - block! + 1, [])
  await world.followed()
  // A request that saw the top-up in that block continues.
  const key = { chainId: 31_337, accountId: writer.accountId, ordinal: 0 }
  assert.equal(await settleBy(world.first.app, key, id), null)
  assert.equal((await world.rowsOf(writer))[0]!.settled_at, null)
  await world.rpc('anvil_setNextBlockBaseFeePerGas', `0x${((BigInt(baseFeePerGas) * 19n) / 10n).toString(16)}`)
  await untilFinal(writer)
  await later()
  await settle()
  assert.equal(await spentOn(writer), await costOf(writer))
  assert.equal((await world.rowsOf(writer))[0]!.block_number, (await world.transferOf(writer)).block_number)
})

test('top-ups that a database has lost are counted again by the ledger, though nobody they were for needs another', async () => {
  const writers = [await world.poor('lost-a'), await world.poor('lost-b')]
  const goBack = await rememberWithBlocks(world.first.app)
  for (const writer of writers) await world.write(writer)
  for (const writer of writers) await untilFinal(writer)
  const costs = await Promise.all(writers.map(costOf))
  await goBack()
  await replay(world.first)
  const rows = (await Promise.all(writers.map(world.rowsOf))).flat()
  assert.deepEqual(rows.map(({ ordinal, client_id: clientId, sponsor_id: sponsorId }) => [ordinal, clientId, sponsorId]), writers.map(() => [0, 'demo', world.house.accountId])) // prettier-ignore
  for (const [index, writer] of writers.entries()) assert.ok((await spentOn(writer)) >= costs[index]!)
  for (const writer of writers) await untilFinal(writer)
  await later()
  await settle()
  assert.deepEqual(await Promise.all(writers.map(spentOn)), costs)
  // The top-up is neither counted nor sent a second time.
  await replay(world.first)
  for (const writer of writers) {
    await world.give(writer, COIN)
    await world.write(writer)
  }
  assert.deepEqual(await Promise.all(writers.map(spentOn)), costs)
})

test('where more are open than one look takes, the next goes on where it ended, and then begins anew', async () => {
  const writer = await world.poor('behind')
  await world.begun(writer)
  await world.mine()
  await untilFinal(writer)
  await later()
  const { sponsor_id: sponsorId } = (await world.rowsOf(writer))[0]!
  const open = Array.from({ length: 501 }, (_, index) => ({
    ...{
      chain_id: 31_337,
      account_id: world.house.accountId,
      ordinal: index,
      sponsor_id: sponsorId,
      client_id: 'demo',
    },
    ...{ wei: '1', charged: '0', hour: new Date(), created_at: sql<Date>`now() - interval '150 seconds'` },
  }))
  await world.db.insertInto('top_ups').values(open).execute()
  try {
    const looks = [await settle(), await settle(), await settle()]
    assert.deepEqual([looks.reduce((sum, one) => sum + one), await spentOn(writer)], [1, await costOf(writer)])
    // A top-up that begins after all of these is settled as well, although these remain open.
    const next = await world.poor('behind-later')
    await world.begun(next)
    await world.mine()
    await untilFinal(next)
    await world.db.updateTable('top_ups').set({ created_at: sql<Date>`now() - interval '130 seconds'` }).where('account_id', '=', next.accountId).execute() // prettier-ignore
    for (let look = 0; look < 3; look++) await settle()
    assert.equal(await spentOn(next), await costOf(next))
  } finally {
    await world.db.deleteFrom('top_ups').where('account_id', '=', world.house.accountId).execute()
  }
})
