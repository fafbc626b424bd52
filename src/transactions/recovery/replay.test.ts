import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { testCluster } from '../../../test/kit/database.ts'
import { fakeApp, type FakeApp } from '../../../test/fake-app.ts'
import { fakeLedger } from '../../../test/fake-ledger.ts'
import { until } from '../../../test/kit/until.ts'
import { AppError } from '../../errors.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { startReplay, untilReplayed } from './replay.ts'
import { appLike } from '../../../test/opened.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'

const onPostgres = { skip: testCluster === null ? 'needs PostgreSQL: set TEST_DATABASE_URL' : false }

/** The comparison of database and ledger, page by page, and the writes that wait for it. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
afterEach(async () => {
  for (const table of ['attempts', 'transactions'] as const) await world.db.deleteFrom(table).execute()
  await moveTo(0, '0'.repeat(64))
  for (const verb of ['recall', 'recallSince'] as const) Reflect.deleteProperty(world.signer, verb)
})
after(() => world.close())

const moveTo = (seq: number, record: string) => world.db.updateTable('ledger_cursor').set({ seq, record }).execute()
const cursor = () => world.db.selectFrom('ledger_cursor').select(['seq', 'record']).executeTakeFirstOrThrow()
const hashes = async () =>
  (await world.db.selectFrom('transactions').select('hash').orderBy('nonce').orderBy('hash').execute()).map(({ hash }) => hash && Buffer.from(hash).toString('hex')) // prettier-ignore
const digits = (all: { hash: string }[]) => all.map(({ hash }) => hash.slice(2))
/** Compares like a server that starts. */
async function look(): Promise<void> {
  const replay = startReplay(world.app)
  try {
    await replay.look()
  } finally {
    await replay.stop()
  }
}

test('the ledger is read to its end page by page, and what was compared is not asked for again', async () => {
  const writer = await world.account('pages')
  const ledger = fakeLedger(world.signer, 3)
  for (let nonce = 0; nonce < 7; nonce++) ledger.sign(writer, { nonce })
  await look()
  assert.deepEqual(await hashes(), digits(ledger.held))
  assert.deepEqual(await cursor(), { seq: 7, record: ledger.recordAt(7) })
  // Each page is compared twice: the cursor passes restored records only once they are found.
  assert.deepEqual(ledger.asked.since, [0, 0, 3, 3, 6, 6])
  assert.equal(ledger.asked.recall.length, 7)
  await look()
  assert.deepEqual(ledger.asked.since.slice(6), [7])
  assert.equal(ledger.asked.recall.length, 7)
  ledger.sign(writer, { nonce: 7 })
  await look()
  assert.equal((await hashes()).length, 8)
})

test('another ledger than the one it was compared with is compared from its beginning, a shorter one too', async () => {
  const writer = await world.account('another')
  for (const seq of [2, 9]) {
    const ledger = fakeLedger(world.signer)
    ledger.sign(writer, { nonce: 0 })
    ledger.sign(writer, { nonce: 1 })
    await moveTo(seq, 'ab'.repeat(32))
    const before = world.told('ledger_reconciled').length
    await look()
    assert.deepEqual(ledger.asked.since.slice(0, 2), [seq, 0])
    assert.equal(world.told('ledger_reconciled').length, before + 1)
    assert.deepEqual(await hashes(), digits(ledger.held))
    assert.deepEqual(await cursor(), { seq: 2, record: ledger.recordAt(2) })
  }
})

