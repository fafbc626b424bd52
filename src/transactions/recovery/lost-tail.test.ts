// tier: default, because it moves money while a database loses rows
import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import {
  age as ageIn,
  keep as keepIn,
  remember as rememberIn,
  rememberWithBlocks,
  replay as replayIn,
} from '../../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { RpcError } from '../../chain/rpc/failures.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import { readTransaction } from '../read/read.ts'
import { startReplay, untilReplayed } from './replay.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { until } from '../../../test/kit/until.ts'

/** The database returns to its state of some commits ago, as after a failover to a replica that lagged. */
let world: Writing
before(async () => {
  world = await writing({ MAX_PENDING_WRITES: '64' })
})
after(() => world.close())

const remember = () => rememberIn(world)
const AGAIN = new Set<ErrorCode>(['idempotency_in_flight', 'overloaded', 'conflict', 'database_unavailable'])
const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const age = (seconds: number) => ageIn(world, seconds)
/** Empties the node's pool. */
const wipePool = () => world.rpc('anvil_dropAllTransactions')

const replay = (replica = world.first) => replayIn(replica)
const keep = () => keepIn(world)

test('a database that goes back is of one moment, whatever is committed while it is remembered', async () => {
  const writer = await world.writer('one-moment')
  await world.add(world.first, writer, 1)
  const remembering = rememberWithBlocks(world)
  // The embedded database executes statements one at a time, so a commit may be between reads of two tables.
  await sql`select 1`.execute(world.db)
  await world.db.transaction().execute(async (db) => {
    await sql`update cursors set updated_at = '2001-01-01'`.execute(db)
    await sql`update transactions set updated_at = '2001-01-01' where account_id = ${writer.accountId}`.execute(db)
  })
  await (
    await remembering
  )()
  const { updated_at } = await world.db.selectFrom('cursors').select('updated_at').executeTakeFirstOrThrow()
  const [row] = await rowsOf(writer)
  assert.equal(row!.updated_at.getFullYear() === 2001, updated_at.getFullYear() === 2001)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('a key whose write the database has lost answers the hash that was told, and nothing is sent twice', async () => {
  const writer = await world.writer('told-once')
  await world.add(world.first, writer, 1)
  const back = await remember()
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await back()
  const again = await world.add(world.first, writer, 10, 'k')
  assert.deepEqual(again.answer, answer)
  assert.equal(again.isReplay, true)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
  const third = await world.add(world.first, writer, 10, 'k')
  assert.deepEqual(third.answer, answer)
})

test('another body under a key that the database has lost is refused', async () => {
  const writer = await world.writer('other-body')
  const back = await remember()
  await world.add(world.first, writer, 1, 'k')
  await back()
  await assert.rejects(world.add(world.first, writer, 2, 'k'), refusedWith('idempotency_key_reused'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('a lost write that cannot be done again is answered as it was told, not refused', async () => {
  const writer = await world.writer('not-again')
  const back = await remember()
  const { answer } = await world.add(world.first, writer, 1, 'k')
  await back()
  world.first.misbehave(async (method, _params, next) => {
    if (method === 'eth_estimateGas') throw new RpcError(3, 'execution reverted', '0x')
    return next()
  })
  const again = await world.add(world.first, writer, 1, 'k')
  assert.deepEqual([again.answer, again.isReplay], [answer, true])
  await assert.rejects(world.add(world.first, writer, 1, 'other'), refusedWith('execution_reverted'))
  world.first.misbehave(null)
})

test('new writes first, then the repeats of lost ones: each key keeps its nonce, and no nonce is passed over', async () => {
  const writer = await world.writer('interleaved')
  await world.add(world.first, writer, 1)
  const back = await remember()
  const told = []
  for (let index = 0; index < 5; index++) told.push((await world.add(world.first, writer, 10, `k${index}`)).answer)
  await back()
  await wipePool()
  const ends = await Promise.all(
    [
      ...[3, 0, 4].map((index) => world.add(world.first, writer, 10, `k${index}`)),
      world.add(world.first, writer, 100),
      world.add(world.first, writer, 100, 'new'),
      ...[2, 1].map((index) => world.add(world.first, writer, 10, `k${index}`)),
    ].map((one) =>
      one.then(
        ({ answer }) => answer,
        (error: unknown) => error,
      ),
    ),
  )
  for (const end of ends) {
    // Requests that met while one of them restored a row are told to retry.
    if (end instanceof Error) assert.ok(refusedWith('idempotency_in_flight')(end), String(end))
  }
  for (const [index, { hash }] of told.entries())
    assert.equal((await world.add(world.first, writer, 10, `k${index}`)).answer.hash, hash)
  await world.add(world.first, writer, 100, 'new')
  await age(40)
  await keep()
  await world.mine()
  await keep()
  await world.mine()
  const rows = await rowsOf(writer)
  assert.deepEqual(
    rows.map(({ nonce }) => nonce),
    rows.map((_, index) => index),
  )
  assert.equal(await world.countOf(writer), 251n)
})

test('the replay takes in what was told, under its own id, and it is sent again where the nodes forgot it too', async () => {
  const writer = await world.writer('replayed')
  await world.add(world.first, writer, 1)
  const back = await remember()
  const plain = (await world.add(world.first, writer, 10)).answer
  const raised = (await world.add(world.first, writer, 100, 'k')).answer
  await speedUpTransaction(world.first.app, writer, raised.id)
  const { hash: newest } = await speedUpTransaction(world.first.app, writer, raised.id)
  const stopped = (await world.add(world.first, writer, 1_000)).answer
  await cancelTransaction(world.first.app, writer, stopped.id)
  const before = await Promise.all(
    [plain, raised, stopped].map(({ id }) => readTransaction(world.first.app, writer, id)),
  )
  await back()
  await wipePool()
  await replay()
  for (const [index, { id, hash }] of [plain, raised, stopped].entries()) {
    const found = await readTransaction(world.first.app, writer, id)
    const { transitions: _, createdAt, updatedAt: __, ...same } = found
    const { transitions: ___, createdAt: wasCreatedAt, updatedAt: ____, ...was } = before[index]!
    assert.deepEqual({ ...same, hashes: same.hashes.toSorted() }, { ...was, hashes: was.hashes.toSorted() })
    assert.ok(Math.abs(Date.parse(createdAt) - Date.parse(wasCreatedAt)) < 60_000)
    assert.equal((await readTransaction(world.first.app, writer, hash)).id, id)
  }
  await keep()
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, raised.id)).hash, newest)
  assert.deepEqual(
    (await rowsOf(writer)).map(({ state }) => state),
    ['MINED', 'MINED', 'MINED', 'CANCELLED'],
  )
  assert.equal(await world.countOf(writer), 111n)
  const { answer, isReplay } = await world.add(world.first, writer, 100, 'k')
  assert.deepEqual([answer, isReplay], [raised, true])
})

test('nothing that was told is cancelled by the keeper for a nonce that was bound again since', async () => {
  const writer = await world.writer('not-outbid')
  const back = await remember()
  const { answer } = await world.add(world.first, writer, 1)
  await back()
  // A write is bound to the same nonce, and its request ends.
  const restore = killAt('after-bind')
  await assert.rejects(world.add(world.first, writer, 10))
  restore()
  await age(40)
  await keep()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, answer.hash)).state, 'MINED')
  assert.equal(await world.countOf(writer), 1n)
})

