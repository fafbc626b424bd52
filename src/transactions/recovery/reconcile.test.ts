import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { fakeApp, type FakeApp } from '../../../test/fake-app.ts'
import { fakeLedger } from '../../../test/fake-ledger.ts'
import { newTransactionId, type Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { markReplaced } from '../settle/states.ts'
import { ledgerAttempts, applyLedgerRecord, reconcileNonce } from './reconcile.ts'

/** Rows after the ledger has shown what was signed for their nonce. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
afterEach(async () => {
  for (const table of ['attempts', 'transactions'] as const) await world.db.deleteFrom(table).execute()
})
after(() => world.close())

const TARGET: Hex = `0x${'c3'.repeat(20)}`

/** Creates a nonce with a write, its fee bump and its cancellation in the ledger. */
async function slotOf(name: string, nonce = 3) {
  const writer = await world.account(name)
  const ledger = fakeLedger(world.signer, 2)
  const intentId = newTransactionId()
  const effect = { to: TARGET, value: 5n, data: '0xc0ffee' } as const
  const requestHash: Hex = `0x${'0d'.repeat(32)}`
  const first = ledger.sign(writer, { nonce, intentId, requestHash, clientId: 'shop', ...effect })
  const raise = ledger.sign(writer, { nonce, intentId, clientId: null, kind: 'replace', ...effect })
  const cancel = ledger.sign(writer, { nonce, intentId, clientId: null, kind: 'cancel', to: writer.address })
  // The ledger has records of other nonces, networks and accounts as well.
  ledger.sign(writer, { nonce: nonce + 1 })
  ledger.sign(writer, { nonce, chainId: 1 })
  return {
    writer,
    ledger,
    slot: { chainId: 31_337, from: writer.address, nonce },
    intentId,
    all: [first, raise, cancel],
  }
}

test('what the ledger holds of a nonce is read to its end, newest first, and of nothing it has nothing', async () => {
  const { ledger, slot, all } = await slotOf('read')
  assert.deepEqual(await ledgerAttempts(world.app, slot), all.toReversed())
  assert.deepEqual(ledger.asked.recall, [slot, { ...slot, before: 2 }])
  assert.equal(await reconcileNonce(world.app, { ...slot, nonce: 9 }), false)
  assert.equal((await world.db.selectFrom('transactions').select('id').execute()).length, 0)
})

test('a nonce without a row gets the one that was lost: its first effect, its newest hash, all its attempts', async () => {
  const { writer, slot, intentId, all } = await slotOf('lost')
  const [first, , newest] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0]]
  assert.equal(await reconcileNonce(world.app, slot), true)
  const row = await world.rowOf(intentId)
  assert.deepEqual(
    [row.account_id, row.client_id, row.nonce, row.chain_id, row.state, row.is_cancel, row.is_final, row.abi],
    [writer.accountId, 'shop', 3, 31_337, 'SUBMITTED', true, false, ''],
  )
  assert.deepEqual(
    [row.sender, row.target, row.value, row.data, row.hash, row.request_hash, row.max_fee, row.max_priority_fee].map((bytes) => toHex(bytes!)), // prettier-ignore
    [writer.address, TARGET, toHex(toWord(5n)), '0xc0ffee', newest.hash, `0x${'0d'.repeat(32)}`, toHex(toWord(BigInt(first.maxFeePerGas!))), toHex(toWord(BigInt(first.maxPriorityFeePerGas!)))], // prettier-ignore
  )
  assert.equal(row.created_at.getTime(), first.signedAt)
  assert.deepEqual(row.transitions, [{ state: 'SUBMITTED', at: new Date(newest.signedAt).toISOString(), hash: newest.hash }]) // prettier-ignore
  const attempts = await world.attemptsOf(intentId)
  assert.deepEqual(
    attempts.map(({ hash, raw, is_cancel, gas_limit, broadcast_at }) => [toHex(hash), toHex(raw!), is_cancel, gas_limit, broadcast_at]), // prettier-ignore
    all.map(({ hash, raw, kind }) => [hash, raw, kind === 'cancel', 21_000, null]),
  )
  assert.deepEqual(world.told('transaction_restored').at(-1)!.fields, {
    ...{ chainId: 31_337, id: intentId, sender: writer.address, nonce: 3, hash: newest.hash },
  })
  // A repeat changes nothing, and logs nothing.
  const told = world.told('transaction_restored').length
  assert.equal(await reconcileNonce(world.app, slot), true)
  assert.deepEqual(await world.rowOf(intentId), row)
  assert.equal(world.told('transaction_restored').length, told)
})