test('what the database has is not taken in: a hash of the same network, or a row that waits for the bytes under that id and nonce', async () => {
  const [writer, other] = [await world.account('has'), await world.account('has-other')]
  const ledger = fakeLedger(world.signer)
  const stored = ledger.sign(writer, { nonce: 0 })
  const waiting = ledger.sign(writer, { nonce: 1 })
  const elsewhere = ledger.sign(writer, { nonce: 2 })
  const otherNonce = ledger.sign(writer, { nonce: 3 })
  const otherNetwork = ledger.sign(writer, { nonce: 4 })
  const otherAccount = ledger.sign(writer, { nonce: 5 })
  const settled = ledger.sign(writer, { nonce: 6 })
  await world.row(writer, { id: stored.intentId, nonce: 0, hash: fromHex(stored.hash) })
  await world.row(writer, { id: waiting.intentId, nonce: 1 }, null)
  // A row has the hash, on another network.
  await world.row(writer, { nonce: 2, chain_id: 1, hash: fromHex(elsewhere.hash) })
  await world.row(writer, { id: otherNonce.intentId, nonce: 30 }, null)
  await world.row(writer, { id: otherNetwork.intentId, nonce: 4, chain_id: 1 }, null)
  await world.row(other, { id: otherAccount.intentId, nonce: 5 }, null)
  await world.row(writer, { id: settled.intentId, nonce: 6, state: 'REPLACED', block_number: 1 }, null)
  await look()
  const taken = [...new Set(ledger.asked.recall.map((request) => (request as { nonce: number }).nonce))]
  assert.deepEqual(taken, [2, 3, 4, 5, 6])
  assert.equal((await world.rowOf(waiting.intentId)).state, 'BOUND')
  for (const { intentId, nonce } of [otherNonce, otherNetwork, otherAccount]) {
    const row = await world.rowOf(intentId)
    assert.deepEqual([row.nonce, row.chain_id, row.state], [nonce, 31_337, 'SUBMITTED'])
  }
  assert.equal((await cursor()).seq, 7)
})

// The embedded database has only one connection, which nothing else can use during this test.
test('what is stored while database and ledger are compared was not lost', onPostgres, async () => {
  const writer = await world.account('between')
  const ledger = fakeLedger(world.signer)
  const signed = ledger.sign(writer, { nonce: 0 })
  await world.row(writer, { id: signed.intentId, nonce: 0 }, null)
  const terms = { gas_limit: 21_000, max_fee: toWord(100n), max_priority_fee: toWord(10n) }
  /** Makes commit 2 on another connection. */
  async function store(): Promise<void> {
    await world.db.transaction().execute(async (db) => {
      const hash = fromHex(signed.hash)
      await db.updateTable('transactions').set({ state: 'SUBMITTED', hash }).where('id', '=', signed.intentId).execute()
      const attempt = { transaction_id: signed.intentId, hash, chain_id: 31_337, raw: fromHex(signed.raw), ...terms }
      await db.insertInto('attempts').values(attempt).execute()
    })
  }
  let stored = 0
  let about: string | null = null
  const db = world.db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      if (node.kind === 'RawNode' && stored++ === 0) about = queryId.queryId
      return node
    },
    transformResult: async ({ result, queryId }) => {
      if (about === queryId.queryId) await store()
      return result
    },
  })
  const replay = startReplay(appLike(world.app, { db }))
  await replay.look()
  await replay.stop()
  assert.ok(about !== null && stored > 0)
  assert.deepEqual(ledger.asked.recall, [])
  assert.equal((await cursor()).seq, 1)
})

test('what cannot be taken in is tried three times at each look and told; what comes behind it is taken in, and the cursor waits', async () => {
  const [stuck, other] = [await world.account('stuck'), await world.account('behind')]
  const ledger = fakeLedger(world.signer, 1)
  ledger.sign(other, { nonce: 0 })
  const held = ledger.sign(stuck, { nonce: 0 })
  for (let nonce = 1; nonce < 4; nonce++) ledger.sign(other, { nonce })
  const real = world.signer.recall!
  let tried = 0
  world.signer.recall = (request) => {
    if (!('from' in request) || request.from !== stuck.address) return real(request)
    tried++
    return Promise.reject(new Error('nonsense'))
  }
  for (const times of [1, 2]) {
    const before = world.told('transaction_restore_failed').length
    await look()
    assert.equal(tried, 3 * times)
    const told = world.told('transaction_restore_failed').slice(before)
    assert.deepEqual(
      told.map(({ level, fields }) => [level, fields]),
      [['error', { chainId: 31_337, id: held.intentId, sender: stuck.address, nonce: 0, hash: held.hash }]],
    )
    assert.deepEqual(await cursor(), { seq: 1, record: ledger.recordAt(1) })
    assert.equal((await hashes()).length, 4)
  }
  world.signer.recall = real
  await look()
  assert.deepEqual(await cursor(), { seq: 5, record: ledger.recordAt(5) })
  assert.equal((await hashes()).length, 5)
})

