import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import { sql } from 'kysely'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { expectedTransfers, storedTransfers } from '../../test/expected-transfers.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { audit, type Difference } from './audit.ts'
import { until } from '../../test/kit/until.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

const [ALICE, BOB, STRANGER, TOKEN] = [addressOf(0xa1), addressOf(0xb0b), addressOf(0x57), addressOf(0x70)]
const ACCOUNTS: Record<Hex, string> = {
  [ALICE]: '00000000-0000-8000-8000-0000000000a1',
  [BOB]: '00000000-0000-8000-8000-000000000b0b',
}
const coins: ScriptedTransfer = { type: 'ERC20', token: TOKEN, from: ALICE, to: BOB, items: [{ id: null, value: 7n }] }
const batch: ScriptedTransfer = {
  ...{ type: 'ERC1155', token: addressOf(0x71), from: ALICE, to: BOB },
  items: [
    { id: 1n, value: 5n },
    { id: 2n, value: 6n },
  ],
}

/** Creates blocks that differ only in their numbers, so that a row of one could be mistaken for a row of another. */
function evenChain(blocks: number): ScriptedChain {
  const script = scriptedChain()
  for (let count = 0; count < blocks; count++) script.mine({ from: STRANGER, transfers: [coins, coins, batch] })
  return script
}