test('a transfer of coins, which nobody’s token was shown for, is taken in as such', async () => {
  const writer = await world.account('plain')
  const ledger = fakeLedger(world.signer)
  const { intentId } = ledger.sign(writer, { nonce: 0, clientId: null })
  await reconcileNonce(world.app, { chainId: 31_337, from: writer.address, nonce: 0 })
  const row = await world.rowOf(intentId)
  assert.deepEqual([row.client_id, row.request_hash, row.data.length, row.is_cancel], ['', null, 0, false])
  assert.deepEqual(Buffer.from(row.value), toWord(0n))
})

/** Returns a row of the same intent, or of another, at that nonce after the restoration. */
async function metBy(
  name: string,
  state: TransactionState,
  {
    isSame,
    hasHash,
    at,
  }: { isSame: boolean; hasHash: boolean; /** the attempt that it has the hash of */ at?: 0 | 1 | 2 },
) {
  const { writer, slot, intentId, all } = await slotOf(name)
  const before = await world.row(
    writer,
    {
      ...{ nonce: 3, state, abi: 'add()', transitions: [{ state: 'BOUND', at: 'before' }] },
      ...(isSame ? { id: intentId } : {}),
      ...(at === undefined ? {} : { hash: fromHex(all[at]!.hash) }),
      ...(state === 'BOUND' || state === 'VACANT' || state === 'SUBMITTED' ? {} : { block_number: 5 }),
    },
    hasHash ? {} : null,
  )
  await reconcileNonce(world.app, slot)
  const row = await world.db.selectFrom('transactions').selectAll().where('nonce', '=', 3).where('sender', '=', fromHex(writer.address)).executeTakeFirstOrThrow() // prettier-ignore
  return { before, row, intentId, newest: all[2]!, states: row.transitions.map(({ state: one }) => one) }
}

for (const state of ['BOUND', 'VACANT'] as const)
  test(`a row that is ${state} becomes what the ledger holds, with its caller’s ABI and its past where it is the same intent`, async () => {
    const same = await metBy(`same-${state}`, state, { isSame: true, hasHash: false })
    assert.deepEqual(
      [same.row.id, same.row.state, same.row.abi, same.states],
      [same.intentId, 'SUBMITTED', 'add()', ['BOUND', 'SUBMITTED']],
    )
    const other = await metBy(`other-${state}`, state, { isSame: false, hasHash: false })
    assert.deepEqual(
      [other.row.id, other.row.state, other.row.abi, other.states],
      [other.intentId, 'SUBMITTED', '', ['SUBMITTED']],
    )
    assert.equal(toHex(other.row.hash!), other.newest.hash)
    assert.ok(other.row.updated_at > other.before.updated_at)
  })

for (const isSame of [true, false])
  test(`what is restored was made when it was signed, also from a row that was bound while this waited${isSame ? ', for the same intent' : ''}`, async () => {
    const { writer, slot, intentId, all } = await slotOf(`bound-meanwhile-${isSame}`)
    const other = await world.account(`freed-meanwhile-${isSame}`)
    // All statements of a database transaction have the time of its beginning. Another process binds the nonce after
    // it.
    const created_at = sql<Date>`now() + interval '1 second'` as unknown as Date
    await world.db.transaction().execute(async (db) => {
      await world.row(writer, { nonce: 3, created_at, ...(isSame ? { id: intentId } : {}) }, null, db)
      if (!isSame) await world.row(other, { nonce: 3, created_at, id: intentId }, null, db)
      await applyLedgerRecord(db, world.app, slot, all.toReversed())
    })
    assert.equal((await world.rowOf(intentId)).created_at.getTime(), all[0]!.signedAt)
    const rows = await world.db.selectFrom('transactions').selectAll().where('nonce', '=', 3).execute()
    assert.deepEqual(rows.map(({ state }) => state).toSorted(), isSame ? ['SUBMITTED'] : ['SUBMITTED', 'VACANT'])
    for (const row of rows) assert.ok(row.updated_at >= row.created_at, `${row.state} was changed before it was made`)
  })

test('a nonce that was bound after a block was begun to be looked at, and that the block has as another’s, is not changed before it was bound', async () => {
  const writer = await world.account('foreign-meanwhile')
  const created_at = sql<Date>`now() + interval '1 second'` as unknown as Date
  const { id } = await world.row(writer, { created_at })
  const hash: Hex = `0x${'0e'.repeat(32)}`
  await markReplaced(world.db, world.app, { id, hash, blockNumber: 5, blockHash: hash })
  const row = await world.rowOf(id)
  assert.deepEqual([row.state, row.updated_at >= row.created_at], ['REPLACED', true])
})

