import { strict as assert } from 'node:assert'
import { createHash } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import { age, keep, remember, replay } from '../../../test/lost-tail.ts'
import { writing, type Writing } from '../../../test/writing.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { accountIdOf, type Hex } from '../../ids.ts'
import { askAt } from '../../signer/programs/ask-operator.ts'
import { adminSocketIn } from '../../signer/socket.ts'
import { verifyStore } from '../../signer/programs/verify.ts'
import { fromHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { freezeAccount, unfreezeAccount } from '../../users/freeze.ts'
import { restoreAccount } from '../../users/pregenerate.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { askToWithdraw, listWithdrawals, readWithdrawal, startWithdrawing } from './withdraw.ts'
import type { NewWithdrawal } from './withdrawal-wire.ts'

/** A sponsor's funds go back only by a grant, and once, whatever dies in between. The assertions read the chain. */
let world: Writing
const COIN = 10n ** 18n
let addresses = 0
let houses = 0

before(async () => {
  world = await writing()
  await world.db.insertInto('networks').values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32) }).onConflict((on) => on.doNothing()).execute() // prettier-ignore
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world.close())

/** Creates a sponsor with 10 units of native currency, and an address of the operator. */
async function house() {
  const name = `HOUSE_${++houses}`
  const userId = `SPONSOR-${name}` as const
  const { address } = await world.signer.createAccount({ userId })
  await restoreAccount(world.db, { userId, address })
  await world.db
    .insertInto('sponsors')
    .values({ account_id: accountIdOf('SPONSOR', name), chain_id: 31_337, name })
    .execute()
  await world.rpc('anvil_setBalance', address, `0x${(10n * COIN).toString(16)}`)
  await world.mine()
  const to = `0x${(0xab_00_00_00 + ++addresses).toString(16).padStart(40, '7')}` as Hex
  return { name, userId, address, to }
}
const grant = async ({ name, to }: { name: string; to: Hex }, most = 100n * COIN): Promise<string> => {
  const request = { sponsor: name, chainId: 31_337, to, most: String(most) }
  const path = adminSocketIn(world.place.env.SIGNER_DIR!)
  return (await askAt<{ grant: string }>(path, { verb: 'grantWithdrawal', request })).grant
}
const ask = (name: string, asked: Omit<NewWithdrawal, 'network'>) =>
  askToWithdraw(world.db, name, { network: 'devnet', ...asked })
/** Runs one round of a server, and returns the withdrawal. */
async function round(text: string) {
  const { app } = world.first
  const running = startWithdrawing(app)
  await running.round()
  await running.stop()
  const id = `withdrawal_${createHash('sha256').update(text).digest('base64url')}`
  return (await listWithdrawals(world.db)).find((one) => one.id === id)!
}
const balanceOf = async (address: Hex): Promise<bigint> => BigInt(await world.rpc<Hex>('eth_getBalance', address, 'latest')) // prettier-ignore
const pointing = (pointer: string) => (error: unknown) =>
  error instanceof AppError && error.code === 'invalid_request' && error.errors?.[0]?.pointer === pointer

test('what was granted goes to its address, once, however often it is asked for and however many servers send it', async () => {
  const { name, to, address } = await house()
  const text = await grant({ name, to })
  const asked = { to, amount: String(3n * COIN), grant: text }
  assert.equal((await ask(name, asked)).state, 'ASKED')
  await Promise.all([ask(name, asked), round(text), round(text)])
  const sent = await round(text)
  assert.deepEqual([sent.state, sent.wei, sent.refusal], ['SUBMITTED', String(3n * COIN), null])
  await world.mine()
  assert.equal((await round(text)).state, 'MINED')
  assert.equal((await ask(name, asked)).transactionId, sent.transactionId)
  await round(text)
  await world.mine()
  assert.equal(await balanceOf(to), 3n * COIN)
  assert.ok((await balanceOf(address)) < 7n * COIN)
  const rows = await world.db.selectFrom('transactions').select(['id', 'client_id']).where('sender', '=', fromHex(address)).execute() // prettier-ignore
  assert.deepEqual(rows, [{ id: sent.transactionId, client_id: 'withdrawal' }])
  const { problems, withdrawals } = verifyStore(world.place.env.SIGNER_DIR!)
  assert.deepEqual([problems, withdrawals > 0], [[], true])
})

