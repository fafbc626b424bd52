import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { chainLike } from '../../test/opened.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { selectWaiting } from './backfill-work.ts'
import { coveredFrom, lowerCoverage, noteCoverage } from './coverage.ts'
import { indexTransfers } from './index-transfers.ts'

const [ALICE, BOB] = [addressOf(0xa1), addressOf(0xb0b)]
const idOf = (address: Hex) => `00000000-0000-8000-8000-${address.slice(-12)}`

suite('from which block on a history is whole', () => {
  const { app, followed, settled, following } = followerStage([
    ...(['accounts', 'blocks', 'cursors', 'transfers', 'tokens'] as const),
    ...(['history_marks', 'coverage'] as const),
  ])
  const listener = { ...indexTransfers, afterCommit: () => {} }
  /** Follows like another process: each process stores a mark at its first block. */
  const follow = (script: ScriptedChain) => followed(script, listener, chainLike(script.chain))
  const add = (address: Hex, minutesAgo: number) =>
    app.db
      .insertInto('accounts')
      .values({
        ...{ account_id: idOf(address), user_id: `DEV-${address}`, address: fromHex(address) },
        created_at: sql<Date>`now() - ${`${minutesAgo} minutes`}::interval`,
      })
      .execute()
  const from = (address: Hex, chainId = 31337) => coveredFrom(app.db, { accountId: idOf(address), chainId })
  const coin: ScriptedTransfer = {
    ...{ type: 'ERC20', token: addressOf(0x70), from: addressOf(0x57), to: ALICE },
    items: [{ id: null, value: 5n }],
  }
  const chainOf = (count: number, finality = 0) => {
    const script = scriptedChain({ isDevelopment: true, finality })
    for (let number = 1; number <= count; number++) script.mine({ from: addressOf(0x57), transfers: [coin] })
    return script
  }

  test('of an account that was there before the network: from its first block', async () => {
    await add(ALICE, 60)
    await follow(chainOf(10))
    assert.equal(await from(ALICE), 0)
    assert.equal(await from(ALICE, 5), null)
    assert.equal(await from(BOB), null)
  })

  test('of one that came later: from the first block after that of which it is known, and nothing is said before', async () => {
    const script = chainOf(10)
    await follow(script)
    await add(ALICE, 0)
    assert.equal(await from(ALICE), null)
    await add(BOB, 60)
    // For all that is known, the mark at block 0 is older than the account.
    await app.db
      .updateTable('history_marks')
      .set({ at: sql<Date>`now() - interval '2 hours'` })
      .execute()
    assert.equal(await from(BOB), null)
    script.mine()
    await follow(script)
    assert.equal(await from(BOB), 11)
    assert.equal(await from(ALICE), null)
    // Accounts for which an earlier first block is requested wait for a backfill.
    const waiting = async (fromBlock: number) =>
      (await selectWaiting(app.db, { chainId: 31337, fromBlock, atMost: 9 })).accountIds
    assert.deepEqual([await waiting(11), await waiting(10)], [[idOf(ALICE)], [BOB, ALICE].map(idOf)])
  })

  test('of one whose key was made for it: from the first block on where the network was followed by then, and it waits for no backfill', async () => {
    const script = chainOf(10)
    await follow(script)
    await app.db
      .updateTable('history_marks')
      .set({ at: sql<Date>`now() - interval '1 hour'` })
      .execute()
    await add(ALICE, 1)
    await add(BOB, 90)
    await sql`update accounts set is_key_new = true`.execute(app.db)
    const waiting = async () => (await selectWaiting(app.db, { chainId: 31337, fromBlock: 0, atMost: 9 })).accountIds
    assert.deepEqual([await from(ALICE), await from(BOB)], [0, 0])
    assert.deepEqual(await waiting(), [])
    // The network was added between both accounts.
    await app.db.updateTable('history_marks').set({ block_number: 5 }).execute()
    assert.deepEqual([await from(ALICE), await from(BOB)], [0, 6])
    assert.deepEqual(await waiting(), [idOf(BOB)])
    // An older key may have received transfers before.
    await sql`update accounts set is_key_new = false`.execute(app.db)
    assert.deepEqual([await from(ALICE), await waiting()], [null, [idOf(BOB), idOf(ALICE)]])
    await sql`update accounts set is_key_new = true`.execute(app.db)
    await app.db.deleteFrom('history_marks').execute()
    assert.deepEqual([await from(ALICE), await waiting()], [null, [idOf(BOB), idOf(ALICE)]])
  })

  test('is noted once in minutes by one process, not with every block', async () => {
    const script = chainOf(3)
    await following(script, listener, async () => {
      await settled(script)
      for (let count = 0; count < 5; count++) {
        script.mine()
        await settled(script)
      }
    })
    const marks = await app.db.selectFrom('history_marks').select('block_number').execute()
    assert.deepEqual(marks, [{ block_number: -1 }])
  })

  test('a reorganisation makes it no later: what follows is looked at anew', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 100 })
    for (let number = 1; number <= 10; number++) script.mine()
    await follow(script)
    await app.db.deleteFrom('history_marks').execute()
    await add(ALICE, 60)
    script.mine()
    await follow(script)
    assert.equal(await from(ALICE), 11)
    script.lose(4)
    for (let number = 0; number < 5; number++) script.mine()
    await follow(script)
    assert.equal(await from(ALICE), 8)
  })

  test('a reorganisation lowers what was noted from its first block on, on its network', async () => {
    const marks = [[31337, 6], [31337, 7], [31337, 8], [31337, 9], [5, 8]] as const // prettier-ignore
    const values = marks.map(([chain_id, block_number], index) => ({ chain_id, block_number, at: new Date(index * 1_000) })) // prettier-ignore
    await app.db.insertInto('history_marks').values(values).execute()
    await lowerCoverage(app.db, scriptedChain().chain, 8)
    const lowered = await app.db.selectFrom('history_marks').select('block_number').orderBy('at').execute()
    assert.deepEqual(lowered.map(({ block_number }) => block_number), [6, 7, 7, 7, 8]) // prettier-ignore
  })

  test('what begins later says nothing new, what begins earlier does', async () => {
    await add(ALICE, 0)
    await add(BOB, 0)
    const note = (begin: number, ...addresses: Hex[]) =>
      noteCoverage(app.db, { chainId: 31337 }, { accountIds: addresses.map(idOf), from: begin })
    await note(3, ALICE)
    assert.deepEqual([await from(ALICE), await from(BOB)], [3, null])
    await note(9, ALICE)
    assert.equal(await from(ALICE), 3)
    await note(1, ALICE, BOB)
    assert.deepEqual([await from(ALICE), await from(BOB)], [1, 1])
    assert.equal(await from(ALICE, 5), null)
  })
})
