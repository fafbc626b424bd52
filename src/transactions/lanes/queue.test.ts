// tier: default, because it moves money
import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { parseTransaction, recoverTransactionAddress, type TransactionSerialized } from 'viem'
import { keep, remember, replay } from '../../../test/lost-tail.ts'
import { until } from '../../../test/kit/until.ts'
import { writing, type Fault, type Replica, type Writer, type Writing } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { cancelTransaction, speedUpTransaction } from './change.ts'
import type { Keeper } from '../recovery/keeper.ts'
import { pokeKeeper } from '../recovery/poke.ts'
import { isQueued } from './queue.ts'
import { readTransaction } from '../read/read.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

/**
 * Writes behind the sixteen that a node is sure to retain: they are accepted, signed, stored, and sent as blocks are
 * mined.
 */
let world: Writing
let second: Replica
before(async () => {
  world = await writing()
  second = await world.replica()
})
const keepers: Keeper[] = []
afterEach(async () => {
  for (const replica of [world.first, second]) {
    interruptSteps(replica.app, null)
    replica.misbehave(null)
  }
  await Promise.all(keepers.splice(0).map((keeper) => keeper.stop()))
  // Mine everything, so that the next test's keeper has nothing to send.
  for (let block = 0; block < 8; block++) await world.mine()
})
after(() => world.close())

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)
const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const queuedOf = async ({ address }: Writer): Promise<number[]> => {
  const rows = await world.db
    .selectFrom('transactions as t')
    .select('nonce')
    .where('sender', '=', fromHex(address))
    .where(isQueued('t'))
    .orderBy('nonce')
    .execute()
  return rows.map(({ nonce }) => nonce)
}
const writeMany = (count: number, writer: Writer, replicas = [world.first]) =>
  Promise.all(upTo(count).map((index) => world.add(replicas[index % replicas.length]!, writer, 1, `w${index}`)))
const keeperOf = async (replica: Replica): Promise<Keeper> => {
  const keeper = replica.keeper()
  keepers.push(keeper)
  await keeper.round()
  return keeper
}

/**
 * Records the nonces of an account in the order in which nodes got them, and the maximum that were unmined at a time.
 */
async function watch(writer: Writer, replicas = [world.first, second]) {
  const seen: { nonces: number[]; raws: Hex[]; taken: Set<number>; most: number } = { nonces: [], raws: [], taken: new Set(), most: 0 } // prettier-ignore
  const fault: Fault = async (method, params, next) => {
    if (method !== 'eth_sendRawTransaction') return next()
    const serializedTransaction = params[0] as TransactionSerialized
    const from = await recoverTransactionAddress({ serializedTransaction })
    if (from.toLowerCase() !== writer.address) return next()
    const nonce = parseTransaction(serializedTransaction).nonce ?? 0
    if (!seen.nonces.includes(nonce)) seen.nonces.push(nonce)
    seen.raws.push(serializedTransaction)
    const mined = Number(await world.rpc<Hex>('eth_getTransactionCount', writer.address, 'latest'))
    seen.most = Math.max(seen.most, nonce - mined + 1)
    const answer = await next()
    seen.taken.add(nonce)
    return answer
  }
  for (const replica of replicas) replica.misbehave(fault)
  return seen
}

/** Mines blocks until no write of the account is open. */
async function settle(writer: Writer): Promise<void> {
  await until('everything is mined', async () => {
    await world.mine()
    return (await rowsOf(writer)).every(({ state }) => !['BOUND', 'SUBMITTED', 'VACANT'].includes(state))
  })
}

