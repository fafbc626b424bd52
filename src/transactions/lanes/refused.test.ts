import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { fakeLedger } from '../../../test/fake-ledger.ts'
import { fakeApp, signed, type FakeApp } from '../../../test/fake-app.ts'
import { parseAbi } from '../../abi/parse.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { newTransactionId, transactionIdOf } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { bind, part, refuseStopped, vacate } from './bind.ts'
import { cancelTransaction, speedUpTransaction } from './change.ts'
import { dryRun } from './dry-run.ts'
import type { Intent } from '../intent.ts'
import { sendTransaction } from './send.ts'
import { interruptSteps } from '../crash-points.ts'
import type { Binding } from './take-nonce.ts'

/** Refusals of the signer or the database, and the state of the nonce afterwards. */
let world: FakeApp
before(async () => {
  world = await fakeApp({ MAX_PENDING_WRITES: '100' })
})
afterEach(async () => {
  interruptSteps(world.app, null)
  for (const table of ['attempts', 'transactions', 'stopped_lanes'] as const) await world.db.deleteFrom(table).execute()
  for (const says of [world.node, world.signer])
    for (const name of Object.keys(says)) Reflect.deleteProperty(says, name)
})
after(() => world.close())

type Account = Awaited<ReturnType<FakeApp['account']>>
const callerOf = (writer: Account) => ({ ...writer, scopes: [] }) as never
const { function: fn } = parseAbi('add(uint256) returns (uint256)')
const intent: Intent = { to: `0x${'c3'.repeat(20)}`, data: '0xc0ffee', value: 3n, abi: 'add()', fn, errors: [] }
const bindingOf = ({ accountId, clientId, address: from }: Account, given: Partial<Binding> = {}): Binding => ({
  ...{ id: newTransactionId(), requestHash: null, reference: null, accountId, clientId, from, intent },
  ...{ terms: { gas: 30_000n, fees: { type: 'legacy', gasPrice: 7n } }, budget: null, ...given },
})
const refusedWith =
  (code: ErrorCode, retryAfter?: number, cause?: unknown) =>
  (error: unknown): boolean =>
    error instanceof AppError && error.code === code && error.retryAfter === retryAfter && error.cause === cause
const rowsOf = ({ address }: Account) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()

/** Makes every call succeed, at 40,000 gas. */
function answers(): void {
  world.mine(1)
  Object.assign(world.node, {
    ...{ eth_estimateGas: () => '0x9c40', eth_getBalance: () => '0xffffffffff', eth_maxPriorityFeePerGas: () => '0x1' },
    ...{
      eth_getCode: () => '0x60',
      eth_getTransactionCount: () => '0x0',
      eth_call: () => `0x${'07'.padStart(64, '0')}`,
    },
    eth_sendRawTransaction: () => new RpcError(-32000, 'already known', undefined),
  })
}

test('a write that loses every race for a nonce is told to repeat', async () => {
  const writer = await world.account('races')
  const { id } = await world.row(writer, { nonce: 4 })
  await assert.rejects(bind(world.app, world.chain, bindingOf(writer, { id })), refusedWith('conflict', 1))
  assert.equal((await rowsOf(writer)).length, 1)
})

test('a nonce that was given free is taken over whole, the lowest first; not by an id that is used, nor by who dies over it', async () => {
  const writer = await world.account('takes-over')
  const used = await world.row(writer, { nonce: 1 })
  const old = { state: 'VACANT', claims: 5, is_cancel: true, request_hash: Buffer.alloc(32, 1), reference: 'old', updated_at: new Date(0), created_at: new Date(0) } as const // prettier-ignore
  await world.row(writer, { ...old, nonce: 3, transitions: [{ state: 'BOUND', at: 'then' }] }, null)
  await world.row(writer, { ...old, nonce: 2, transitions: [{ state: 'BOUND', at: 'then' }] }, null)
  const take = (given: Partial<Binding> = {}) => bind(world.app, world.chain, bindingOf(writer, given))
  await assert.rejects(take({ id: used.id }), refusedWith('idempotency_in_flight', 1))
  const killed = new Error('killed')
  interruptSteps(world.app, (step) => {
    if (step === 'in-bind') throw killed
  })
  await assert.rejects(take(), (error) => error === killed)
  interruptSteps(world.app, null)
  assert.deepEqual(
    (await rowsOf(writer)).map(({ state }) => state),
    ['SUBMITTED', 'VACANT', 'VACANT'],
  )
  const requestHash = Buffer.alloc(32, 2)
  const bound = await take({ requestHash, reference: 'new' })
  assert.equal(bound.nonce, 2)
  const row = await world.rowOf(bound.id)
  assert.deepEqual(
    [row.nonce, row.state, row.claims, row.is_cancel, row.abi, row.transitions, row.gas_limit, row.account_id, row.client_id, row.reference], // prettier-ignore
    [2, 'BOUND', 1, false, 'add()', [], 30_000, writer.accountId, 'demo', 'new'],
  )
  assert.deepEqual(
    [row.target, row.data, row.request_hash!].map((bytes) => toHex(bytes)),
    [intent.to, intent.data, toHex(requestHash)],
  )
  assert.ok(row.created_at > old.created_at && row.updated_at > old.updated_at)
  const next = await take()
  assert.deepEqual([next.nonce, (await world.rowOf(next.id)).reference], [3, null])
  assert.equal((await take()).nonce, 4)
})