test('what a signer signed whose clock is ahead was not made after it was restored', async () => {
  const writer = await world.account('clock-ahead')
  const { intentId } = fakeLedger(world.signer).sign(writer, { nonce: 0, signedAt: Date.now() + 60_000 })
  await reconcileNonce(world.app, { chainId: 31_337, from: writer.address, nonce: 0 })
  const row = await world.rowOf(intentId)
  assert.ok(row.updated_at >= row.created_at)
})

for (const state of ['REPLACED', 'FAILED'] as const)
  test(`a row that is ${state} without bytes stays so, and says whose nonce it was`, async () => {
    const { row, intentId, states, newest } = await metBy(`ended-${state}`, state, { isSame: false, hasHash: false })
    assert.deepEqual([row.id, row.state, row.block_number, states], [intentId, state, 5, ['SUBMITTED', 'BOUND']])
    assert.equal(toHex(row.hash!), newest.hash)
  })

for (const [state, isSame] of [
  ['REPLACED', true],
  ['FAILED', true],
  ['MINED', true],
  ['FINALIZED', true],
  ['SUBMITTED', false],
] as const)
  // prettier-ignore
  test(`a row with bytes that is ${state} ${isSame ? '' : 'for another intent '}stays as it is`, async () => {
    const { before, row } = await metBy(`kept-${state}`, state, { isSame, hasHash: true })
    assert.deepEqual(row, before)
  })

for (const at of [0, 1] as const)
  test(`a row that is under way gets the newer hash that the database has lost, ${2 - at} attempts on`, async () => {
    const given = { isSame: true, hasHash: true, at }
    const { before, row, intentId, newest, states } = await metBy(`under-way-${at}`, 'SUBMITTED', given)
    assert.notDeepEqual(row.hash, before.hash)
    assert.deepEqual([row.id, row.state, row.abi, toHex(row.hash!)], [intentId, 'SUBMITTED', 'add()', newest.hash])
    assert.deepEqual(states, ['BOUND', 'SUBMITTED'])
  })

test('a row that is under way with bytes that are newer than what the ledger answered keeps them', async () => {
  const { before, row } = await metBy('newer', 'SUBMITTED', { isSame: true, hasHash: true })
  assert.deepEqual(row, before)
})

test('a row that the ledger corrects keeps its reference only if it was bound by the same request', async () => {
  for (const [hash, reference] of [
    [Buffer.alloc(32, 0x0d), 'mine'],
    [Buffer.alloc(32, 1), null],
  ] as const) {
    const { writer, slot, intentId } = await slotOf(`reference-${reference}`)
    await world.row(writer, { id: intentId, nonce: 3, state: 'BOUND', request_hash: hash, reference: 'mine' }, null)
    await reconcileNonce(world.app, slot)
    const row = await world.rowOf(intentId)
    assert.deepEqual([row.state, row.reference], ['SUBMITTED', reference])
    for (const table of ['attempts', 'transactions'] as const) await world.db.deleteFrom(table).execute()
  }
})

test('an id that was bound again under another nonce, account or network is freed there; elsewhere nobody loses theirs', async () => {
  const other = await world.account('freed-other')
  for (const [index, differing] of [{ nonce: 30 }, { chain_id: 1 }, { sender: fromHex(other.address) }].entries()) {
    const { writer, slot, intentId } = await slotOf(`freed-${index}`)
    await world.row(writer, { id: intentId, nonce: 3, request_hash: Buffer.alloc(32, 1), ...differing }, null)
    const beside = await world.row(writer, { nonce: 40 }, null)
    await reconcileNonce(world.app, slot)
    assert.equal((await world.rowOf(intentId)).nonce, 3)
    const rows = await world.db.selectFrom('transactions').selectAll().where('account_id', '=', writer.accountId).execute() // prettier-ignore
    const freed = rows.find(({ state }) => state === 'VACANT')!
    assert.match(freed.id, /^tx_[0-9a-f-]{36}$/)
    assert.equal(freed.request_hash, null)
    assert.deepEqual(await world.rowOf(beside.id), beside)
    assert.equal(rows.length, 3)
    for (const table of ['attempts', 'transactions'] as const) await world.db.deleteFrom(table).execute()
  }
})

test('what stands under that id and has bytes is no mistake to be mended: it is told after some tries', async () => {
  const { writer, slot, intentId } = await slotOf('unmendable')
  await world.row(writer, { id: intentId, nonce: 30 })
  let tries = 0
  const { db } = world.app
  world.app.db = new Proxy(db, {
    get: (of, name, self) => {
      if (name === 'transaction') tries++
      const found: unknown = Reflect.get(of, name, self)
      return typeof found === 'function' ? found.bind(of) : found
    },
  })
  await assert.rejects(reconcileNonce(world.app, slot), /duplicate key|unique/)
  assert.equal(tries, 8)
  world.app.db = db
})