test('a ledger that is replaced while something is stuck is compared anew', async () => {
  const [stuck, other] = [await world.account('stuck-again'), await world.account('behind-again')]
  const ledger = fakeLedger(world.signer, 1)
  ledger.sign(stuck, { nonce: 0 })
  ledger.sign(other, { nonce: 0 })
  const [recall, since] = [world.signer.recall!, world.signer.recallSince!]
  world.signer.recall = (request) =>
    'from' in request && request.from === stuck.address ? Promise.reject(new Error('no')) : recall(request)
  world.signer.recallSince = (request) => {
    if (request.after === 1) {
      ledger.replace()
      world.signer.recall = recall
      world.signer.recallSince = since
    }
    return since(request)
  }
  await look()
  // The other record. A record that was tried three times is tried again at the next comparison.
  assert.deepEqual(await hashes(), digits([ledger.held[1]!]))
  assert.deepEqual(await cursor(), { seq: 0, record: ledger.recordAt(0) })
  await look()
  assert.deepEqual(await cursor(), { seq: 2, record: ledger.recordAt(2) })
  assert.equal((await hashes()).length, 2)
})

test('a cursor that another replica moves meanwhile is read again, and never moved back', async () => {
  const writer = await world.account('moved')
  const ledger = fakeLedger(world.signer, 1)
  for (let nonce = 0; nonce < 3; nonce++) {
    const { intentId, hash } = ledger.sign(writer, { nonce })
    await world.row(writer, { id: intentId, nonce, hash: fromHex(hash) })
  }
  const [start, second] = [
    { seq: 0, record: ledger.recordAt(0) },
    { seq: 2, record: ledger.recordAt(2) },
  ]
  for (const [from, moved] of [
    [start, second],
    [second, { seq: 2, record: 'ab'.repeat(32) }],
  ] as const) {
    await moveTo(from.seq, from.record)
    ledger.asked.since.length = 0
    const since = world.signer.recallSince!
    world.signer.recallSince = async (request) => {
      world.signer.recallSince = since
      const page = await since(request)
      await moveTo(moved.seq, moved.record)
      return page
    }
    await look()
    assert.deepEqual(ledger.asked.since.slice(0, 2), [from.seq, moved.seq])
    assert.deepEqual(await cursor(), { seq: 3, record: ledger.recordAt(3) })
  }
})

test('of one account signatures are taken in one after the other, of eight accounts side by side', async () => {
  const ledger = fakeLedger(world.signer)
  const writers = []
  for (let index = 0; index < 10; index++) writers.push(await world.account(`lane-${index}`))
  for (const nonce of [0, 1]) for (const writer of writers) ledger.sign(writer, { nonce })
  const real = world.signer.recall!
  const busy = new Map<string, number>()
  let most = 0
  const order: string[] = []
  world.signer.recall = async (request) => {
    const { from, nonce } = request as { from: string; nonce: number }
    order.push(`${from} ${nonce}`)
    busy.set(from, (busy.get(from) ?? 0) + 1)
    assert.equal(busy.get(from), 1)
    most = Math.max(most, [...busy.values()].filter((count) => count > 0).length)
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    busy.set(from, 0)
    return real(request)
  }
  await look()
  assert.equal(most, 8)
  for (const { address } of writers) assert.ok(order.indexOf(`${address} 0`) < order.indexOf(`${address} 1`))
  assert.equal((await hashes()).length, 20)
})

test('a signer that is away ends a look after what is under way, and nothing is passed by', async () => {
  const [one, two] = [await world.account('away-one'), await world.account('away-two')]
  const ledger = fakeLedger(world.signer)
  ledger.sign(one, { nonce: 0 })
  ledger.sign(two, { nonce: 0 })
  const real = world.signer.recall!
  world.signer.recall = async (request) => {
    if ('from' in request && request.from === one.address) throw new AppError('signer_unavailable', 'away')
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    return real(request)
  }
  await assert.rejects(look(), (error: unknown) => error instanceof AppError && error.code === 'signer_unavailable')
  assert.equal((await hashes()).length, 1)
  assert.equal((await cursor()).seq, 0)
})