test('what is looked up by a grant is of that one, also where others came after it', async () => {
  const [first, second] = [await house(), await house()]
  const [one, other] = [await grant(first), await grant(second)]
  await ask(first.name, { to: first.to, amount: '5', grant: one })
  const { id } = await ask(second.name, { to: second.to, amount: '7', grant: other })
  assert.deepEqual((await readWithdrawal(world.db, one))?.amount, '5')
  const found = await readWithdrawal(world.db, other)
  assert.deepEqual([found?.id, found?.to.toLowerCase(), found?.amount], [id, second.to, '7'])
})

test('all that is there goes but what open transactions and the fee take', async () => {
  const { name, to, address } = await house()
  const text = await grant({ name, to })
  await ask(name, { to, grant: text })
  const { wei, transactionId } = await round(text)
  // Set the funds so that one fee bump is possible.
  const { gas_limit: gas, max_fee: price } = await world.db.selectFrom('attempts').select(['gas_limit', 'max_fee']).where('transaction_id', '=', transactionId!).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(BigInt(wei!) + 2n * BigInt(gas) * fromWord(price!), 10n * COIN)
  await world.mine()
  assert.equal(await balanceOf(to), BigInt(wei!))
  const left = await balanceOf(address)
  assert.ok(left < COIN / 1_000n && left > 0n, `${left} left`)
  // The sponsor has no funds left.
  const more = await grant({ name, to })
  await world.rpc('anvil_setBalance', address, '0x0')
  await world.mine()
  await ask(name, { to, grant: more })
  assert.match((await round(more)).refusal!, /^insufficient_funds/)
})

test('of all that is there what an open transaction may take stays', async () => {
  const { name, to } = await house()
  const first = await grant({ name, to })
  await ask(name, { to, amount: String(4n * COIN), grant: first })
  const { transactionId } = await round(first)
  const rest = await grant({ name, to })
  const { reserved } = await world.db.selectFrom('transactions').select('reserved').where('id', '=', transactionId!).executeTakeFirstOrThrow() // prettier-ignore
  await ask(name, { to, grant: rest })
  const { wei, transactionId: second, refusal } = await round(rest)
  assert.equal(refusal, null)
  const { gas_limit: gas, max_fee: price } = await world.db.selectFrom('attempts').select(['gas_limit', 'max_fee']).where('transaction_id', '=', second!).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(BigInt(wei!) + BigInt(reserved!) + 2n * BigInt(gas) * fromWord(price!), 10n * COIN)
  await world.mine()
  await world.mine()
  assert.equal(await balanceOf(to), 4n * COIN + BigInt(wei!))
})

test('without a grant, by one for another sponsor, address or amount, or by a used one nothing is sent, and no nonce is taken', async () => {
  const [mine, other] = [await house(), await house()]
  const nonsense = `withdrawal_${'A'.repeat(43)}`
  const rows = () => world.db.selectFrom('transactions').select('id').where('sender', 'in', [mine, other].map(({ address }) => fromHex(address))).execute() // prettier-ignore
  let small = ''
  for (const [make, why] of [
    [() => nonsense, /the grant does not exist/i],
    [() => grant({ ...mine, to: other.to }), /sponsor-withdrawal-to/],
    [() => grant(other), /another user/],
    [() => grant(mine, COIN), /exceed the grant/],
  ] as const) {
    const text = (small = await make())
    await ask(mine.name, { to: mine.to, amount: String(2n * COIN), grant: text })
    const { state, refusal } = await round(text)
    assert.equal(state, 'REFUSED')
    assert.match(refusal!, why)
  }
  assert.deepEqual(await rows(), [])
  assert.equal(await balanceOf(mine.to), 0n)
  // A refused withdrawal may be requested again only unchanged.
  await assert.rejects(ask(mine.name, { to: mine.to, amount: '1', grant: small }), pointing('/grant'))
  await assert.rejects(ask(other.name, { to: mine.to, amount: String(2n * COIN), grant: small }), pointing('/grant'))
  assert.equal((await ask(mine.name, { to: mine.to, amount: String(2n * COIN), grant: small })).state, 'ASKED')
})

