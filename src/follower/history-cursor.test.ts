import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { RootDb } from '../store/db.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { Fenced, setHalted, takeLease } from './cursor.ts'
import { indexedTo, lockHistory, moveHistory, openCursors, readHistory, setHistoryBack, takeHistory, takeLeaseAndHistory } from './history-cursor.ts' // prettier-ignore

const [OURS, OTHER] = [31337, 5]
const hashOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`
const at = (number: number) => ({ number, hash: hashOf(number) })

suite('the cursor of a history, beside that of another network', () => {
  let database: TestDatabase
  let db: RootDb
  before(async () => {
    database = await testDatabase()
    db = database.db
  })
  beforeEach(async () => {
    for (const table of ['cursors', 'history_cursors'] as const) await db.deleteFrom(table).execute()
    for (const chainId of [OTHER, OURS]) await openCursors(db, chainId, at(7))
  })
  after(() => database.close())

  const rowOf = (chainId: number) =>
    db.selectFrom('history_cursors').selectAll().where('chain_id', '=', chainId).executeTakeFirst()
  const lease = async (owner = 'first') => (await takeLease(db, OURS, owner))!
  const follow = (block_number: number, finalized_number: number) =>
    db.updateTable('cursors').set({ block_number, finalized_number }).where('chain_id', '=', OURS).execute()

  test('begins with the network’s, once', async () => {
    await openCursors(db, OURS, at(99))
    const { block_number, block_hash, epoch, lease_owner } = (await rowOf(OURS))!
    assert.deepEqual([block_number, toHex(block_hash), epoch, lease_owner], [7, hashOf(7), 0, null])
    assert.equal((await rowOf(OTHER))!.block_number, 7)
  })

  test('says how far the history reaches, which is final no further than that', async () => {
    const nowhere = { indexedTo: null, finalizedTo: null, followedTo: null, halted: null }
    assert.deepEqual(await indexedTo(db, 4_711), nowhere)
    assert.deepEqual(await indexedTo(db, OURS), { indexedTo: 7, finalizedTo: 7, followedTo: 7, halted: null })
    await follow(12, 9)
    assert.deepEqual(await indexedTo(db, OURS), { indexedTo: 7, finalizedTo: 7, followedTo: 12, halted: null })
    await follow(12, 3)
    assert.deepEqual(await indexedTo(db, OURS), { indexedTo: 7, finalizedTo: 3, followedTo: 12, halted: null })
    // A cursor at block 0 has a position; one before block 0 has none.
    await db.transaction().execute((inner) => setHistoryBack(inner, OURS, at(0)))
    await follow(0, -1)
    assert.deepEqual(await indexedTo(db, OURS), { ...nowhere, indexedTo: 0, followedTo: 0 })
    await db.updateTable('history_cursors').set({ block_number: -1 }).where('chain_id', '=', OURS).execute()
    assert.deepEqual(await indexedTo(db, OURS), { ...nowhere, followedTo: 0 })
    await setHalted(db, OURS, await lease(), 'It stands.')
    assert.deepEqual(await indexedTo(db, OURS), { ...nowhere, followedTo: 0, halted: 'It stands.' })
  })

  test('is taken by who follows, under a new epoch each time, and by nobody else', async () => {
    assert.equal(await takeHistory(db, OURS, { epoch: 0, owner: 'first' }), null)
    const held = await lease()
    assert.deepEqual(await takeHistory(db, OURS, held), { ...at(7), epoch: 1, owner: 'first' })
    assert.deepEqual(await takeHistory(db, OURS, held), { ...at(7), epoch: 2, owner: 'first' })
    assert.equal(await takeHistory(db, OURS, { ...held, owner: 'second' }), null)
    assert.equal(await takeHistory(db, OURS, { ...held, epoch: held.epoch + 1 }), null)
    assert.equal((await rowOf(OURS))!.epoch, 2)
    assert.equal((await rowOf(OTHER))!.lease_owner, null)
  })

  test('is leased with the network’s, and stays where it is', async () => {
    await db.updateTable('cursors').set({ block_number: 20, block_hash: fromHex(hashOf(20)) }).where('chain_id', '=', OURS).execute() // prettier-ignore
    const held = (await takeLeaseAndHistory(db, OURS, 'first'))!
    assert.equal(held.number, 20)
    assert.deepEqual([(await rowOf(OURS))!.lease_owner, (await rowOf(OTHER))!.lease_owner], ['first', null])
    assert.deepEqual(await takeHistory(db, OURS, held), { ...at(7), epoch: 1, owner: 'first' })
    assert.equal(await takeLeaseAndHistory(db, OURS, 'second'), null)
  })

  test('is moved by who holds it, from where it is', async () => {
    const held = (await takeHistory(db, OURS, await lease()))!
    await moveHistory(db, OURS, held, at(8))
    assert.deepEqual(await readHistory(db, OURS, held), { ...held, ...at(8) })
    const moved = { ...held, ...at(8) }
    for (const other of [
      held,
      { ...moved, epoch: held.epoch - 1 },
      { ...moved, epoch: held.epoch + 1 },
      { ...moved, owner: 'second' },
    ])
      await assert.rejects(moveHistory(db, OURS, other, at(9)), Fenced)
    await assert.rejects(moveHistory(db, 4_711, moved, at(9)), Fenced)
    assert.equal((await rowOf(OURS))!.block_number, 8)
    assert.equal((await rowOf(OTHER))!.block_number, 7)
    assert.equal(await readHistory(db, OURS, { ...held, epoch: held.epoch + 1 }), null)
    assert.equal(await readHistory(db, OURS, { ...held, owner: 'second' }), null)
    assert.equal(await readHistory(db, 4_711, held), null)
  })

  test('is put back by a reorganisation, whoever holds it', async () => {
    const held = (await takeHistory(db, OURS, await lease()))!
    await db.transaction().execute(async (inner) => {
      assert.deepEqual(await lockHistory(inner, OURS), at(7))
      assert.equal(await lockHistory(inner, 4_711), null)
      await setHistoryBack(inner, OURS, at(5))
    })
    assert.deepEqual(await readHistory(db, OURS, held), { ...held, ...at(5) })
    await assert.rejects(moveHistory(db, OURS, held, at(8)), Fenced)
    assert.equal((await rowOf(OTHER))!.block_number, 7)
  })
})