suite('the auditor of a history', () => {
  const clock = stoppedClock()
  let database: TestDatabase
  let db: Db
  before(async () => {
    database = await testDatabase()
    db = database.db
    for (const [address, account_id] of Object.entries(ACCOUNTS))
      await db
        .insertInto('accounts')
        .values({ account_id, user_id: `DEV-${account_id}`, address: fromHex(address as Hex) })
        .execute()
  })
  beforeEach(async () => {
    for (const table of ['cursors', 'history_cursors', 'transfers', 'tokens'] as const)
      await db.deleteFrom(table).execute()
    // Add another network to the same tables, with a lower final block.
    await setFinalized(2, 5)
  })
  after(() => database.close())

  const setFinalized = async (finalized_number: number, chain_id = 31337) => {
    await db
      .insertInto('cursors')
      .values({
        ...{ chain_id, block_number: finalized_number + 3, block_hash: Buffer.alloc(32), finalized_number, epoch: 0 },
        ...{ lease_owner: null, lease_until: null, halted: null },
      })
      .onConflict((on) => on.column('chain_id').doUpdateSet({ finalized_number }))
      .execute()
    const place = { block_number: finalized_number + 3, block_hash: Buffer.alloc(32) }
    await db
      .insertInto('history_cursors')
      .values({ chain_id, ...place, epoch: 0, lease_owner: null })
      .onConflict((on) => on.column('chain_id').doUpdateSet(place))
      .execute()
  }

  async function compare(
    script: ScriptedChain,
    {
      from = 0,
      to = script.blocks.length - 1,
      repairs = false,
    }: { from?: number; to?: number; repairs?: boolean } = {},
  ) {
    const told: Difference[] = []
    const progress: number[][] = []
    const result = await audit({ clock, db: database.db }, script.chain, {
      ...{ from, to, repairs, rpc: script.chain.rpc },
      onDifference: (difference) => void told.push(difference),
      onProgress: ({ nextBlock, transfers, differences }) => void progress.push([nextBlock, transfers, differences]),
    })
    return { ...result, told, progress }
  }
  const expected = (script: ScriptedChain) => expectedTransfers(script.blocks, ACCOUNTS)

  test('puts a table back that lost everything, its tokens too, and says after each sixteen blocks how far it is', async () => {
    const script = evenChain(33)
    await setFinalized(33)
    const { blocks, transfers, differences, told, progress } = await compare(script, { repairs: true })
    // Two ERC-20 transfers and a batch of two, each with two sides, in every block but the first.
    assert.deepEqual([blocks, transfers, differences, told.length], [34, 33 * 8, 33 * 8, 33 * 8])
    assert.deepEqual(progress, [
      [16, 15 * 8, 15 * 8],
      [32, 31 * 8, 31 * 8],
      [34, 33 * 8, 33 * 8],
    ])
    assert.ok(told.every(({ stored, expected: row }) => stored === null && row !== null))
    assert.deepEqual(await storedTransfers(db), expected(script))
    const tokens = await db.selectFrom('tokens').select('logs_amounts').orderBy('logs_amounts').execute()
    assert.deepEqual(tokens, [{ logs_amounts: false }, { logs_amounts: true }])
    assert.deepEqual((await compare(script)).differences, 0)
    assert.equal(script.asked.get('eth_getTransactionReceipt'), undefined, 'a block’s receipts are one question')
  })

  test('mends one wrong row and none of those that differ from it in one part of their key', async () => {
    const script = evenChain(4)
    await setFinalized(4)
    await compare(script, { repairs: true })
    const right = await db.selectFrom('transfers').selectAll().execute()
    // Add the same rows for another network.
    await db
      .insertInto('transfers')
      .values(right.map((row) => ({ ...row, chain_id: 5 })))
      .execute()
    const wrong = { account_id: ACCOUNTS[BOB]!, block_number: 2, log_index: 2, batch_index: 1 }
    const coin = { account_id: ACCOUNTS[ALICE]!, block_number: 3, log_index: 1, batch_index: 0 }
    const before = (await storedTransfers(db)).length
    await db
      .updateTable('transfers')
      .set({ value: toWord(999n) })
      .where((eb) => eb.and({ ...wrong, chain_id: 31337 }))
      .execute()
    await db
      .updateTable('transfers')
      .set({ value: toWord(998n) })
      .where((eb) => eb.and({ ...coin, chain_id: 31337 }))
      .execute()
    const { told } = await compare(script, { repairs: true })
    assert.deepEqual(
      told
        .map(({ stored, expected: row }) => [stored?.value, row?.value].map(Number))
        .toSorted((a, b) => a[0]! - b[0]!),
      [
        [998, 7],
        [999, 6],
      ],
    )
    assert.equal((await storedTransfers(db)).length, before)
    assert.deepEqual(
      (await storedTransfers(db)).filter((_, index) => index % 2 === 0),
      expected(script),
      'both networks hold the same',
    )
  })

  test('takes out a row that no transfer made, and leaves the one in its place on the other side', async () => {
    const script = evenChain(3)
    await setFinalized(3)
    await compare(script, { repairs: true })
    const [row] = await db.selectFrom('transfers').selectAll().where('direction', '=', 0).limit(1).execute()
    await db
      .insertInto('transfers')
      .values({ ...row!, direction: 1 })
      .execute()
    const { told } = await compare(script, { repairs: true })
    assert.deepEqual(
      told.map(({ stored, expected: wanted }) => [stored?.direction, wanted]),
      [[1, null]],
    )
    assert.deepEqual(await storedTransfers(db), expected(script))
  })

  test('looks at the blocks that it was asked for, both ends included, and at no other', async () => {
    const script = evenChain(6)
    await setFinalized(6)
    await compare(script, { repairs: true })
    await db
      .updateTable('transfers')
      .set({ value: toWord(1n) })
      .execute()
    const { blocks, told } = await compare(script, { from: 2, to: 4 })
    assert.equal(blocks, 3)
    assert.deepEqual(new Set(told.map(({ stored }) => stored!.blockNumber)), new Set([2, 3, 4]))
    assert.equal(told.length, 3 * 8)
    assert.equal((await compare(script, { from: 4, to: 4 })).told.length, 8)
    assert.equal((await compare(script, { from: 4, to: 3 })).blocks, 0)
  })

  test('compares and mends this network’s rows only, also where another one has more of them', async () => {
    const script = evenChain(3)
    await setFinalized(3)
    await compare(script, { repairs: true })
    const right = await db.selectFrom('transfers').selectAll().execute()
    await db
      .insertInto('transfers')
      .values(right.map((row) => ({ ...row, chain_id: 5, log_index: row.log_index + 50 })))
      .execute()
    assert.deepEqual((await compare(script)).told, [])
  })

  test('does not write where nothing differs, and without repairs never', async () => {
    const script = evenChain(3)
    await setFinalized(3)
    await compare(script, { repairs: true })
    await db.deleteFrom('tokens').execute()
    await compare(script, { repairs: true })
    assert.deepEqual(await db.selectFrom('tokens').selectAll().execute(), [], 'tokens are noted with rows only')
    await db.deleteFrom('transfers').execute()
    assert.equal((await compare(script)).differences, 24)
    assert.deepEqual(await storedTransfers(db), [])
  })

  test('refuses what is not final here, and everything where nothing is', async () => {
    const script = evenChain(6)
    await assert.rejects(compare(script), /end at -1/)
    await setFinalized(4)
    await assert.rejects(compare(script, { to: 5 }), /end at 4/)
    await compare(script, { to: 4 })
  })

  test('repairs a window whole or not at all', async () => {
    const script = evenChain(3)
    await setFinalized(3)
    await sql`alter table tokens rename to elsewhere`.execute(db)
    try {
      await assert.rejects(compare(script, { repairs: true }))
      assert.deepEqual(await storedTransfers(db), [])
    } finally {
      await sql`alter table elsewhere rename to tokens`.execute(db)
    }
  })

  test('repairs nothing of a block that stopped being final while it was read', async () => {
    const script = evenChain(6)
    await setFinalized(6)
    script.onAsk = () => setFinalized(5).then(() => {})
    await assert.rejects(compare(script, { repairs: true }), /a finalized block was reorganised/)
    assert.deepEqual(await storedTransfers(db), [])
    script.onAsk = () => {}
    await compare(script, { to: 5, repairs: true })
    assert.equal((await storedTransfers(db)).length, 5 * 8)
  })

  test('asks a node that fails five times in a row a sixth time, after longer and longer waits, and no seventh', async () => {
    await setFinalized(6)
    const [patient, away, behind] = [evenChain(6), evenChain(6), evenChain(6)] as const
    const failing = (script: ScriptedChain, times: number) => {
      let asked = 0
      script.onAsk = () => {
        if (asked++ < times * 7) throw new InvalidResponse('nothing today')
      }
      return () => asked
    }
    failing(patient, 5)
    const asked = failing(away, 100)
    behind.faults.lag = 1
    const all = Promise.all([
      compare(patient),
      assert.rejects(compare(away), /nothing today/),
      assert.rejects(compare(behind), /lacks a block that is final/),
    ])
    for (const [times, waitMs] of [50, 100, 200, 400, 800].entries()) {
      await until('all three wait', () => clock.sleepers() === 3)
      await clock.advance(waitMs - 1)
      assert.equal(asked(), (times + 1) * 7)
      await clock.advance(1)
    }
    await all
    assert.equal(asked(), 6 * 7)
  })
})