test('a database that has lost everything, accounts included, is told of every transaction by the ledger', async () => {
  const writer = await world.writer('all-lost')
  const told = []
  for (let index = 0; index < 3; index++) told.push((await world.add(world.first, writer, 1, `k${index}`)).answer)
  await world.mine()
  const address = fromHex(writer.address)
  await world.db.deleteFrom('attempts').execute()
  await world.db.deleteFrom('transactions').execute()
  await world.db.deleteFrom('accounts').where('address', '=', address).execute()
  await world.db
    .updateTable('ledger_cursor')
    .set({ seq: 0, record: '0'.repeat(64) })
    .execute()
  await replay()
  const { user_id, account_id } = await world.db
    .selectFrom('accounts')
    .selectAll()
    .where('address', '=', address)
    .executeTakeFirstOrThrow()
  assert.deepEqual([user_id, account_id], [writer.userId, writer.accountId])
  await keep()
  for (const [index, { id, hash }] of told.entries()) {
    assert.equal((await readTransaction(world.first.app, writer, hash)).id, id)
    assert.deepEqual((await world.add(world.first, writer, 1, `k${index}`)).answer, told[index])
  }
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
})

test('a ledger that is another one is compared from its beginning', async () => {
  const writer = await world.writer('another-ledger')
  const back = await remember()
  const { answer } = await world.add(world.first, writer, 1)
  await back()
  const { ledgerEntries } = await world.signer.health()
  for (const cursor of [
    { seq: ledgerEntries, record: 'ab'.repeat(32) },
    { seq: ledgerEntries + 5, record: 'ab'.repeat(32) },
  ]) {
    await back()
    await world.db.updateTable('ledger_cursor').set(cursor).execute()
    await replay()
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
    assert.equal(
      (await world.db.selectFrom('ledger_cursor').select('seq').executeTakeFirstOrThrow()).seq,
      ledgerEntries,
    )
  }
  await world.mine()
})

test('nothing is bound before the ledger was asked, at the start and after the database was away', async () => {
  const replica = await world.replica()
  const writer = await world.writer('gate')
  const { app } = replica
  const real = app.signer
  let asked = 0
  const { promise: release, resolve } = Promise.withResolvers<void>()
  app.signer = {
    ...real,
    recallSince: async (request) => {
      asked++
      await release
      return real.recallSince(request)
    },
  }
  const running = startReplay(app)
  const beside = await world.writer('beside-the-gate')
  let isAnswered = false
  const written = world.add(replica, writer, 1).then(() => (isAnswered = true))
  await until('the ledger is asked', () => asked > 0)
  // If nothing was lost, a write takes no longer.
  await world.add(world.first, beside, 1)
  assert.equal(isAnswered, false)
  assert.equal((await rowsOf(writer)).length, 0)
  resolve()
  await written
  await untilReplayed(app)
  const before = asked
  running.suspect()
  await untilReplayed(app)
  assert.ok(asked > before)
  app.signer = { ...real, recallSince: () => Promise.reject(new AppError('signer_unavailable', 'away')) }
  running.suspect()
  await assert.rejects(world.add(replica, writer, 1), refusedWith('signer_unavailable'))
  app.signer = real
  await running.stop()
  await world.mine()
})