test('an intent gives up its nonce, or is parted from it, while it is bound; no other row is touched', async () => {
  const writer = await world.account('parts')
  const bound = await world.row(writer, { nonce: 0, request_hash: Buffer.alloc(32, 1), reference: 'parted' }, null)
  const beside = await world.row(writer, { nonce: 1, request_hash: Buffer.alloc(32, 1) }, null)
  const sent = await world.row(writer, { nonce: 2, request_hash: Buffer.alloc(32, 1) })
  await part(world.app, sent.id)
  assert.equal(await vacate(world.app, sent.id), false)
  await part(world.app, bound.id)
  assert.deepEqual([await world.rowOf(beside.id), await world.rowOf(sent.id)], [beside, sent])
  const [parted] = await rowsOf(writer)
  assert.notEqual(parted!.id, bound.id)
  assert.deepEqual([parted!.state, parted!.request_hash, parted!.reference], ['BOUND', null, null])
  assert.equal(await vacate(world.app, parted!.id), true)
  assert.deepEqual(
    (await rowsOf(writer)).map(({ state }) => state),
    ['VACANT', 'BOUND', 'SUBMITTED'],
  )
})

test('an account is stopped on its network alone', async () => {
  const [writer, other] = [await world.account('stopped'), await world.account('stopped-other')]
  const lane = { nonce: 0, hash: null, reason: 'foreign_nonce' }
  await world.db.insertInto('stopped_lanes').values({ ...lane, chain_id: 1, sender: fromHex(writer.address) }).execute() // prettier-ignore
  await world.db.insertInto('stopped_lanes').values({ ...lane, chain_id: 31_337, sender: fromHex(other.address) }).execute() // prettier-ignore
  await refuseStopped(world.db, { chainId: 31_337, from: writer.address })
  await assert.rejects(refuseStopped(world.db, { chainId: 31_337, from: other.address }), refusedWith('account_stopped')) // prettier-ignore
  await assert.rejects(bind(world.app, world.chain, bindingOf(other)), refusedWith('account_stopped'))
})

test('a nonce that the signer will not sign for and knows nothing of is left behind; the write gets the next under its own id', async () => {
  answers()
  const writer = await world.account('left-behind')
  const asked: SignRequest[] = []
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  world.signer.sign = async (request) => {
    asked.push(request)
    if (asked.length === 1) throw new SignerRefused('nonce_conflict', 'used before the restore')
    return signed('send', request.nonce)
  }
  const idempotency = { key: 'k', route: '/', requestHash: Buffer.alloc(32, 3) }
  const { answer } = await sendTransaction(world.app, callerOf(writer), intent, { idempotency })
  const { accountId, clientId } = writer
  assert.equal(answer.id, transactionIdOf({ accountId, clientId, route: '/', key: 'k' }, 0))
  assert.deepEqual([answer.tx.nonce, asked.map(({ nonce }) => nonce)], [1, [0, 1]])
  const [left] = await rowsOf(writer)
  assert.notEqual(left!.id, answer.id)
  assert.deepEqual([left!.nonce, left!.state, left!.request_hash], [0, 'BOUND', null])
  // The signer always refuses, so an operator has to examine this.
  world.signer.sign = () => Promise.reject(new SignerRefused('nonce_conflict', 'always'))
  await assert.rejects(sendTransaction(world.app, callerOf(writer), intent, { idempotency: null }), refusedWith('database_unavailable', 5)) // prettier-ignore
  assert.equal((await rowsOf(writer)).length, 2 + 64)
})

test('what the signer refuses for sure frees the nonce, what it may have signed does not', async () => {
  answers()
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  const gap = new SignerRefused('nonce_gap', 'not yet')
  const damaged = new SignerRefused('ledger_damaged', 'nobody knows')
  const unknown = new SignerRefused('unknown_account', 'who')
  const denied = new AppError('policy_denied', 'no')
  const away = new AppError('signer_unavailable', 'away')
  for (const [index, [error, state, isTold]] of (
    [
      [gap, 'VACANT', refusedWith('conflict', 5, gap)],
      [unknown, 'VACANT', (told: unknown) => told === unknown],
      [denied, 'VACANT', (told: unknown) => told === denied],
      [damaged, 'BOUND', (told: unknown) => told === damaged],
      [away, 'BOUND', (told: unknown) => told === away],
    ] as const
  ).entries()) {
    const writer = await world.account(`refused-${index}`)
    world.signer.sign = () => Promise.reject(error)
    await assert.rejects(sendTransaction(world.app, callerOf(writer), intent, { idempotency: null }), isTold)
    assert.deepEqual(
      (await rowsOf(writer)).map((row) => row.state),
      [state],
    )
  }
})

