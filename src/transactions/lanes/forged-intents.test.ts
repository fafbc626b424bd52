import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { whileMining } from '../../../test/interrupted.ts'
import type { Writer } from '../../../test/writing.ts'
import { writeBatch } from '../../contracts/write-batch.ts'
import { writeContract } from '../../contracts/write.ts'
import { AppError, describeError, type ErrorCode } from '../../errors.ts'
import { transferTokens } from '../../transfers/send.ts'
import { until } from '../../../test/kit/until.ts'
import { refusedWith } from '../../../test/kit/refused.ts'
import { startReplay } from '../recovery/replay.ts'
import { newTransactionId, transactionIdOf, type Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { sql } from 'kysely'
import { cancelTransaction, speedUpTransaction } from './change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { packCalls } from '../../gas/operation.ts'
import { SUBMIT_ROUTE, submitTransaction } from './submit.ts'

/**
 * An attacker with write access to the database cannot use a user's token for another write: a retry signs the content
 * of its request, or nothing.
 */
let world: Sponsored
const COIN = 10n ** 18n
const THIEF: Hex = `0x${'e1'.repeat(20)}`
const SOMEONE: Hex = `0x${'b2'.repeat(20)}`
/** wei, of each write that sends native currency */
const AMOUNT = 1_000n

before(async () => {
  world = await sponsored({}, 'chatelaine')
})
afterEach(() => interruptSteps(world.first.app, null))
after(() => world.close())

const balanceOf = (address: Hex) => world.balanceOf(address)
const mining = <T>(work: Promise<T>) => whileMining(world, work)

/** Makes a request that leaves its row bound, as if the signer were unavailable. */
async function leftBound(step: Step, request: () => Promise<unknown>): Promise<void> {
  interruptSteps(world.first.app, (reached) => {
    if (reached === step) throw new Error('killed')
  })
  await assert.rejects(mining(request()), /killed/)
  interruptSteps(world.first.app, null)
  // Make the rows old, so that no process is assumed to handle them.
  for (const table of ['transactions', 'operations'] as const)
    await world.db.updateTable(table).set({ updated_at: sql<Date>`now() - interval '3 seconds'` }).where('state', '=', 'BOUND').execute() // prettier-ignore
}

function codeOf(error: unknown): ErrorCode {
  if (error instanceof AppError) return error.code
  throw error
}

/**
 * Checks that a retry is rejected, or does what its request says: no other account gets funds, and gas has its usual
 * cost.
 */
async function repeats(request: Request, writer: Writer): Promise<void> {
  const held = await balanceOf(writer.address)
  const [before, someone] = [await balanceOf(THIEF), await balanceOf(SOMEONE)]
  // The keeper works at the same row: who meets it is asked to retry.
  const outcome = await until('the retry has an outcome', async () => {
    const code = await mining(request(writer)).then(() => 'done' as const, codeOf)
    return code === 'done' || !describeError(code).retryable ? code : null
  })
  await world.mine()
  assert.equal((await balanceOf(THIEF)) - before, 0n)
  const sent = (await balanceOf(SOMEONE)) - someone
  const spent = held - (await balanceOf(writer.address)) - sent
  assert.ok(spent < COIN / 1_000n, `${spent} wei of fees`)
  const isDone = outcome === 'done'
  if (!isDone) assert.equal(outcome, 'idempotency_key_reused')
  assert.equal(sent, isDone && request === pay ? AMOUNT : 0n)
  assert.equal(await world.countOf(writer), isDone ? ADDED.get(request) : 0n)
}

const DEAR = toWord(900n * 10n ** 9n)
const pay = (writer: Writer) =>
  submitTransaction(world.first.app, writer, { to: SOMEONE, value: String(AMOUNT) }, { idempotencyKey: 'key' })
const call = (writer: Writer) =>
  writeContract(world.first.app, writer, { address: world.probe, abi: 'add(uint256)', args: ['1'] }, { idempotencyKey: 'key' }) // prettier-ignore
const batch = (writer: Writer) =>
  writeBatch(
    world.first.app,
    writer,
    { calls: [1, 2].map((amount) => ({ address: world.probe, abi: 'add(uint256)', args: [String(amount)] })) },
    { idempotencyKey: 'key' },
  )

type Request = (writer: Writer) => Promise<unknown>
/** amounts by which a request raises the caller's count */
const ADDED = new Map<Request, bigint>([[pay, 0n], [call, 1n], [batch, 3n]]) // prettier-ignore

let people = 0
const rich = (gas: 'self' | 'sponsor') => {
  world.first.chain.gas = gas
  return world.writer(`rich-${people++}`)
}

/** Forges every column except id and state: an attacker with write access can write anything. */
const forgedRow = ({ accountId, clientId, address }: Writer) => ({
  ...{ account_id: accountId, client_id: clientId, chain_id: 31_337, sender: fromHex(address), nonce: 0 },
  ...{ target: fromHex(THIEF), value: toWord(COIN), data: Buffer.alloc(0), gas_limit: 21_000, abi: '' },
  ...{ max_fee: DEAR, max_priority_fee: DEAR, request_hash: null, reserved: '0', transitions: '[]' },
  updated_at: sql<Date>`now() - interval '3 seconds'`,
})

const FORGED_TRANSACTIONS = {
  'another recipient': { target: fromHex(THIEF) },
  'another amount': { value: toWord(COIN) },
  'another call': { data: fromHex('0xdeadbeef') },
  'another fee': { max_fee: DEAR, max_priority_fee: DEAR },
  'another recipient, of no known request': { target: fromHex(THIEF), request_hash: null },
}
for (const [what, forged] of Object.entries(FORGED_TRANSACTIONS))
  for (const [name, request] of Object.entries({ pay, call }))
    test(`a changed row, ${what}, has a repeat of ${name} sign nothing that was not asked for`, async () => {
      const writer = await rich('self')
      await leftBound('after-bind', () => request(writer))
      await world.db.updateTable('transactions').set(forged).where('account_id', '=', writer.accountId).execute()
      await repeats(request, writer)
    })

test('a row that nobody asked for, under the id of a key that can be guessed, pays nobody', async () => {
  const writer = await rich('self')
  const scope = { accountId: writer.accountId, clientId: writer.clientId, route: SUBMIT_ROUTE, key: 'key' }
  const row = { ...forgedRow(writer), id: transactionIdOf(scope, 0), state: 'BOUND' }
  await world.db.insertInto('transactions').values(row as never).execute() // prettier-ignore
  await repeats(pay, writer)
})

test('a nonce that is filled costs what the market asks, whatever its row says', async () => {
  const writer = await rich('self')
  await leftBound('after-bind', () => pay(writer))
  await world.db.updateTable('transactions').set({ max_fee: DEAR, max_priority_fee: DEAR }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
  const held = await balanceOf(writer.address)
  await age(world, 40)
  await keep(world)
  await world.mine()
  const spent = held - (await balanceOf(writer.address))
  assert.ok(spent > 0n && spent < COIN / 1_000n, `${spent} wei`)
})

test('a raised fee outbids what was signed, whatever the database says of that', async () => {
  const writer = await rich('self')
  const { answer } = await pay(writer)
  await world.db.updateTable('attempts').set({ max_fee: DEAR, max_priority_fee: DEAR }).where('transaction_id', '=', answer.id).execute() // prettier-ignore
  await world.db.updateTable('transactions').set({ max_fee: DEAR, max_priority_fee: DEAR }).where('id', '=', answer.id).execute() // prettier-ignore
  const held = await balanceOf(writer.address)
  await speedUpTransaction(world.first.app, writer, answer.id)
  await cancelTransaction(world.first.app, writer, answer.id)
  await world.mine()
  const spent = held - (await balanceOf(writer.address))
  assert.ok(spent > 0n && spent < COIN / 1_000n, `${spent} wei`)
})

test('a transaction that nobody asked for, as if it was sent, cannot be raised', async () => {
  const writer = await rich('self')
  const hash = Buffer.alloc(32, 7)
  const row = { ...forgedRow(writer), id: newTransactionId(), state: 'SUBMITTED', hash }
  await world.db.insertInto('transactions').values(row as never).execute() // prettier-ignore
  await world.db.insertInto('attempts').values({ chain_id: 31_337, hash, transaction_id: row.id, raw: Buffer.alloc(1), gas_limit: 21_000, max_fee: DEAR, max_priority_fee: DEAR, is_cancel: false } as never).execute() // prettier-ignore
  const refused = (error: unknown) => error instanceof AppError && error.code === 'conflict'
  await assert.rejects(speedUpTransaction(world.first.app, writer, row.id), refused)
  await world.mine()
  assert.equal(await balanceOf(THIEF), 0n)
})

const FORGED_OPERATIONS = {
  'other calls': { calls: packCalls([{ to: fromHex(THIEF), value: COIN, data: Buffer.alloc(0) }]) },
  'other calls, of no known request': { calls: packCalls([{ to: fromHex(THIEF), value: COIN, data: Buffer.alloc(0) }]), request_hash: null }, // prettier-ignore
}
for (const [what, forged] of Object.entries(FORGED_OPERATIONS))
  for (const [name, request] of Object.entries({ pay, call, batch }))
    test(`a changed row of what a sponsor sends, ${what}, has a repeat of ${name} sign nothing that was not asked for`, async () => {
      const writer = await rich('sponsor')
      await leftBound('after-bind-operation', () => request(writer))
      await world.db.updateTable('operations').set(forged).where('account_id', '=', writer.accountId).execute()
      await repeats(request, writer)
    })

test('a changed row of a top-up pays nobody else, and no more than was asked for', async () => {
  world.first.chain.gas = 'topup'
  const writer = await world.poor('topped-up')
  const held = await balanceOf(world.house.address)
  await leftBound('after-bind', () => call(writer))
  await world.db
    .updateTable('transactions')
    .set({ target: fromHex(THIEF), value: toWord(COIN) })
    .where('sender', '=', fromHex(world.house.address))
    .where('state', '=', 'BOUND')
    .execute()
  await mining(call(writer)).catch(() => {})
  await world.mine()
  assert.equal(await balanceOf(THIEF), 0n)
  assert.ok(held - (await balanceOf(world.house.address)) < COIN / 1_000n)
})

test('what a row says was told is signed by nobody, when the row is another by the time that it is answered', async () => {
  const writer = await rich('self')
  const { app } = world.first
  const body = { tokenType: 'NATIVE', amount: '0.000000000000001', toAddress: SOMEONE } as const
  const send = () => transferTokens(app, writer, body, { forms: new Map() as never, lookUp: () => {}, idempotencyKey: 'key' }) // prettier-ignore
  await leftBound('after-bind', send)
  const mine = world.db.updateTable('transactions').where('account_id', '=', writer.accountId)
  const hash = Buffer.alloc(32, 9)
  await mine.set({ target: fromHex(THIEF), value: toWord(COIN), state: 'SUBMITTED', hash }).execute()
  const { id } = await world.db.selectFrom('transactions').select('id').where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.insertInto('attempts').values({ chain_id: 31_337, hash, transaction_id: id, raw: Buffer.alloc(1), gas_limit: 21_000, max_fee: DEAR, max_priority_fee: DEAR, is_cancel: false } as never).execute() // prettier-ignore
  // The request has looked up its key, and waits for the comparison with the signer's ledger.
  const real = app.signer
  const gate = Promise.withResolvers<void>()
  const { promise: waiting, resolve: waits } = Promise.withResolvers<void>()
  app.signer = { ...real, recallSince: async (asked) => gate.promise.then(() => real.recallSince(asked)) }
  const { clock } = app
  const replaying = startReplay(app)
  app.clock = { ...clock, after: (ms, call) => (ms > 4_000 && waits(), clock.after(ms, call)) }
  try {
    const before = await balanceOf(THIEF)
    const answer = mining(send())
    answer.catch(() => {})
    await waiting
    await world.db.deleteFrom('attempts').where('transaction_id', '=', id).execute()
    await mine.set({ state: 'BOUND', hash: null, updated_at: sql<Date>`now() - interval '3 seconds'` }).execute()
    gate.resolve()
    const refusal = await answer.then(() => null, (error: unknown) => error) // prettier-ignore
    await world.mine()
    assert.equal((await balanceOf(THIEF)) - before, 0n)
    assert.ok(refusedWith('idempotency_in_flight')(refusal))
  } finally {
    Object.assign(app, { signer: real, clock })
    await replaying.stop()
  }
})