test('what is in progress is no loss: a look beside writes changes nothing of them', async () => {
  const writer = await world.writer('beside')
  const running = startReplay(world.first.app)
  const answers = await Promise.all(
    Array.from({ length: 24 }, async (_, index) => {
      const one = world.add(world.first, writer, 1, `b${index}`)
      await running.look()
      return (await one).answer
    }),
  )
  await running.stop()
  for (const { id, hash } of answers) {
    const { hashes, transitions } = await readTransaction(world.first.app, writer, id)
    assert.deepEqual(hashes, [hash])
    assert.equal(transitions.length, 1)
  }
  await world.mine()
  assert.equal(await world.countOf(writer), 24n)
})

test('the use of a key whose nonce was filled is found by the ledger too, and left to the next', async () => {
  const writer = await world.writer('filled-and-lost')
  await world.add(world.first, writer, 1)
  const back = await remember()
  const restore = killAt('after-bind')
  await assert.rejects(world.add(world.first, writer, 10, 'k'))
  restore()
  await age(40)
  await keep()
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await back()
  await replay()
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  await keep()
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('of a told write the row came back without its bytes: after the loss was noticed nobody waits for it to count as idle', async () => {
  const writer = await world.writer('half-kept')
  const keeper = world.first.keeper()
  await keeper.round()
  let back: (() => Promise<void>) | null = null
  interruptSteps(world.first.app, async (step) => {
    if (step === 'after-sign') back = await remember()
  })
  const { answer } = await world.add(world.first, writer, 1, 'k')
  interruptSteps(world.first.app, null)
  await back!()
  await wipePool()
  await keeper.round()
  await assert.rejects(readTransaction(world.first.app, writer, answer.id), refusedWith('transaction_not_found'))
  keeper.suspect()
  await keeper.round()
  await keeper.stop()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).hash, answer.hash)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

function killAt(step: Step): () => void {
  interruptSteps(world.first.app, (reached) => {
    if (reached === step) throw new Error(`killed at ${step}`)
  })
  return () => interruptSteps(world.first.app, null)
}

/**
 * The long form: `LOST_TAIL_ROUNDS=50 LOST_TAIL_FROM=950` for the last fifty of a thousand. Each round remembers all the
 * tables, so what came before it costs.
 */
const ROUNDS = Number(process.env.LOST_TAIL_ROUNDS ?? 6)
const FROM = Number(process.env.LOST_TAIL_FROM ?? 0)

test(`a lost tail in the middle of 20 writes, ${ROUNDS} times: none lost, none doubled, every key keeps its hash`, async () => {
  const writers = await Promise.all(Array.from({ length: 4 }, (_, index) => world.writer(`round-${index}`)))
  const expected = new Map<Writer, bigint>(writers.map((writer) => [writer, 0n]))
  for (let round = FROM; round < FROM + ROUNDS; round++) {
    const told = new Map<number, Hex>()
    const write = async (index: number): Promise<Hex> => {
      for (;;) {
        try {
          return (await world.add(world.first, writers[index % 4]!, 1, `${round}-${index}`)).answer.hash
        } catch (error) {
          if (!(error instanceof AppError && AGAIN.has(error.code))) throw error
        }
      }
    }
    const firstHalf = 3 + ((round * 7) % 15)
    const many = async (from: number, to: number) => {
      await Promise.all(Array.from({ length: to - from }, async (_, at) => told.set(from + at, await write(from + at))))
    }
    await many(0, firstHalf)
    const back = await remember()
    await many(firstHalf, 20)
    await back()
    if (round % 2 === 1) await wipePool()
    if (round % 3 === 1) await replay()
    const order = Array.from({ length: 20 }, (_, index) => (index * 7 + round) % 20)
    await Promise.all(order.map(async (index) => assert.equal(await write(index), told.get(index))))
    await replay()
    await keep()
    await world.mine()
    for (const [index, hash] of told) {
      const writer = writers[index % 4]!
      expected.set(writer, expected.get(writer)! + 1n)
      assert.equal((await readTransaction(world.first.app, writer, hash)).hash, hash)
    }
    for (const writer of writers) assert.equal(await world.countOf(writer), expected.get(writer))
  }
  for (const writer of writers) {
    const rows = await rowsOf(writer)
    assert.deepEqual(
      rows
        .filter(({ state }) => state !== 'VACANT')
        .map(({ nonce, state }) => [nonce, state === 'MINED' || state === 'FINALIZED']),
      rows.filter(({ state }) => state !== 'VACANT').map((_, index) => [index, true]),
    )
  }
})
