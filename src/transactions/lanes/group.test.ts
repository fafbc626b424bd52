import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../test/kit/until.ts'
import { watchStatements } from '../../../test/watch-statements.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { newTransactionId, transactionIdOf } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { interruptSteps } from '../crash-points.ts'
import { noteDelegating } from './own-nonces.ts'
import { takeNonce, type Binding } from './take-nonce.ts'

/** Many concurrent writes share commits, and their data is never mixed. */
let world: Writing
before(async () => {
  world = await writing({ MAX_QUEUED_WRITES: '0' })
})
after(() => world.close())

const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const keyedOf = async (writer: Writer) => (await rowsOf(writer)).filter(({ request_hash }) => request_hash !== null)
const idOf = ({ accountId, clientId }: Writer, key: string) =>
  transactionIdOf({ accountId, clientId, route: '/', key }, 0)
const codes = (ends: PromiseSettledResult<unknown>[]): (ErrorCode | 'ok' | 'error')[] =>
  ends.map((end) => (end.status === 'fulfilled' ? 'ok' : end.reason instanceof AppError ? end.reason.code : 'error'))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

const bindingOf = (writer: Writer, key: string | null = null): Binding => ({
  id: key === null ? newTransactionId() : idOf(writer, key),
  requestHash: key === null ? null : Buffer.alloc(32),
  reference: null,
  accountId: writer.accountId,
  clientId: writer.clientId,
  from: writer.address,
  intent: { to: world.probe, data: '0x', value: 0n, abi: '', fn: null, errors: [] },
  terms: { gas: 21_000n, fees: { type: 'legacy', gasPrice: 1n } },
  budget: null,
})
const take = (binding: Binding, first: number | null = 0) =>
  takeNonce(world.first.app, world.first.chain, binding, first)

test('writes of several accounts that arrive together get the nonces of their own account, without a gap', async () => {
  const writers = [await world.writer('many-a'), await world.writer('many-b'), await world.writer('many-c')]
  await world.add(world.first, writers[0]!)
  await Promise.all(upTo(30).map((index) => world.add(world.first, writers[index % 3]!)))
  for (const [index, writer] of writers.entries()) {
    const count = index === 0 ? 11 : 10
    assert.deepEqual(
      (await rowsOf(writer)).map(({ nonce }) => nonce),
      upTo(count),
    )
  }
  await world.mine()
  assert.equal(await world.countOf(writers[0]!), 11n)
  assert.equal(await world.countOf(writers[1]!), 10n)
})

test('a write of an account’s own asks nothing of operations where no sponsor ever was, and of its delegation once one is there', async () => {
  const { app, chain } = world.first
  const { db, clock } = app
  // Cached values remain valid for seconds, however slow this machine is.
  const at = clock.ticks()
  app.clock = { ...clock, ticks: () => at }
  const writer = await world.writer('no-sponsor')
  await world.add(world.first, writer)
  const watch = watchStatements()
  app.db = watch.over(db)
  const asked: string[] = []
  watch.onStatement = (text) => void (/\bfrom "?operations"?/.test(text) && asked.push(text))
  try {
    await world.add(world.first, writer)
    assert.deepEqual(asked, [])
    noteDelegating(chain)
    await world.add(world.first, writer)
    assert.equal(asked.length, 1)
    assert.match(asked[0]!, /"authorization_nonce" is not null/)
  } finally {
    Object.assign(app, { db, clock })
  }
  await world.mine()
})

test('of a group that repeats a key one is bound, and the nonces of the others have no gap', async () => {
  const writer = await world.writer('repeats')
  const ends = await Promise.allSettled(
    ['a', 'a', null, 'b', 'a', null, 'b'].map((key) => take(bindingOf(writer, key))),
  )
  assert.deepEqual(
    ends.map((end) => (end.status === 'fulfilled' ? end.value : end.reason)),
    [{ nonce: 0 }, 'key is taken', { nonce: 1 }, { nonce: 2 }, 'key is taken', { nonce: 3 }, 'key is taken'],
  )
  assert.deepEqual(
    (await keyedOf(writer)).map(({ id }) => id).toSorted(),
    [idOf(writer, 'a'), idOf(writer, 'b')].toSorted(),
  )
})

test('an account at its limit is refused for itself alone, and its keys stay free', async () => {
  const full = await world.writer('full')
  const other = await world.writer('beside-full')
  const ends = await Promise.allSettled(
    upTo(22).map((index) =>
      index % 11 === 10 ? world.add(world.first, other) : world.add(world.first, full, 1, `k${index}`),
    ),
  )
  assert.deepEqual(
    codes(ends).filter((code) => code !== 'ok'),
    upTo(4).map(() => 'too_many_pending'),
  )
  assert.equal((await rowsOf(full)).length, 16)
  assert.equal((await keyedOf(full)).length, 16)
  assert.equal((await rowsOf(other)).length, 2)
})

