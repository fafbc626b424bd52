import { refusedWith } from '../../../test/kit/refused.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { writeBatch } from '../../contracts/write-batch.ts'
import { allowSponsor } from '../../devnet/sponsor.ts'
import { cancelData } from '../../gas/dispatch.ts'
import type { Hex } from '../../ids.ts'
import type { SignOuterRequest } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { cancelTransaction } from '../lanes/change.ts'
import { interruptSteps } from '../crash-points.ts'
import { withWall } from '../../../test/kit/clock.ts'
import { systemClock } from '../../clock.ts'

/** When an operation is put into a transaction, into another one, and into none. */
let world: Sponsored
/** requests to the signer for sponsors' transactions, in order */
const asked: SignOuterRequest[] = []
before(async () => {
  world = await sponsored()
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOuter: (request) => {
      asked.push(request)
      return signer.signOuter(request)
    },
  }
})
afterEach(async () => {
  world.first.app.clock = systemClock
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, shown, rowOf } = operationsOf(() => world)
const outersOf = (id: string) => world.db.selectFrom('carried').selectAll().where('operation_id', '=', id).execute()

/** Creates a user who has delegated, so that the next write is only an operation. */
async function delegated(name: string): Promise<Writer> {
  const writer = await world.poor(name)
  await add(writer)
  await world.mine()
  return writer
}

/** Creates an operation whose transaction was cancelled, and which waits to be packed again. */
async function unpacked(writer: Writer, key?: string): Promise<string> {
  const { answer } = await add(writer, 2, key)
  await world.cancelOuter((await rowOf(answer.id)).outer_id!)
  return answer.id
}

/** Uses up an id by a sender with permission for the space that is none of our sponsors. */
async function useElsewhere(id: string): Promise<void> {
  const { sequence, space } = await rowOf(id)
  const [, other] = await world.rpc<Hex[]>('eth_accounts')
  await allowSponsor(world.nodeUrl, other!, world.name)
  const data = toHex(cancelData(Buffer.from(space), [BigInt(sequence)]))
  await world.rpc('eth_sendTransaction', { from: other, to: world.dispatcher, data, gas: '0x30d40' })
  await world.mine()
}

test('an operation is not packed again when its deadline is near by the clock of this server', async () => {
  const writer = await delegated('late-by-ours')
  const id = await unpacked(writer)
  // 20 seconds before its last one, and the chain is not that far.
  world.first.app.clock = withWall(() => (Math.floor(Date.now() / 1_000) + 580) * 1_000)
  const before = asked.length
  await keep(world)
  await keep(world)
  assert.equal(asked.length, before)
  assert.equal((await outersOf(id)).length, 1)
  assert.equal((await rowOf(id)).state, 'SUBMITTED')
  // With enough time left, it is packed.
  world.first.app.clock = systemClock
  await keep(world)
  await world.mine()
  assert.deepEqual([asked.length, (await rowOf(id)).state], [before + 1, 'MINED'])
})

test('before an operation is packed again the dispatcher is asked, at a block, whether its id is used; and where it is, it is not', async () => {
  const writer = await delegated('used-elsewhere')
  const id = await unpacked(writer)
  await useElsewhere(id)
  assert.equal((await rowOf(id)).state, 'CANCELLED')
  // Remove the outcome, as if its block were before the first followed one.
  await world.db.updateTable('operations').set({ state: 'SUBMITTED', block_number: null, block_hash: null }).where('id', '=', id).execute() // prettier-ignore
  const head = world.first.chain.head.current()!.hash
  world.first.calls.length = 0
  const before = asked.length
  await keep(world)
  assert.equal(asked.length, before)
  assert.equal((await outersOf(id)).length, 1)
  const questions = world.first.calls.filter(({ method, params }) => method === 'eth_call' && (params[0] as { to: Hex }).to === world.dispatcher) // prettier-ignore
  assert.ok(questions.some(({ params }) => (params[1] as { blockHash?: Hex }).blockHash === head))
})

test('what another sends who may is settled by its events like what our sponsors send, and taken back with its block', async () => {
  const writer = await delegated('sent-by-another')
  const { answer } = await add(writer, 2)
  const outer = await world.db.selectFrom('transactions').select('data').where('id', '=', (await rowOf(answer.id)).outer_id!).executeTakeFirstOrThrow() // prettier-ignore
  await world.rpc('anvil_dropAllTransactions')
  const [, other] = await world.rpc<Hex[]>('eth_accounts')
  await allowSponsor(world.nodeUrl, other!, world.name)
  const before = await world.rpc('evm_snapshot')
  await world.rpc('eth_sendTransaction', {
    from: other,
    to: world.dispatcher,
    data: toHex(outer.data!),
    gas: '0x7a120',
  })
  await world.mine()
  const told = await shown(writer, answer.id)
  assert.deepEqual([told.state, await world.countOf(writer)], ['MINED', 3n])
  // The budget was not charged.
  await keep(world)
  assert.deepEqual([(await rowOf(answer.id)).charged, (await outersOf(answer.id)).length], ['0', 1])
  await world.rpc('evm_revert', before)
  for (let block = 0; block < 2; block++) await world.mine()
  await age(world.first.app, 40)
  await keep(world)
  await world.mine()
  await until('it is done by ours', async () => {
    const row = await rowOf(answer.id)
    const { block_hash: carriedIn } = await world.db.selectFrom('transactions').select('block_hash').where('id', '=', row.outer_id!).executeTakeFirstOrThrow() // prettier-ignore
    return row.block_hash !== null && carriedIn !== null && toHex(carriedIn) === toHex(row.block_hash)
  })
  const { transitions } = await rowOf(answer.id)
  assert.deepEqual(transitions.slice(0, 4).map(({ state }) => state), ['SUBMITTED', 'MINED', 'SUBMITTED', 'MINED']) // prettier-ignore
  assert.equal(await world.countOf(writer), 3n)
})

test('a transaction that is stored after what it carries was done by another takes nothing back', async () => {
  const writer = await delegated('linked-late')
  let isDead = false
  interruptSteps(world.first.app, (step) => {
    if (step !== 'after-sign-outer' || isDead) return
    isDead = true
    throw new Error('killed')
  })
  await assert.rejects(add(writer, 2, 'late'))
  interruptSteps(world.first.app, null)
  const unstored = await world.db.selectFrom('transactions').select('id').where('state', '=', 'BOUND').executeTakeFirstOrThrow() // prettier-ignore
  await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 5_000) }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
  // Its transaction has a higher nonce than the one without bytes, and is mined first if that is sent late.
  const { answer } = await add(writer, 2, 'late')
  const row = await rowOf(answer.id)
  const done = { state: 'MINED', block_number: 1, block_hash: Buffer.alloc(32, 1) } as const
  await world.db.updateTable('operations').set(done).where('id', '=', answer.id).execute()
  await world.db.updateTable('transactions').set({ updated_at: new Date(Date.now() - 60_000) }).where('id', '=', unstored.id).execute() // prettier-ignore
  await keep(world)
  const stored = await world.db.selectFrom('transactions').select('state').where('id', '=', unstored.id).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(stored.state, 'SUBMITTED')
  assert.equal((await outersOf(answer.id)).length, 2)
  const after = await rowOf(answer.id)
  assert.deepEqual([after.state, after.outer_id, after.transitions.length], ['MINED', row.outer_id, row.transitions.length]) // prettier-ignore
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 3n)
})