test('sixty concurrent writes of one account are accepted; a node never has more than sixteen of them, and all are mined in order', async () => {
  const writer = await world.writer('sixty')
  const seen = await watch(writer)
  const answers = await writeMany(60, writer)
  assert.deepEqual(
    answers.map(({ answer }) => answer.tx.nonce).toSorted((a, b) => a - b),
    upTo(60),
  )
  assert.ok(answers.every(({ answer }) => answer.state === 'SUBMITTED'))
  assert.deepEqual([...seen.taken].toSorted((a, b) => a - b), upTo(16)) // prettier-ignore
  assert.deepEqual(
    await queuedOf(writer),
    upTo(60).filter((nonce) => nonce >= 16),
  )
  await keeperOf(world.first)
  for (const sent of [32, 48, 60]) {
    await world.mine()
    await until(`${sent} were sent`, () => seen.taken.size === sent)
    assert.equal(seen.most, 16)
  }
  await world.mine()
  assert.deepEqual(seen.nonces.slice(16), upTo(60).slice(16))
  assert.equal(await world.countOf(writer), 60n)
  assert.deepEqual(await queuedOf(writer), [])
  // The time and blocks since a node got a transaction count from when it left the queue.
  const { rows } = await sql<{ nonce: number; since: boolean; block: number }>`
    select t.nonce, a.created_at > t.created_at + interval '1 millisecond' as since, a.created_block as block
    from transactions t join attempts a on a.transaction_id = t.id where t.sender = ${fromHex(writer.address)} order by t.nonce`.execute(
    world.db,
  )
  assert.deepEqual(new Set(rows.slice(16).map(({ since }) => since)), new Set([true]))
  assert.ok(rows[16]!.block > rows[15]!.block && rows[59]!.block > rows[16]!.block)
  for (const { answer } of answers) {
    const { hash, state } = await readTransaction(world.first.app, writer, answer.id)
    assert.ok(hash === answer.hash && (state === 'MINED' || state === 'FINALIZED'))
  }
})

test('what one replica queued another sends, also when the first is gone in the middle', async () => {
  const writer = await world.writer('other-replica')
  const seen = await watch(writer)
  await writeMany(40, writer, [world.first, second])
  const keeper = await keeperOf(world.first)
  await world.mine()
  await until('the next sixteen were sent', () => seen.taken.size === 32)
  await keeper.stop()
  await world.mine()
  assert.equal(seen.taken.size, 32)
  await keeperOf(second)
  await until('the rest were sent', () => seen.taken.size === 40)
  await settle(writer)
  assert.equal(seen.most, 16)
  assert.equal(await world.countOf(writer), 40n)
})

test('when the queue is full the next write is refused, and says how many there are', async () => {
  const writer = await world.writer('full')
  await writeMany(80, writer)
  await assert.rejects(
    world.add(world.first, writer),
    (error: unknown) =>
      refusedWith('too_many_pending')(error) &&
      (error as AppError).retryAfter === 2 &&
      (error as AppError).message ===
        'The account has 80 unconfirmed writes, and the limit is 80. Nothing was sent. Retry when some of these writes are mined.',
  )
  await keeperOf(world.first)
  await world.mine()
  await world.add(world.first, writer)
  await settle(writer)
  assert.equal(await world.countOf(writer), 81n)
})

test('never more than sixteen have no bytes: the seventeenth waits for a signature, and is refused if none comes', async () => {
  const writer = await world.writer('unsigned')
  const { app } = world.first
  const goOn = Promise.withResolvers<void>()
  const real = app.signer
  app.signer = {
    ...real,
    sign: async (request) => {
      await goOn.promise
      return real.sign(request)
    },
  }
  const many = Promise.allSettled(upTo(40).map((index) => world.add(world.first, writer, 1, `w${index}`)))
  await until('sixteen are bound', async () => (await rowsOf(writer)).length === 16)
  await assert.rejects(world.add(second, writer), (error: unknown) => {
    assert.ok(refusedWith('conflict')(error))
    assert.equal((error as AppError).retryAfter, 5)
    return true
  })
  assert.equal((await rowsOf(writer)).filter(({ state }) => state === 'BOUND').length, 16)
  // Writes of the first replica that waited as long get the same error, and their keys are free.
  goOn.resolve()
  for (const end of await many) assert.ok(end.status === 'fulfilled' || refusedWith('conflict')(end.reason))
  app.signer = real
  await keeperOf(world.first)
  const answers = await writeMany(40, writer)
  assert.equal(new Set(answers.map(({ answer }) => answer.hash)).size, 40)
  await settle(writer)
  assert.equal(await world.countOf(writer), 40n)
})