test('what was refused is not sent by who asks for something else with its grant', async () => {
  const { name, to, address } = await house()
  const text = await grant({ name, to })
  await ask(name, { to, amount: String(20n * COIN), grant: text })
  assert.match((await round(text)).refusal!, /^insufficient_funds/)
  await world.rpc('anvil_setBalance', address, `0x${(30n * COIN).toString(16)}`)
  await world.mine()
  for (const amount of ['1', null]) {
    await assert.rejects(ask(name, { to, amount, grant: text }), pointing('/grant'))
    assert.equal((await round(text)).state, 'REFUSED')
  }
  await world.mine()
  assert.equal(await balanceOf(to), 0n)
  await ask(name, { to, amount: String(20n * COIN), grant: text })
  assert.equal((await round(text)).state, 'SUBMITTED')
})

test('what is away, busy or full for the moment refuses nothing: the next round sends it', async () => {
  const { app } = world.first
  const { signer } = app
  const { name, to } = await house()
  const text = await grant({ name, to })
  await ask(name, { to, amount: String(COIN), grant: text })
  const codes: ErrorCode[] = ['chain_unavailable', 'chain_timeout', 'signer_unavailable', 'database_unavailable', 'overloaded', 'conflict', 'idempotency_in_flight', 'too_many_pending'] // prettier-ignore
  try {
    for (const code of codes) {
      app.signer = { ...signer, check: () => Promise.reject(new AppError(code, 'Not now.')) }
      const { state, refusal } = await round(text)
      assert.deepEqual([state, refusal], ['ASKED', null], code)
    }
  } finally {
    app.signer = signer
  }
  assert.equal((await round(text)).state, 'SUBMITTED')
})

test('what cannot be asked for is refused with its place, and frozen sponsors send nothing back', async () => {
  const { name, to, userId } = await house()
  const text = await grant({ name, to })
  await assert.rejects(ask(name, { to, grant: 'guess' }), pointing('/grant'))
  await assert.rejects(ask(name, { to: '0x12', grant: text }), pointing('/to'))
  for (const amount of ['0', '-1', '1.5', '', '1e18', `${2n ** 256n}`])
    await assert.rejects(ask(name, { to, amount, grant: text }), pointing('/amount'), amount)
  await assert.rejects(ask('NOBODY', { to, grant: text }), (error: unknown) => error instanceof AppError && error.code === 'not_found') // prettier-ignore
  await freezeAccount(world.db, userId)
  await ask(name, { to, grant: text })
  assert.match((await round(text)).refusal!, /^account_frozen/)
  await unfreezeAccount(world.db, userId)
  await ask(name, { to, grant: text })
  assert.equal((await round(text)).state, 'SUBMITTED')
})

const STEPS: Step[] = ['before-bind', 'after-bind', 'after-sign', 'after-store', 'after-broadcast', 'before-answer']
for (const step of STEPS)
  test(`killed at ${step}, it is sent once by whoever comes next`, async () => {
    const { name, to } = await house()
    const text = await grant({ name, to })
    await ask(name, { to, amount: String(COIN), grant: text })
    let deaths = 0
    interruptSteps(world.first.app, async (at) => {
      if (at === step && deaths++ === 0) throw new Error('killed')
    })
    await round(text)
    assert.equal(deaths, 1)
    interruptSteps(world.first.app, null)
    await age(world.first.app, 20)
    await round(text)
    await keep(world)
    await world.mine()
    await round(text)
    await world.mine()
    assert.equal(await balanceOf(to), COIN)
    assert.equal((await round(text)).state, 'MINED')
  })

for (const isReplayed of [true, false])
  test(`a database that lost all of it sends it once when it is asked for again, ${isReplayed ? 'once' : 'before'} it knows the ledger anew`, async () => {
    const { name, to } = await house()
    const text = await grant({ name, to })
    const rewind = await remember(world.first.app)
    await ask(name, { to, grant: text })
    const { wei } = await round(text)
    await world.mine()
    assert.equal(await balanceOf(to), BigInt(wei!))
    await rewind()
    if (isReplayed) await replay(world.first)
    await ask(name, { to, grant: text })
    const again = await round(text)
    await world.mine()
    assert.equal(await balanceOf(to), BigInt(wei!))
    assert.equal(again.wei, wei)
  })
