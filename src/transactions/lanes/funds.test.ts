import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { remember, replay } from '../../../test/lost-tail.ts'
import { writing, type Replica, type Writer, type Writing } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { newTransactionId, type Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { part } from './bind.ts'
import { cancelTransaction, speedUpTransaction } from './change.ts'
import { interruptSteps } from '../crash-points.ts'
import { submitTransaction } from './submit.ts'
import { takeNonce, type Binding } from './take-nonce.ts'

/**
 * An account's balance has to cover all of its open writes together. Each account begins with 10 units of native
 * currency.
 */
let world: Writing
before(async () => {
  world = await writing()
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.chain.faucet = null
  await world.mine()
})
after(() => world.close())

const COIN = 10n ** 18n
const AWAY: Hex = `0x${'b2'.repeat(20)}`
const coins = (count: number) => (BigInt(count * 10) * COIN) / 10n
const send = async ({ app }: Replica, writer: Writer, count: number) =>
  (await submitTransaction(app, writer, { to: AWAY, value: String(coins(count)) }, {})).answer
const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const reservedOf = async (writer: Writer) => (await rowsOf(writer)).map(({ reserved }) => BigInt(reserved ?? -1))

test('two writes that cannot be paid together are not both accepted; the refusal says what is reserved', async () => {
  const writer = await world.writer('together')
  const { id } = await send(world.first, writer, 6)
  const [reserved] = await reservedOf(writer)
  await assert.rejects(send(world.first, writer, 6), (error: unknown) => {
    assert.ok(refusedWith('insufficient_funds')(error))
    const { message, funds } = error as AppError
    const cost = BigInt(funds!.needed) - reserved!
    assert.ok(cost > coins(6) && cost < coins(6.1))
    assert.equal(message, `The account needs ${cost} wei and has ${coins(10)}, of which ${reserved} are reserved by its pending writes. Nothing was sent. Fund the account, then retry.`) // prettier-ignore
    assert.equal(funds!.available, String(coins(10)))
    assert.equal(funds!.address.toLowerCase(), writer.address)
    return true
  })
  assert.deepEqual((await rowsOf(writer)).map((row) => row.id), [id]) // prettier-ignore
  // A write is accepted if the rest of the balance covers it, or once earlier writes are mined.
  await send(world.first, writer, 3)
  await world.mine()
  await send(world.first, writer, 0.9)
  assert.equal((await rowsOf(writer)).length, 3)
})

test('of several at once as many are accepted as can be paid, and no nonce is left out', async () => {
  const writer = await world.writer('at-once')
  const ends = await Promise.allSettled([6, 6, 1, 6, 2, 6, 0.5].map((count) => send(world.first, writer, count)))
  const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  assert.ok(refused.length === 3 && refused.every(refusedWith('insufficient_funds')), String(refused[0]))
  assert.deepEqual((await rowsOf(writer)).map(({ nonce, state }) => [nonce, state]), [0, 1, 2, 3].map((nonce) => [nonce, 'SUBMITTED'])) // prettier-ignore
})

test('what is mined and not followed yet is not counted twice', async () => {
  const writer = await world.writer('ahead')
  const other = await world.replica()
  await send(world.first, writer, 6)
  interruptSteps(world.first.app, (step) => {
    if (step === 'in-block') throw new Error('the follower waits')
  })
  await world.rpc('evm_mine')
  assert.equal((await rowsOf(writer))[0]!.state, 'SUBMITTED')
  await send(other, writer, 3)
  await assert.rejects(send(other, writer, 3), refusedWith('insufficient_funds'))
  interruptSteps(world.first.app, null)
  await world.followed()
})

test('coins that came since the balance was read count before anybody is refused', async () => {
  const writer = await world.writer('deposit')
  await send(world.first, writer, 6)
  await world.rpc('anvil_setBalance', writer.address, `0x${coins(13).toString(16)}`)
  await send(world.first, writer, 6)
})

test('a development chain gives coins before it refuses, once', async () => {
  const writer = await world.writer('given')
  let gifts = 0
  world.first.chain.faucet = async (address) => {
    gifts++
    await world.rpc('anvil_setBalance', address, `0x${coins(13).toString(16)}`)
  }
  await send(world.first, writer, 6)
  await send(world.first, writer, 6)
  assert.equal(gifts, 1)
  await assert.rejects(send(world.first, writer, 6), refusedWith('insufficient_funds'))
  assert.equal(gifts, 2)
})

test('a raise reserves what it may cost, a cancel its gas alone', async () => {
  const writer = await world.writer('raised')
  const { id } = await send(world.first, writer, 6)
  const [before] = await reservedOf(writer)
  await speedUpTransaction(world.first.app, writer, id)
  const [raised] = await reservedOf(writer)
  assert.ok(raised! - coins(6) >= ((before! - coins(6)) * 1125n) / 1000n)
  await cancelTransaction(world.first.app, writer, id)
  const [cancel] = await reservedOf(writer)
  assert.ok(cancel! > 0n && cancel! < coins(0.1))
  await send(world.first, writer, 6)
})

test('what the ledger brings back reserves what it did', async () => {
  const writer = await world.writer('lost')
  const back = await remember(world)
  const { id } = await send(world.first, writer, 6)
  const kept = await reservedOf(writer)
  await back()
  await replay(world.first)
  assert.deepEqual(await reservedOf(writer), kept)
  await cancelTransaction(world.first.app, writer, id)
  const cancelled = await reservedOf(writer)
  await back()
  await replay(world.first)
  assert.deepEqual(await reservedOf(writer), cancelled)
})

const bindingOf = (writer: Writer, given: Partial<Binding> & { value: bigint }): Binding => ({
  ...{
    id: newTransactionId(),
    requestHash: null,
    reference: null,
    accountId: writer.accountId,
    clientId: writer.clientId,
  },
  ...{ from: writer.address, terms: { gas: 21_000n, fees: { type: 'legacy', gasPrice: 1n } }, budget: null },
  intent: { to: AWAY, data: '0x', value: given.value, abi: '', fn: null, errors: [] },
  ...given,
})
const take = (binding: Binding) => takeNonce(world.first.app, world.first.chain, binding, 0)

test('sums are exact above what fits a word, and of what somebody else pays nothing is reserved', async () => {
  const writer = await world.writer('large')
  const value = 2n ** 256n - 1n
  const cost = value + 21_000n
  assert.deepEqual(await take(bindingOf(writer, { value })), { nonce: 0 })
  assert.deepEqual(await take(bindingOf(writer, { value })), { nonce: 1 })
  const short = await take(bindingOf(writer, { value, budget: { available: 3n * cost - 1n, paidBelow: 0 } }))
  assert.ok(typeof short === 'object' && 'lane' in short && short.lane.reserved === 2n * cost)
  assert.deepEqual(await take(bindingOf(writer, { value, budget: { available: 3n * cost, paidBelow: 0 } })), { nonce: 2 }) // prettier-ignore
  assert.deepEqual(await take(bindingOf(writer, { value, budget: { available: 2n * cost, paidBelow: 2 } })), { nonce: 3 }) // prettier-ignore
  await world.db.updateTable('transactions').set({ state: 'FAILED' }).where('sender', '=', fromHex(writer.address)).execute() // prettier-ignore
})

test('who is refused beside somebody who knows of more leaves no nonce out', async () => {
  const writer = await world.writer('budgets')
  const [value, other] = [coins(6), await world.writer('budgets-other')]
  await take(bindingOf(other, { value }))
  const ends = await Promise.all([
    take(bindingOf(writer, { value, budget: { available: coins(1), paidBelow: 0 } })),
    take(bindingOf(writer, { value, budget: { available: coins(100), paidBelow: 0 } })),
  ])
  assert.ok(ends.every((end) => typeof end === 'object' && 'lane' in end))
  assert.deepEqual(await rowsOf(writer), [])
  assert.deepEqual(await take(bindingOf(writer, { value })), { nonce: 0 })
  for (const { address } of [writer, other])
    await world.db.updateTable('transactions').set({ state: 'FAILED' }).where('sender', '=', fromHex(address)).execute()
})

test('an intent that was parted from its nonce reserves nothing there', async () => {
  const writer = await world.writer('parted')
  const binding = bindingOf(writer, { value: coins(6), budget: { available: coins(10), paidBelow: 0 } })
  assert.deepEqual(await take(binding), { nonce: 0 })
  await part(world.first.app, binding.id)
  assert.deepEqual(await take(binding), { nonce: 1 })
  await world.db.updateTable('transactions').set({ state: 'FAILED' }).where('sender', '=', fromHex(writer.address)).execute() // prettier-ignore
})