for (const step of ['after-sign', 'after-store'] as const) {
  test(`a queued write whose process died ${step} is sent in its turn, and not before`, async () => {
    const writer = await world.writer(`killed-${step}`)
    await writeMany(16, writer)
    const seen = await watch(writer)
    interruptSteps(world.first.app, (reached: Step) => {
      if (reached === step) throw new Error('killed')
    })
    await assert.rejects(world.add(world.first, writer, 1, 'killed'), /killed/)
    interruptSteps(world.first.app, null)
    await sql`update transactions set updated_at = updated_at - interval '1 minute'`.execute(world.db)
    await sql`update attempts set broadcast_at = broadcast_at - interval '1 minute'`.execute(world.db)
    const keeper = await keeperOf(world.first)
    // Transactions that a node has are sent again. The seventeenth is queued, so it is not.
    assert.deepEqual(seen.nonces, upTo(16))
    assert.deepEqual(await queuedOf(writer), [16])
    seen.nonces.length = 0
    // A retry gets the hash, and no node is asked.
    const { isReplay } = await world.add(world.first, writer, 1, 'killed')
    assert.equal(isReplay, true)
    await keeper.round()
    assert.deepEqual(seen.nonces, [])
    await settle(writer)
    assert.equal(await world.countOf(writer), 17n)
    assert.equal(seen.most, 16)
  })
}

test('a queued write that is sped up stays queued, and goes with its newest bytes only', async () => {
  const writer = await world.writer('sped-up')
  const answers = await writeMany(20, writer)
  const seen = await watch(writer)
  const last = answers.find(({ answer }) => answer.tx.nonce === 19)!.answer
  const raised = await speedUpTransaction(world.first.app, writer, last.id)
  assert.notEqual(raised.hash, last.hash)
  assert.equal(raised.state, 'SUBMITTED')
  assert.deepEqual(seen.nonces, [])
  assert.deepEqual(await queuedOf(writer), [16, 17, 18, 19])
  const long = new Date(Date.now() - 3_600_000)
  await world.first.app.db.updateTable('attempts').set({ created_at: long }).where('queued_nonce', '=', 19).execute()
  await keeperOf(world.first)
  await settle(writer)
  // The age of a queued transaction remains. For a sent one, the time until a fee bump begins now.
  const attempts = await world.first.app.db
    .selectFrom('attempts')
    .select(['hash', 'created_at'])
    .where('transaction_id', '=', last.id)
    .execute()
  const hours = attempts.map(({ hash, created_at }) => [toHex(hash) === raised.hash, created_at < new Date(Date.now() - 1_800_000)]) // prettier-ignore
  assert.deepEqual(new Map(hours as [boolean, boolean][]), new Map([[true, false], [false, true]])) // prettier-ignore
  const told = await readTransaction(world.first.app, writer, last.hash)
  assert.deepEqual([told.state, told.hash], ['MINED', raised.hash])
  assert.equal(seen.raws.filter((raw) => parseTransaction(raw).nonce === 19).length, 1)
  assert.equal(await world.countOf(writer), 20n)
})

test('a queued write that is cancelled never reaches a node: its cancel does, in its turn', async () => {
  const writer = await world.writer('cancelled')
  const answers = await writeMany(20, writer)
  const seen = await watch(writer)
  const { id } = answers.find(({ answer }) => answer.tx.nonce === 18)!.answer
  await cancelTransaction(world.first.app, writer, id)
  assert.deepEqual(seen.nonces, [])
  await keeperOf(world.first)
  await settle(writer)
  assert.equal((await readTransaction(world.first.app, writer, id)).state, 'CANCELLED')
  const [raw, ...others] = seen.raws.filter((one) => parseTransaction(one).nonce === 18)
  assert.equal(parseTransaction(raw!).to, writer.address)
  assert.deepEqual(others, [])
  assert.equal(await world.countOf(writer), 19n)
})