test('what the database refuses of one write fails that write alone', async () => {
  const writer = await world.writer('refused-alone')
  const ends = await Promise.allSettled([
    take(bindingOf(writer, 'before')),
    take({ ...bindingOf(writer, 'bad'), accountId: 'no uuid' }),
    take(bindingOf(writer, 'after')),
  ])
  assert.deepEqual(codes(ends), ['ok', 'error', 'ok'])
  assert.deepEqual(
    (await rowsOf(writer)).map(({ nonce }) => nonce),
    [0, 1],
  )
})

test('a transaction that ends before its commit binds nothing and takes no key', async () => {
  const writer = await world.writer('in-bind')
  interruptSteps(world.first.app, (step) => {
    if (step === 'in-bind') throw new Error('killed')
  })
  const ends = await Promise.allSettled(upTo(3).map((index) => take(bindingOf(writer, `k${index}`))))
  interruptSteps(world.first.app, null)
  assert.deepEqual(codes(ends), ['error', 'error', 'error'])
  assert.equal((await rowsOf(writer)).length, 0)
  assert.equal((await keyedOf(writer)).length, 0)
})

test('a vacated nonce is taken over by one of many, the others follow it', async () => {
  const writer = await world.writer('vacated')
  await world.add(world.first, writer)
  await take(bindingOf(writer))
  await world.db
    .updateTable('transactions')
    .set({ state: 'VACANT' })
    .where('sender', '=', fromHex(writer.address))
    .where('nonce', '=', 1)
    .execute()
  const answers = await Promise.all(upTo(5).map((index) => world.add(world.first, writer, 1, `v${index}`)))
  assert.deepEqual(
    answers.map(({ answer }) => answer.tx.nonce).toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5],
  )
  await world.mine()
  assert.equal(await world.countOf(writer), 6n)
})

test('an account without a row starts at the count of the chain, and its writes follow each other from there', async () => {
  const writer = await world.writer('imported')
  await world.rpc('anvil_setNonce', writer.address, '0x7')
  // A block must include the transaction, because only a block proves the node's report.
  await world.mine()
  await Promise.all(upTo(6).map(() => world.add(world.first, writer)))
  assert.deepEqual(
    (await rowsOf(writer)).map(({ nonce }) => nonce),
    [7, 8, 9, 10, 11, 12],
  )
})

test('replicas that bind groups of the same accounts at once leave no gap and no stray key', async () => {
  const writers = [await world.writer('replicas-a'), await world.writer('replicas-b')]
  const others = [world.first, await world.replica(), await world.replica()]
  const ends = await Promise.allSettled(
    upTo(30).map((index) => world.add(others[index % 3]!, writers[index % 2]!, 1, `k${index}`)),
  )
  assert.deepEqual(new Set(codes(ends)), new Set(['ok']))
  for (const writer of writers) {
    assert.deepEqual(
      (await rowsOf(writer)).map(({ nonce }) => nonce),
      upTo(15),
    )
    const keyed = await keyedOf(writer)
    assert.equal(keyed.length, 15)
    assert.ok(keyed.every(({ state, hash }) => state === 'SUBMITTED' && hash !== null))
  }
  await world.mine()
  assert.equal(await world.countOf(writers[0]!), 15n)
  assert.equal(await world.countOf(writers[1]!), 15n)
})

test('the first writes of an account that come together ask the node once where it begins, and each account for itself', async () => {
  const [one, two] = [await world.writer('begins-one'), await world.writer('begins-two')]
  const asked: unknown[] = []
  let estimated = 0
  world.first.misbehave(async (method, params, next) => {
    if (method === 'eth_getTransactionCount') {
      asked.push(params[0])
      // Wait until all writes have seen the account without a row: later ones would ask again.
      await until('each write is estimated', () => estimated === 12)
      for (let turn = 0; turn < 100; turn++) await sleep(5)
    }
    const answer = await next()
    if (method === 'eth_estimateGas') estimated++
    return answer
  })
  await Promise.all(upTo(12).map((index) => world.add(world.first, index % 2 === 0 ? one : two)))
  world.first.misbehave(null)
  assert.deepEqual([asked.length, new Set(asked)], [2, new Set([one.address, two.address])])
  await world.mine()
})

test('where an account begins is asked anew when its first write came to nothing', async () => {
  const writer = await world.writer('begins-again')
  let isAway = true
  let asked = 0
  world.first.misbehave(async (method, _params, next) => {
    if (method !== 'eth_getTransactionCount') return next()
    asked++
    if (isAway) throw new RpcUnavailable('the node is away', { timedOut: false })
    return next()
  })
  await assert.rejects(world.add(world.first, writer), { code: 'chain_unavailable' })
  const before = asked
  isAway = false
  await world.add(world.first, writer)
  world.first.misbehave(null)
  assert.ok(asked > before, `${asked} counts`)
  assert.deepEqual(
    (await rowsOf(writer)).map(({ nonce }) => nonce),
    [0],
  )
  await world.mine()
})
