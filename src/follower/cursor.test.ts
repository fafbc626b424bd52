import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import {
  endLease,
  Fenced,
  moveCursor,
  openCursor,
  readFollowerCursor,
  releaseLease,
  renewLease,
  setHalted,
  takeLease,
  type Lease,
} from './cursor.ts'

const [OURS, OTHER] = [31337, 5]
const hashOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

suite('the cursor of a network, beside that of another one', () => {
  let database: TestDatabase
  let db: Db
  before(async () => {
    database = await testDatabase()
    db = database.db
  })
  beforeEach(async () => {
    for (const table of ['cursors', 'history_cursors', 'blocks'] as const) await db.deleteFrom(table).execute()
    // The other network is at the same block under the same lease, so only its chain id distinguishes it.
    for (const chainId of [OTHER, OURS]) await openCursor(db, chainId, { number: 7, hash: hashOf(7) })
    await takeLease(db, OTHER, 'first')
  })
  after(() => database.close())

  const rowOf = (chainId: number) =>
    db.selectFrom('cursors').selectAll().where('chain_id', '=', chainId).executeTakeFirstOrThrow()
  /** Checks that a change leaves the other network unchanged. */
  async function leavesTheOther(work: () => Promise<unknown>) {
    const before = await rowOf(OTHER)
    await work()
    assert.deepEqual(await rowOf(OTHER), before)
  }
  const setLease = (seconds: number | null, chainId = OURS) =>
    db
      .updateTable('cursors')
      .set({ lease_until: seconds === null ? null : sql<Date>`now() + ${`${seconds} seconds`}::interval` })
      .where('chain_id', '=', chainId)
      .execute()
  /** Returns the seconds until the lease ends, by the database's clock; null without a lease. */
  async function leaseLeft(chainId = OURS): Promise<number | null> {
    const { left } = await db
      .selectFrom('cursors')
      .select(sql<number | null>`extract(epoch from lease_until - clock_timestamp())::float8`.as('left'))
      .where('chain_id', '=', chainId)
      .executeTakeFirstOrThrow()
    return left
  }
  const isFresh = (left: number | null) => assert.ok(left !== null && left > 1 && left <= 4, `${left} seconds`)
  const storeBlock = (chain_id: number, number: number, baseFee: bigint | null = null) =>
    db
      .insertInto('blocks')
      .values({
        ...{ chain_id, number, hash: fromHex(hashOf(chain_id + number)), parent_hash: fromHex(hashOf(number - 1)) },
        ...{ mined_at: new Date(1_767_225_600_000), base_fee: baseFee === null ? null : toWord(baseFee) },
      })
      .execute()

  test('is made once: who comes second changes nothing', async () => {
    await leavesTheOther(async () => assert.equal(await openCursor(db, OURS, { number: 99, hash: hashOf(99) }), false))
    const { block_number, block_hash, finalized_number, epoch, halted } = await rowOf(OURS)
    assert.deepEqual([block_number, toHex(block_hash), finalized_number, epoch, halted], [7, hashOf(7), 7, 0, null])
  })

  test('shows its own stored block and no other, or none', async () => {
    assert.equal(await readFollowerCursor(db, 4_711), null)
    const nothing = { isLeased: false, halted: null, blockedBy: null, followed: 7, block: null, indexedTo: null }
    await storeBlock(OTHER, 7)
    await storeBlock(OURS, 6)
    assert.deepEqual(await readFollowerCursor(db, OURS), nothing)
    await storeBlock(OURS, 7, 9n)
    const block = { number: 7, hash: hashOf(OURS + 7), parentHash: hashOf(6), timestamp: 1_767_225_600, baseFee: 9n }
    assert.deepEqual(await readFollowerCursor(db, OURS), { ...nothing, block })
    assert.equal((await readFollowerCursor(db, OTHER))!.block!.baseFee, null)
    const place = { block_number: 5, block_hash: Buffer.alloc(32), epoch: 0, lease_owner: null }
    await db
      .insertInto('history_cursors')
      .values({ chain_id: OURS, ...place })
      .execute()
    assert.deepEqual(await readFollowerCursor(db, OURS), { ...nothing, block, indexedTo: 5 })
    assert.equal((await readFollowerCursor(db, OTHER))!.indexedTo, null)
    await setHalted(db, OURS, (await takeLease(db, OURS, 'first'))!, 'It stands.')
    assert.deepEqual(await readFollowerCursor(db, OURS), {
      ...nothing,
      isLeased: true,
      halted: 'It stands.',
      block,
      indexedTo: 5,
    })
  })

  test('is leased until the lease ends, and not without one', async () => {
    for (const [seconds, isLeased] of [
      [60, true],
      [-1, false],
      [null, false],
    ] as const) {
      await setLease(seconds)
      assert.equal((await readFollowerCursor(db, OURS))!.isLeased, isLeased)
    }
  })

  test('is taken while nobody holds it, under a new epoch, for four seconds', async () => {
    await leavesTheOther(async () => {
      const held = await takeLease(db, OURS, 'first')
      assert.deepEqual(held, { number: 7, hash: hashOf(7), finalized: 7, epoch: 1, owner: 'first', halted: null })
      isFresh(await leaseLeft())
      assert.equal((await rowOf(OURS)).lease_owner, 'first')
      assert.equal(await takeLease(db, OURS, 'second'), null)
      assert.equal((await rowOf(OURS)).lease_owner, 'first')
      await setLease(-1)
      assert.equal((await takeLease(db, OURS, 'second'))!.epoch, 2)
    })
    assert.equal(await takeLease(db, 4_711, 'first'), null)
  })

  /** Returns leases that differ in one field. */
  const wrongLeases = ({ epoch, owner }: Lease): Lease[] => [
    { epoch: epoch - 1, owner },
    { epoch: epoch + 1, owner },
    { epoch, owner: 'somebody' },
  ]

  test('is kept by who holds its lease, also after it has ended, and by nobody else', async () => {
    const held = (await takeLease(db, OURS, 'first'))!
    await setLease(-1)
    await leavesTheOther(async () => assert.deepEqual(await renewLease(db, OURS, held), held))
    isFresh(await leaseLeft())
    await setLease(-1)
    for (const wrong of wrongLeases(held)) assert.equal(await renewLease(db, OURS, wrong), null)
    assert.ok((await leaseLeft())! < 0)
  })

  test('is given back by who holds its lease only; whatever there is ends where only one process can be', async () => {
    const held = (await takeLease(db, OURS, 'first'))!
    await leavesTheOther(async () => {
      for (const wrong of wrongLeases(held)) await releaseLease(db, OURS, wrong)
      assert.equal((await rowOf(OURS)).lease_owner, 'first')
      isFresh(await leaseLeft())
      await releaseLease(db, OURS, held)
      assert.deepEqual([await leaseLeft(), (await rowOf(OURS)).lease_owner], [null, null])
      await takeLease(db, OURS, 'second')
      await endLease(db, OURS)
      assert.deepEqual([await leaseLeft(), (await rowOf(OURS)).lease_owner], [null, null])
    })
  })

  test('moves with its lease, from the block it stands at, while it is not halted', async () => {
    const held = (await takeLease(db, OURS, 'first'))!
    await setLease(-1)
    const to = { number: 8, hash: hashOf(8), finalized: 6 }
    await leavesTheOther(() => moveCursor(db, OURS, held, to))
    const { block_number, block_hash, finalized_number } = await rowOf(OURS)
    assert.deepEqual([block_number, toHex(block_hash), finalized_number], [8, hashOf(8), 6])
    isFresh(await leaseLeft())
    const now = { ...held, ...to }
    const standing = await rowOf(OURS)
    const next = { number: 9, hash: hashOf(9), finalized: 8 }
    for (const wrong of [...wrongLeases(held), { hash: hashOf(7) }])
      await assert.rejects(moveCursor(db, OURS, { ...now, ...wrong }, next), Fenced)
    await assert.rejects(moveCursor(db, 4_711, now, next), Fenced)
    assert.deepEqual(await rowOf(OURS), standing)
    await setHalted(db, OURS, now, 'It stands.')
    await assert.rejects(moveCursor(db, OURS, now, next), Fenced)
    assert.equal((await rowOf(OURS)).block_number, 8)
  })

  test('is halted, and let go on, under its lease only, at the block that was judged', async () => {
    const held = (await takeLease(db, OURS, 'first'))!
    await leavesTheOther(async () => {
      for (const wrong of [...wrongLeases(held), { hash: hashOf(6) }])
        await assert.rejects(setHalted(db, OURS, { ...held, ...wrong }, 'no'), Fenced)
      assert.equal((await rowOf(OURS)).halted, null)
      await setHalted(db, OURS, held, 'It stands.')
      assert.equal((await rowOf(OURS)).halted, 'It stands.')
      await setHalted(db, OURS, held, null)
      assert.equal((await rowOf(OURS)).halted, null)
    })
    await assert.rejects(setHalted(db, 4_711, held, 'no'), Fenced)
  })
})
