import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { ALICE, backfillStage, BOB, CHAIN, idOf } from '../../test/backfill-stage.ts'
import { releaseWork, takeWork } from './backfill-work.ts'

suite('the group whose past is looked up', () => {
  const { app, add, from, followedChain, fill, blocksOf, all, work, askedFrom } = backfillStage()
  /** Chooses a group, as a process does that has not begun to index it. */
  const chosen = async (accountIds: string[]) => {
    await releaseWork(app.db, CHAIN, (await takeWork(app.db, CHAIN, 'gone'))!)
    await app.db
      .updateTable('backfill_work')
      .set({ account_ids: accountIds, from_block: 0, target_block: 20 })
      .execute()
  }

  test('whose accounts are all gone asks no node for anything: an empty list of addresses is everyone', async () => {
    const script = await followedChain()
    await chosen([idOf(ALICE), idOf(BOB)])
    script.onAsk = (method) => assert.fail(`${method} was asked`)
    assert.deepEqual([await fill(script), (await work())!.account_ids], ['filled', null])
    script.onAsk = () => {}
    await add(ALICE)
    assert.equal(await from(ALICE), null)
  })

  test('of which one account was gone meanwhile covers those that are there, and the one when it is made again', async () => {
    const script = await followedChain()
    await add(ALICE)
    await chosen([idOf(ALICE), idOf(BOB)])
    const asked = askedFrom(script)
    assert.equal(await fill(script), 'filled')
    await add(BOB)
    assert.deepEqual([await from(ALICE), await from(BOB)], [0, null])
    assert.deepEqual([await fill(script), await fill(script)], ['filled', 'nothing'])
    assert.deepEqual([await from(BOB), await blocksOf(BOB), asked.length], [0, all, 6])
  })

  test('that was begun without one account leaves it out when it is made again meanwhile', async () => {
    const script = await followedChain()
    await add(ALICE)
    await chosen([idOf(ALICE), idOf(BOB)])
    script.faults.mostBlocks = 5
    const stopping = new AbortController()
    script.onAsk = (method, params) =>
      void (method === 'eth_getLogs' && Number((params[0] as { fromBlock: string }).fromBlock) > 5 && stopping.abort())
    assert.equal(await fill(script, { stopping: stopping.signal }), 'stopped')
    await add(BOB)
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE), await from(BOB)], [0, all, null])
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(BOB), await blocksOf(BOB)], [0, all])
  })
})