test('a batch under a key that was used is another one where anything of a call differs, its value too', async () => {
  const writer = await delegated('batch-keys')
  await world.rpc('anvil_setBalance', writer.address, '0xde0b6b3a7640000')
  await world.mine()
  const one = { address: world.target, abi: 'ping() payable', args: [], value: '5' }
  const two = { address: world.probe, abi: 'add(uint256)', args: ['1'] }
  const batch = (calls: (typeof one | typeof two)[]) =>
    writeBatch(world.first.app, writer, { calls }, { idempotencyKey: 'batch' })
  const { answer } = await batch([one, two])
  const repeated = await batch([{ ...one }, { value: '0', ...two }])
  assert.deepEqual([repeated.isReplay, repeated.answer.id], [true, answer.id])
  const others = [
    [{ ...one, value: '6' }, two],
    [{ ...one, address: world.probe }, two],
    [{ ...one, abi: 'ping()  payable' }, two],
    [one, { ...two, args: ['2'] }],
    [one, { ...two, value: '1' }],
    [two, one],
    [one, two, two],
  ]
  for (const calls of others) await assert.rejects(batch(calls), refusedWith('idempotency_key_reused'))
  await world.mine()
  assert.equal(await world.countOf(writer), 2n)
})

test('a cancel of an operation leaves alone what carries those of other people', async () => {
  const [cancels, other] = [await delegated('shares'), await delegated('shares-with')]
  const [wanted, beside] = await world.inOne([() => add(cancels, 2), () => add(other, 2)])
  const row = await rowOf(wanted!.answer.id)
  assert.equal((await rowOf(beside!.answer.id)).outer_id, row.outer_id)
  await cancelTransaction(world.first.app, cancels, wanted!.answer.id)
  const attempts = await world.db.selectFrom('attempts').select('is_cancel').where('transaction_id', '=', row.outer_id!).execute() // prettier-ignore
  assert.deepEqual(attempts, [{ is_cancel: false }])
  await world.mine()
  assert.equal((await shown(other, beside!.answer.id)).state, 'MINED')
  assert.equal(await world.countOf(other), 3n)
})