test('queued writes that the database lost come back from the ledger, and wait for their turn again', async () => {
  const writer = await world.writer('lost')
  await world.add(world.first, writer)
  const back = await remember(world)
  const answers = await writeMany(30, writer)
  await back()
  const seen = await watch(writer)
  await replay(world.first)
  await keep(world)
  assert.equal(seen.most, 16)
  assert.equal((await queuedOf(writer)).length, 15)
  // Their keys return the same responses.
  const again = await writeMany(30, writer)
  assert.deepEqual(
    again.map(({ answer }) => answer.hash),
    answers.map(({ answer }) => answer.hash),
  )
  await keeperOf(world.first)
  await settle(writer)
  assert.equal(seen.most, 16)
  assert.equal(await world.countOf(writer), 31n)
})

test('more than sixteen that a reorganisation gives back go out sixteen at a time', async () => {
  const writer = await world.writer('given-back')
  world.first.chain.finality = 64
  const keeper = await keeperOf(world.first)
  const seen = await watch(writer)
  await writeMany(24, writer)
  await world.mine()
  await until('the rest were sent', () => seen.taken.size === 24)
  await world.mine()
  assert.ok((await rowsOf(writer)).every(({ state }) => state === 'MINED'))
  await keeper.stop()
  // The chain loses both blocks, and the node loses their transactions.
  await world.rpc('anvil_reorg', 2, [])
  await world.rpc('anvil_dropAllTransactions')
  await world.mine()
  assert.ok((await rowsOf(writer)).every(({ state }) => state === 'SUBMITTED'))
  Object.assign(seen, { nonces: [], raws: [], taken: new Set(), most: 0 })
  await keeperOf(world.first)
  assert.deepEqual(seen.nonces, upTo(16))
  await settle(writer)
  assert.deepEqual(seen.nonces, upTo(24))
  assert.equal(seen.most, 16)
  assert.equal(await world.countOf(writer), 24n)
})

test('a write that stays open though it is mined takes one place, and holds nobody up', async () => {
  const writer = await world.writer('stays-open')
  await world.add(world.first, writer)
  await world.mine()
  const stuck = { state: 'SUBMITTED', block_number: null, block_hash: null } as const
  await world.db.updateTable('transactions').set(stuck).where('sender', '=', fromHex(writer.address)).execute()
  const seen = await watch(writer)
  await writeMany(20, writer)
  assert.deepEqual([...seen.taken].toSorted((a, b) => a - b), upTo(16).slice(1)) // prettier-ignore
  await world.mine()
  await keep(world)
  assert.deepEqual(await queuedOf(writer), [])
  await world.mine()
  assert.equal(await world.countOf(writer), 21n)
  await world.db.updateTable('transactions').set({ state: 'FINALIZED' }).where('state', '=', 'SUBMITTED').execute()
})

test('what a block makes room for goes out at once, also while the keeper is busy with something else', async () => {
  const writer = await world.writer('busy')
  await writeMany(17, writer)
  const keeper = await keeperOf(world.first)
  const seen = await watch(writer)
  const busy = await world.writer('busy-beside')
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(world.add(world.first, busy), /killed/)
  interruptSteps(world.first.app, null)
  await sql`update transactions set updated_at = updated_at - interval '1 minute' where state = 'BOUND'`.execute(
    world.db,
  )
  const { app } = world.first
  const real = app.signer
  const goOn = Promise.withResolvers<void>()
  let isAsked = false
  app.signer = {
    ...real,
    recall: async (of) => {
      isAsked = true
      await goOn.promise
      return real.recall(of)
    },
  }
  const round = keeper.round()
  try {
    await until('the keeper asks the signer', () => isAsked)
    await world.mine()
    await until('the seventeenth was sent', () => seen.taken.has(16))
  } finally {
    goOn.resolve()
    app.signer = real
  }
  await round
  pokeKeeper(app, world.first.chain)
  await world.db.updateTable('transactions').set({ state: 'FAILED' }).where('state', '=', 'BOUND').execute()
  await settle(writer)
})