test('a write waits for the look that has to come first, and for none after it until the database was away', async () => {
  const { app } = world
  const ledger = fakeLedger(world.signer)
  const since = world.signer.recallSince!
  await untilReplayed(app)
  assert.equal(ledger.asked.since.length, 0, 'without a replay nothing is waited for')
  const gates: (() => void)[] = []
  world.signer.recallSince = async (request) => {
    await new Promise<void>((resolve) => gates.push(resolve))
    return since(request)
  }
  const replay = startReplay(app)
  for (let loss = 0; loss < 2; loss++) {
    await until('a look is under way', () => gates.length === 1)
    const again = replay.look()
    assert.equal(replay.look(), again, 'one look at a time')
    let isTrusted = false
    const waiting = untilReplayed(app).then(() => (isTrusted = true))
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(isTrusted, false)
    gates.shift()!()
    await waiting
    await untilReplayed(app)
    assert.equal(gates.length, 0)
    if (loss === 0) replay.suspect()
  }
  await replay.stop()
})

test('a write is told to come again when the look fails or takes too long, and why where that is known', async () => {
  const { app } = world
  const notYet = (cause: unknown) => (error: unknown) =>
    error instanceof AppError &&
    error.code === 'database_unavailable' &&
    error.retryAfter === 2 &&
    error.cause === cause &&
    'cause' in error === (cause !== undefined)
  const nonsense = new Error('nonsense')
  world.signer.recallSince = () => Promise.reject(nonsense)
  const failing = startReplay(app)
  await assert.rejects(untilReplayed(app), notYet(nonsense))
  const away = new AppError('signer_unavailable', 'away')
  world.signer.recallSince = () => Promise.reject(away)
  await assert.rejects(untilReplayed(app), (error) => error === away)
  assert.ok(world.told('replay_failed').length > 0)
  await failing.stop()
  const gate = Promise.withResolvers<never>()
  // On a slow database, the request may not have been made yet.
  gate.promise.catch(() => {})
  world.signer.recallSince = () => gate.promise
  const clock = stoppedClock()
  const timed = appLike(app, { clock })
  const slow = startReplay(timed)
  let isOver = false
  const patient = untilReplayed(timed).finally(() => (isOver = true))
  const refused = assert.rejects(patient, notYet(undefined))
  await clock.advance(4_990)
  assert.equal(isOver, false)
  // Another write has a separate deadline.
  const later = untilReplayed(timed)
  let isLaterOver = false
  const laterRefused = assert.rejects(
    later.finally(() => (isLaterOver = true)),
    notYet(undefined),
  )
  await clock.advance(10)
  await refused
  assert.equal(isLaterOver, false)
  await clock.advance(4_990)
  await laterRefused
  const stopping = slow.stop()
  gate.reject(new AppError('signer_unavailable', 'away'))
  await stopping
})

test('looks come by themselves a second apart, and none after the end', async () => {
  const ledger = fakeLedger(world.signer)
  const clock = stoppedClock()
  const app = appLike(world.app, { clock })
  const replay = startReplay(app)
  await replay.look()
  assert.equal(ledger.asked.since.length, 1)
  await until('the next is due', () => clock.sleepers() === 1)
  await clock.advance(999)
  assert.equal(ledger.asked.since.length, 1)
  await clock.advance(1)
  await until('the next look', () => ledger.asked.since.length === 2)
  await replay.stop()
  const during = startReplay(app)
  // If it is stopped during a comparison, that one ends and is the last.
  await during.stop()
  assert.equal(clock.sleepers(), 0, 'nothing is due, ever')
})

test('what is taken in is the first signature’s, at the fees of its own, of the time it was signed at', async () => {
  const writer = await world.account('legacy')
  const ledger = fakeLedger(world.signer)
  const { intentId, hash } = ledger.sign(writer, { nonce: 4, gasPrice: '7', value: 5n, data: '0xc0ffee' })
  await look()
  const row = await world.rowOf(intentId)
  assert.deepEqual(
    [row.max_fee, row.max_priority_fee, row.value, row.gas_limit].map((one) => (one instanceof Uint8Array ? Buffer.from(one) : one)), // prettier-ignore
    [toWord(7n), null, toWord(5n), 21_000],
  )
  assert.deepEqual(Buffer.from(row.data), Buffer.from('c0ffee', 'hex'))
  assert.deepEqual([row.nonce, row.created_at.getTime()], [4, 1_700_000_001_000])
  const [attempt] = await world.attemptsOf(intentId)
  assert.deepEqual([Buffer.from(attempt!.hash), attempt!.max_priority_fee], [fromHex(hash), null])
})