test('what its person wants cancelled is not packed again when what carried it beside others is lost; the others are', async () => {
  const [cancels, other] = [await delegated('wanted-away'), await delegated('wanted')]
  const [away, beside] = await world.inOne([() => add(cancels, 2), () => add(other, 2)])
  const { outer_id: outer } = await rowOf(away!.answer.id)
  assert.equal((await rowOf(beside!.answer.id)).outer_id, outer)
  await cancelTransaction(world.first.app, cancels, away!.answer.id)
  await world.cancelOuter(outer!)
  await world.mine()
  await until('the other is done', async () => {
    await keep(world)
    await world.mine()
    return /MINED|FINALIZED/.test((await shown(other, beside!.answer.id)).state)
  })
  assert.equal((await rowOf(away!.answer.id)).outer_id, outer)
  assert.deepEqual([await world.countOf(cancels), await world.countOf(other)], [1n, 3n])
})

test('a transaction has no more bytes than nodes take, whatever gas is left in it', async () => {
  const writers: Writer[] = []
  for (let index = 0; index < 5; index++) writers.push(await delegated(`long-${index}`))
  const data: Hex = `0x5c36b186${'00'.repeat(31_000)}`
  const ends = await world.inOne(writers.map((writer) => () => world.submit(writer, { to: world.target, data })))
  const outers = await Promise.all(ends.map(async ({ answer }) => (await rowOf(answer.id)).outer_id!))
  const rows = await world.db.selectFrom('transactions').select('data').where('id', 'in', outers).execute()
  assert.ok(rows.length > 1 && rows.length < 5, `${rows.length} transactions`)
  for (const row of rows) assert.ok(row.data.length < 100_000, `${row.data.length} bytes`)
  await world.mine()
  await world.mine()
  for (const [index, writer] of writers.entries())
    assert.match((await shown(writer, ends[index]!.answer.id)).state, /MINED|FINALIZED/)
})

// This test is the last: the chain's clock cannot be set back.
test('an operation is not packed again when its deadline is near by the clock of the chain; past it it has failed, where its id is not used', async () => {
  const writer = await delegated('late-by-the-chain')
  const { answer } = await add(writer, 2)
  const row = await rowOf(answer.id)
  await world.rpc('anvil_dropAllTransactions')
  await world.rpc('evm_setNextBlockTimestamp', row.deadline - 20)
  await world.mine()
  await world.cancelOuter(row.outer_id!)
  const before = asked.length
  await keep(world)
  assert.equal(asked.length, before)
  assert.equal((await outersOf(answer.id)).length, 1)
  assert.equal((await rowOf(answer.id)).state, 'SUBMITTED')
  await world.rpc('evm_setNextBlockTimestamp', row.deadline + 1)
  await world.mine()
  // It does not fail at a block that the follower lacks, because no reorganisation would undo that.
  const { number, hash } = world.first.chain.head.current()!
  const storeAs = (of: Hex) => world.db.updateTable('blocks').set({ hash: fromHex(of) }).where('number', '=', number).execute() // prettier-ignore
  await storeAs(`0x${'ab'.repeat(32)}`)
  await keep(world)
  assert.equal((await rowOf(answer.id)).state, 'SUBMITTED')
  await storeAs(hash)
  await until('it has failed', async () => {
    await keep(world)
    await world.mine()
    return (await rowOf(answer.id)).state === 'FAILED'
  })
  assert.equal(await world.countOf(writer), 1n)
})

test('a write of a process whose clock is slow by more than its ten minutes is done all the same', async () => {
  const writer = await delegated('slow-clock')
  world.first.app.clock = withWall(() => Date.now() - 700_000)
  const { answer } = await add(writer, 2)
  world.first.app.clock = systemClock
  await world.mine()
  assert.deepEqual([(await shown(writer, answer.id)).state, await world.countOf(writer)], ['MINED', 3n])
})
