import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql } from 'kysely'
import { listNetworks } from '../applications/networks.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { fromHex } from '../hex.ts'
import { ALICE, backfillStage, BOB, CAROL, idOf } from '../../test/backfill-stage.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { fillNext } from './automatic-backfill.ts'
import { noteCoverage } from './coverage.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

suite('what operators are told of the past that is filled', () => {
  const { app, add, followedChain, bindStored, fill } = backfillStage()
  const told = async () => (await listNetworks(app.db))[0]!.backfillProgress
  const counts = async () => {
    const { waiting, covered } = (await told())!
    return { waiting, covered }
  }
  const metrics = async () =>
    Object.fromEntries(
      [...(await app.telemetry.registry.metrics()).matchAll(/^backfill_accounts\{chain_id="31337",state="(\w+)"\} (\d+)$/gm)] // prettier-ignore
        .map(([, state, count]) => [state, Number(count)]),
    )
  /** Changes the row as if it had been written more than two minutes ago, and its lease had expired. */
  const longAgo = () =>
    sql`update backfill_work set updated_at = now() - interval '121 seconds', lease_until = lease_until - interval '1 hour'`.execute(
      app.db,
    )

  test('nothing before the first look, then how many wait and are covered, without any being counted for it', async () => {
    const script = await followedChain()
    await bindStored(script)
    assert.equal(await told(), null)
    await add(ALICE, BOB, CAROL)
    await noteCoverage(app.db, script.chain, { accountIds: [idOf(CAROL)], from: 0 })
    let during = null
    script.onAsk = async (method) => {
      if (method === 'eth_getLogs') during = await counts()
    }
    const since = Date.now()
    assert.equal(await fill(script), 'filled')
    assert.deepEqual(during, { waiting: 2, covered: 1 })
    // Accounts are counted only when the next group is chosen.
    await add(addressOf(0xd1))
    assert.deepEqual(await counts(), { waiting: 2, covered: 1 })
    assert.equal(await fill(script), 'filled')
    const { countedAt, ...rest } = (await told())!
    assert.ok(Math.abs(Date.parse(countedAt) - since) < 60_000)
    assert.deepEqual([rest.waiting, rest.covered], [1, 3])
    assert.deepEqual(await metrics(), { waiting: 1, covered: 3 })
    assert.equal(await fill(script), 'nothing')
    assert.deepEqual(
      [await counts(), await metrics()],
      [
        { waiting: 0, covered: 4 },
        { waiting: 0, covered: 4 },
      ],
    )
  })

  test('a process that only waits for another tells the same counts', async () => {
    const script = await followedChain()
    await add(ALICE)
    let became: string | null = null
    script.onAsk = async (method) => {
      if (method !== 'eth_getLogs' || became !== null) return
      app.telemetry.backfillAccounts.reset()
      became = await fill(script, { owner: 'two' })
    }
    script.faults.mostBlocks = 30
    await fill(script)
    assert.equal(became, 'elsewhere')
    app.telemetry.backfillAccounts.reset()
    await app.db
      .updateTable('backfill_work')
      .set({ lease_until: new Date(Date.now() + 60_000), waiting: 7, covered: 2 })
      .execute()
    assert.deepEqual([await fill(script, { owner: 'two' }), await metrics()], ['elsewhere', { waiting: 7, covered: 2 }])
  })

  test('at which rate, and when all would be through: the rest of the group and as many groups as the others make', async () => {
    const script = await followedChain()
    await bindStored(script)
    const rows = Array.from({ length: 2_001 }, (_, index) => addressOf(0x1_000 + index)).map((address) => ({
      ...{ account_id: idOf(address), user_id: `DEV-${address}`, address: fromHex(address) },
    }))
    await app.db.insertInto('accounts').values(rows).execute()
    script.faults.mostBlocks = 5
    const stopping = new AbortController()
    let ranges = 0
    script.onAsk = (method, params) => {
      const topics = method === 'eth_getLogs' ? (params[0] as { topics: unknown[] }).topics : []
      if (topics.length === 2 && ++ranges === 5) stopping.abort()
    }
    assert.equal(await fill(script, { stopping: stopping.signal }), 'stopped')
    const { next_block: next } = await app.db.selectFrom('backfill_work').select('next_block').executeTakeFirstOrThrow()
    assert.ok(next !== null && next > 0 && next <= 20, `${next}`)
    const { blocksPerSecond, doneAt, waitsFor, waiting } = (await told())!
    assert.ok(blocksPerSecond !== null && blocksPerSecond > 0)
    // Two more groups wait, each with 21 blocks.
    const seconds = (21 - next + 2 * 21) / blocksPerSecond
    const { updated_at: updatedAt } = await app.db
      .selectFrom('backfill_work')
      .select('updated_at')
      .executeTakeFirstOrThrow()
    assert.ok(
      Math.abs(Date.parse(doneAt!) - (updatedAt.getTime() + seconds * 1_000)) < 20,
      `${doneAt} ${updatedAt.toISOString()} ${seconds}`,
    )
    assert.deepEqual([waitsFor, waiting], [null, 2_001])
    // No process works on the backfill now.
    await longAgo()
    const left = (await told())!
    assert.match(left.waitsFor!, /^no process is at it: BACKFILL is off/)
    assert.equal(left.doneAt, null)
    // Another process holds the lease.
    await sql`update backfill_work set lease_until = now() + interval '30 seconds'`.execute(app.db)
    assert.equal((await told())!.waitsFor, null)
  })

  test('a rate so low that it ends in no century is no time', async () => {
    const script = await followedChain()
    await bindStored(script)
    await add(ALICE)
    script.faults.mostBlocks = 5
    const stopping = new AbortController()
    let now = 0
    const context = { ...app, clock: { ...stoppedClock(), ticks: () => (now += 1e15) } }
    script.onAsk = (method, params) => {
      if (method === 'eth_getLogs' && Number((params[0] as { fromBlock: string }).fromBlock) > 0) stopping.abort()
    }
    assert.equal(await fill(script, { context, stopping: stopping.signal }), 'stopped')
    const { blocksPerSecond, doneAt, waitsFor } = (await told())!
    assert.ok(blocksPerSecond !== null && blocksPerSecond < 1e-9)
    assert.deepEqual([doneAt, waitsFor], [null, null])
  })

  /** Starts a network whose node has no old blocks, and an account that waits for them. */
  async function refusedFill(): ReturnType<typeof followedChain> {
    const script = await followedChain()
    await bindStored(script)
    await add(ALICE)
    script.onAsk = () => {
      throw new RpcError(4444, 'pruned history unavailable', undefined)
    }
    await assert.rejects(fill(script), /pruned/)
    return script
  }

  test('what it waits for, instead of a time: a node’s refusal, or a network that was not followed yet', async () => {
    const script = await refusedFill()
    const refused = (await told())!
    assert.deepEqual([refused.waiting, refused.waitsFor, refused.doneAt], [1, 'pruned history unavailable', null])
    script.onAsk = () => {}
    await app.db.updateTable('networks').set({ chain_id: 5 }).execute()
    const signal = new AbortController().signal
    const other = { ...script.chain, chainId: 5, state: { ...script.chain.state, values: [] } }
    assert.equal(await fillNext(app, other, { owner: 'one', stopping: signal }), 'nothing')
    assert.equal((await told())!.waitsFor, 'it waits: no block of this network was followed yet')
    // Without waiting accounts there is no estimate.
    await app.db.updateTable('backfill_work').set({ waiting: 0 }).where('chain_id', '=', 5).execute()
    assert.equal((await told())!.waitsFor, null)
  })

  test('a group of a first block that was given up is told no more, also where no account waits for another', async () => {
    const script = await refusedFill()
    await noteCoverage(app.db, script.chain, { accountIds: [idOf(ALICE)], from: 3 })
    const context = { ...app, config: { ...app.config, BACKFILL_FROM_BLOCK: 3 } }
    assert.equal(await fill(script, { context }), 'nothing')
    const { backfill, backfillProgress } = (await listNetworks(app.db))[0]!
    assert.deepEqual([backfill, backfillProgress!.waitsFor], [null, null])
  })
})
