import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { keccak256 } from 'viem/utils'
import { age, keep, remember, replay } from '../../../test/lost-tail.ts'
import { until } from '../../../test/kit/until.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { RecallRequest } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { claim, vacate } from '../lanes/bind.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import { followTransactions } from '../settle/follow.ts'
import { toBound } from '../intent.ts'
import { readTransaction } from '../read/read.ts'
import { reconcileBound } from '../lanes/store.ts'
import { startReplay, untilReplayed } from './replay.ts'
import { interruptSteps } from '../crash-points.ts'
import { appLike } from '../../../test/opened.ts'

/** Order of the actions after the database returned to an earlier state, and rows that are left unchanged. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const stateOf = async (writer: Writer, id: string) => (await readTransaction(world.first.app, writer, id)).state

async function bindAndDie(writer: Writer, amount: number, key: string): Promise<void> {
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(world.add(world.first, writer, amount, key), /killed/)
  interruptSteps(world.first.app, null)
}

test('an id that a repeat has bound again under another nonce is freed for the row that the ledger knows', async () => {
  const writer = await world.writer('out-of-order')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  const back = await remember(world)
  const one = (await world.add(world.first, writer, 10, 'k1')).answer
  const two = (await world.add(world.first, writer, 100, 'k2')).answer
  await back()
  await bindAndDie(writer, 100, 'k2')
  assert.deepEqual((await rowsOf(writer)).map(({ id, nonce }) => [id, nonce]).at(-1), [two.id, 1])
  await replay(world.first)
  assert.deepEqual((await rowsOf(writer)).map(({ id, nonce }) => [id, nonce]).slice(1), [
    [one.id, 1],
    [two.id, 2],
  ])
  await world.mine()
  assert.equal(await world.countOf(writer), 111n)
})

test('a nonce that was bound, never signed and lost is filled, so that what was signed above it is mined', async () => {
  const writer = await world.writer('skipped')
  await world.add(world.first, writer, 1)
  await world.mine()
  const goBack = await remember(world)
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(world.add(world.first, writer, 2))
  interruptSteps(world.first.app, null)
  const { answer } = await world.add(world.first, writer, 4)
  await goBack()
  await replay(world.first)
  await until('it is mined', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    const row = await world.db.selectFrom('transactions').select('state').where('id', '=', answer.id).executeTakeFirst()
    return row?.state === 'MINED' || row?.state === 'FINALIZED'
  })
  assert.equal(await world.countOf(writer), 5n)
})

test('another body is refused under a lost key whose fee was raised since: the first signature knows the request', async () => {
  const writer = await world.writer('raised-and-lost')
  const back = await remember(world)
  const told = (await world.add(world.first, writer, 10, 'k')).answer
  await speedUpTransaction(world.first.app, writer, told.id)
  await back()
  await assert.rejects(
    world.add(world.first, writer, 20, 'k'),
    (error: unknown) => error instanceof AppError && error.code === 'idempotency_key_reused',
  )
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, told)
  await world.mine()
  assert.equal(await world.countOf(writer), 10n)
})

test('older bytes that were mined beside a cancel are MINED by the keeper too: what counts is which hash is in the block', async () => {
  const writer = await world.writer('older-beside-cancel')
  const told = (await world.add(world.first, writer, 10)).answer
  await world.mine()
  const [row] = await rowsOf(writer)
  const dear = { max_fee: toWord(10n ** 12n), max_priority_fee: toWord(10n ** 12n), gas_limit: 21_000 }
  await world.db
    .insertInto('attempts')
    .values({
      ...{ chain_id: row!.chain_id, hash: Buffer.alloc(32, 7), transaction_id: row!.id, raw: Buffer.of(2) },
      ...{ ...dear, is_cancel: true, created_at: new Date(Date.now() + 1_000) },
    })
    .execute()
  await world.db
    .updateTable('transactions')
    .set({ state: 'SUBMITTED', block_number: null, block_hash: null, is_cancel: true, succeeded: null })
    .where('id', '=', row!.id)
    .execute()
  await sql`update attempts set broadcast_at = null where transaction_id = ${row!.id}`.execute(world.db)
  await keep(world)
  assert.equal(await stateOf(writer, told.id), 'MINED')
})

test('a vacated nonce that nothing waits behind is left to the next write: no cancel is paid for', async () => {
  const writer = await world.writer('nothing-behind')
  await world.add(world.first, writer, 1)
  await world.mine()
  await bindAndDie(writer, 10, 'k')
  await vacate(world.first.app, (await rowsOf(writer))[1]!.id)
  await age(world, 60)
  await keep(world)
  assert.equal((await rowsOf(writer))[1]!.state, 'VACANT')
  assert.equal((await world.add(world.first, writer, 100, 'k')).answer.tx.nonce, 1)
  await world.mine()
  assert.equal(await world.countOf(writer), 101n)
})

test('a loss that is noticed during a look is not covered by that look', async () => {
  const { app } = await world.replica()
  const real = app.signer
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let asked = 0
  app.signer = {
    ...real,
    recallSince: async (request) => {
      await gates[asked++]?.promise
      return real.recallSince(request)
    },
  }
  const running = startReplay(app)
  await until('the first look asks', async () => asked === 1)
  running.suspect()
  let isTrusted = false
  const trusted = untilReplayed(app).then(() => (isTrusted = true))
  gates[0]!.resolve()
  await until('the second look asks', async () => asked === 2)
  assert.equal(isTrusted, false)
  gates[1]!.resolve()
  await trusted
  await running.stop()
})

test('a refused nonce is given free by nobody while the ledger is away, nor when somebody else asked for it too', async () => {
  const writer = await world.writer('not-free')
  const { app } = world.first
  const real = app.signer
  app.signer = {
    ...real,
    sign: () => Promise.reject(new AppError('policy_denied', 'no')),
    recall: () => Promise.reject(new AppError('signer_unavailable', 'away')),
  }
  await assert.rejects(world.add(world.first, writer, 1), /no/)
  app.signer = real
  const [row] = await rowsOf(writer)
  assert.equal(row!.state, 'BOUND')
  assert.equal(await claim(app.db, row!.id), true)
  assert.equal(await vacate(app, row!.id), false)
  assert.equal((await rowsOf(writer))[0]!.state, 'BOUND')
})

test('raised bytes are stored before any node has them', async () => {
  const writer = await world.writer('raised-stored')
  const { answer } = await world.add(world.first, writer)
  const stored: boolean[] = []
  world.first.misbehave(async (method, params, next) => {
    if (method === 'eth_sendRawTransaction') {
      const hash = fromHex(keccak256(params[0] as Hex))
      const rows = await world.db.selectFrom('attempts').select('hash').where('hash', '=', hash).execute()
      stored.push(rows.length === 1)
    }
    return next()
  })
  await speedUpTransaction(world.first.app, writer, answer.id)
  await cancelTransaction(world.first.app, writer, answer.id)
  world.first.misbehave(null)
  assert.deepEqual(stored, [true, true])
})

test('every transaction of a block is looked for, wherever in it: also the last of a statement and the first of the next', async () => {
  const { first } = world
  const writer = await world.writer('in-a-large-block')
  const answers = [await world.add(first, writer), await world.add(first, writer), await world.add(first, writer)]
  const [last, next, end] = answers.map(({ answer }) => answer.hash)
  const other = (index: number): Hex => `0x${index.toString(16).padStart(64, '0')}`
  const hashes = Array.from({ length: 1_001 }, (_, index) => other(index + 1))
  Object.assign(hashes, { 499: last, 500: next, 1_000: end })
  const nonces = new Map(answers.map(({ answer }) => [answer.hash, answer.tx.nonce]))
  const nobody: Hex = `0x${'0b'.repeat(20)}`
  const block = {
    ...{ number: 1_000_000, hash: other(1), parentHash: other(2), timestamp: 0, baseFee: 1n },
    receipts: hashes.map((hash) => ({ transactionHash: hash, from: nonces.has(hash) ? writer.address : nobody })),
    prove: () => {
      const outcome = { status: true, gasUsed: 21_000, effectiveGasPrice: 1n }
      return Promise.resolve({ nonces, receipts: new Map(hashes.map((hash) => [hash, outcome])), doubt: null })
    },
  }
  await world.db.transaction().execute((db) => followTransactions.onBlock(db, first.app, first.chain, block))
  assert.deepEqual(
    (await rowsOf(writer)).map(({ state }) => state),
    ['MINED', 'MINED', 'MINED'],
  )
})

test('bytes that the ledger gives in several frames are all stored again, the oldest first', async () => {
  const writer = await world.writer('many-frames')
  const told = (await world.add(world.first, writer, 10)).answer
  const hashes = [told.hash]
  for (let raise = 0; raise < 2; raise++) {
    const { hash } = await speedUpTransaction(world.first.app, writer, told.id)
    hashes.push(hash!)
  }
  await world.db.deleteFrom('attempts').where('transaction_id', '=', told.id).execute()
  const { first } = world
  // Simulate a frame that has space for only one attempt.
  const signer = {
    ...first.app.signer,
    recall: async (request: RecallRequest) => {
      const { attempts, hasMore } = await first.app.signer.recall(request)
      return { attempts: attempts.slice(0, 1), hasMore: hasMore || attempts.length > 1 }
    },
  }
  const [row] = await rowsOf(writer)
  const found = await reconcileBound(appLike(first.app, { signer }), first.chain, toBound(row!))
  assert.deepEqual([found!.first.hash, found!.newest.hash], [hashes[0], hashes[2]])
  const stored = await world.db
    .selectFrom('attempts')
    .select('hash')
    .where('transaction_id', '=', told.id)
    .orderBy('max_fee')
    .execute()
  assert.deepEqual(
    stored.map(({ hash }) => toHex(hash)),
    hashes,
  )
  await world.mine()
  assert.equal(await world.countOf(writer), 10n)
})