test('a dry run names the nonce that a write would get, and what the call returns', async () => {
  answers()
  const writer = await world.account('dry')
  const taken = new Set<number>()
  world.signer.check = async ({ nonce }) => {
    if (taken.has(nonce)) throw new SignerRefused('nonce_conflict', 'taken')
    return { kind: 'send', stored: false, requires: null, rule: 'allowed' }
  }
  const run = () => dryRun(world.app, callerOf(writer), intent)
  world.node.eth_getTransactionCount = () => '0x9'
  const first = await run()
  assert.deepEqual([first.tx.nonce, first.rule, first.status], [9, 'allowed', 'SUCCESS'])
  assert.deepEqual([BigInt(first.gas.hex), BigInt(first.fee.hex)], [60_000n, 60_000n * 21n])
  assert.notEqual(first.response, null)
  world.node.eth_call = () => '0x01'
  assert.deepEqual([(await run()).response, (await run()).outputs], [null, []])
  await world.row(writer, { nonce: 90, chain_id: 1 })
  await world.row(await world.account('dry-other'), { nonce: 80 })
  for (const nonce of [2, 4, 3]) await world.row(writer, { nonce })
  assert.equal((await run()).tx.nonce, 5)
  taken.add(5).add(6)
  assert.equal((await run()).tx.nonce, 7)
  for (const nonce of [1, 0]) await world.row(writer, { nonce, state: 'VACANT' }, null)
  assert.equal((await run()).tx.nonce, 0)
  world.signer.check = () => Promise.reject(new SignerRefused('intent_conflict', 'always'))
  await assert.rejects(run(), refusedWith('database_unavailable', 30))
  const gap = new SignerRefused('nonce_gap', 'not yet')
  world.signer.check = () => Promise.reject(gap)
  await assert.rejects(run(), refusedWith('conflict', 5, gap))
  const unknown = new SignerRefused('unknown_account', 'who')
  world.signer.check = () => Promise.reject(unknown)
  await assert.rejects(run(), (error) => error === unknown)
  assert.equal((await rowsOf(writer)).length, 6)
})

test('two who change a transaction at once: one is told to repeat; a node that has mined it says that it is too late', async () => {
  answers()
  const writer = await world.account('at-once')
  const { id } = await world.row(writer)
  fakeLedger(world.signer).sign(writer, { nonce: 0, intentId: id, maxFeePerGas: '100', maxPriorityFeePerGas: '10' })
  const unknown = new SignerRefused('unknown_account', 'who')
  const away = new AppError('signer_unavailable', 'away')
  for (const change of [cancelTransaction, speedUpTransaction]) {
    world.signer.sign = () => Promise.reject(unknown)
    await assert.rejects(change(world.app, callerOf(writer), id), refusedWith('conflict', 1, unknown))
    world.signer.sign = () => Promise.reject(away)
    await assert.rejects(change(world.app, callerOf(writer), id), (error) => error === away)
  }
  world.signer.sign = async ({ kind, nonce }) => signed(kind, nonce)
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, 'nonce too low', undefined)
  await assert.rejects(speedUpTransaction(world.app, callerOf(writer), id), refusedWith('not_cancellable'))
  await assert.rejects(cancelTransaction(world.app, callerOf(writer), id), refusedWith('not_cancellable'))
})

test('a cancel is signed for what a transfer of nothing costs, a quarter above 21,000 where the node says more', async () => {
  answers()
  const writer = await world.account('cancel-gas')
  for (const [index, [said, gas]] of (
    [
      ['0x5208', '21000'],
      ['0x5209', '26251'],
      ['0x7530', '37500'],
      ['0xcccccc', '16777215'],
      ['0xcccccd', '16777216'],
      ['0xccccce', '16777216'],
      ['0x1000000', '16777216'],
      // More gas than a transaction may have: an invalid response, on a network where a transfer is known to need
      // 21,000.
      ['0x1000001', '21000'],
    ] as const
  ).entries()) {
    const asked: SignRequest[] = []
    world.signer.sign = async (request) => {
      asked.push(request)
      return signed(request.kind, request.nonce)
    }
    world.node.eth_estimateGas = () => said
    const { id } = await world.row(writer, { nonce: index })
    fakeLedger(world.signer).sign(writer, {
      nonce: index,
      intentId: id,
      maxFeePerGas: '100',
      maxPriorityFeePerGas: '10',
    })
    const shown = await cancelTransaction(world.app, callerOf(writer), id)
    assert.equal(shown.isCancel, true)
    assert.deepEqual(
      asked.map((request) => [request.kind, request.gas, request.to, request.value, request.data]),
      [['cancel', gas, writer.address, '0', '0x']],
      said,
    )
    assert.deepEqual(world.asked('eth_estimateGas').at(-1), [{ from: writer.address, to: writer.address, value: '0x0' }, 'latest']) // prettier-ignore
  }
})
