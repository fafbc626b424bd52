import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql } from 'kysely'
import { updateNetwork } from '../applications/change-network.ts'
import { listNetworks } from '../applications/networks.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { HEADERS } from '../http/openapi-headers.ts'
import { ALICE, backfillStage, BOB, CAROL, CHAIN, idOf } from '../../test/backfill-stage.ts'
import { addressOf, logOf, scriptedChain, type ScriptedLog, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts' // prettier-ignore
import { runningClock } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { audit } from './audit.ts'
import { fillNext, startBackfilling } from './automatic-backfill.ts'
import { releaseWork, selectWaiting, takeWork } from './backfill-work.ts'
import { noteCoverage } from './coverage.ts'
import { indexTransfers } from './index-transfers.ts'
import { history } from './wire.ts'

const UNINDEXED = /without indexed addresses/

/** Returns the log of an old token, without indexed addresses: one topic, three words. */
function oldForm(transfer: ScriptedTransfer): ScriptedLog {
  const { address, topics, data } = logOf(transfer)
  return {
    address,
    topics: topics.slice(0, 1),
    data: `0x${[...topics.slice(1), data].map((word) => word.slice(2)).join('')}`,
  }
}

suite('a past that is filled by itself', () => {
  const {
    app,
    followed,
    logged,
    add,
    from,
    coin,
    followedChain,
    fill,
    blocksOf,
    all,
    work,
    askedFrom,
    leaseEnds,
    bindStored,
  } = backfillStage()

  test('accounts that a network was followed without have theirs, from the first block on, and are asked for once', async () => {
    const script = await followedChain()
    await add(ALICE, BOB)
    assert.equal(await from(ALICE), null)
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await from(BOB)], [0, 0])
    assert.match(await app.telemetry.registry.metrics(), /^backfill_blocks_left\{chain_id="31337"\} 0$/m)
    assert.deepEqual([await blocksOf(ALICE), await blocksOf(BOB)], [all, all])
    const asked = askedFrom(script)
    assert.equal(await fill(script), 'nothing')
    await add(CAROL)
    assert.deepEqual([await fill(script), await blocksOf(CAROL), await fill(script)], ['filled', all, 'nothing'])
    assert.deepEqual([asked, await work().then((row) => row!.account_ids)], [[0, 0, 0], null])
  })

  test('the old form without indexed addresses is found where a block is read whole, followed or by the audit, and not by filter: as clients are told', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 0 })
    const { chain } = script
    const mine = () => script.mine({ from: addressOf(0x57), transfers: [coin(ALICE)], logs: [oldForm(coin(ALICE))] })
    const follow = () => followed(script, { ...indexTransfers, afterCommit: () => {} })
    for (let number = 1; number <= 2; number++) mine()
    await follow()
    await add(ALICE)
    mine()
    await follow()
    assert.deepEqual(await blocksOf(ALICE), [3, 3])
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [0, [1, 2, 3, 3]])
    for (const { description } of [HEADERS['X-Indexed-From-Block'], history]) assert.match(description, UNINDEXED)
    const looks = { rpc: chain.rpc, repairs: true, onDifference: () => {}, onProgress: () => {} }
    assert.equal((await audit(app, chain, { from: 0, to: 3, ...looks })).differences, 2)
    assert.deepEqual(await blocksOf(ALICE), [1, 1, 2, 2, 3, 3])
    // A block whose logs the node does not return by filter is fetched whole.
    await app.db.deleteFrom('transfers').execute()
    for (const table of ['coverage'] as const) await app.db.deleteFrom(table).execute()
    script.onAsk = (method) => {
      if (method === 'eth_getLogs') throw new RpcError(-32005, 'too many results', undefined)
    }
    assert.equal(await fill(script), 'filled')
    assert.deepEqual(await blocksOf(ALICE), [1, 1, 2, 2, 3, 3])
  })

  test('what a filter answers is believed under every block verification; the audit sets it right', async () => {
    const script = await followedChain()
    const chain = { ...script.chain, verification: 'hash' as const }
    await add(ALICE)
    const invent = (list: unknown) => (Array.isArray(list) ? list.map((log: object) => ({ ...log, data: `0x${'f'.repeat(64)}` })) : list) // prettier-ignore
    const liar = { ...chain.rpc, batch: async (calls: Parameters<typeof chain.rpc.batch>[0]) => (await chain.rpc.batch(calls)).map(invent) } // prettier-ignore
    const signal = new AbortController().signal
    assert.equal(await fillNext(app, { ...chain, rpc: liar }, { owner: 'one', stopping: signal }), 'filled')
    assert.deepEqual(await blocksOf(ALICE), all)
    const looks = { rpc: chain.rpc, repairs: true, onDifference: () => {}, onProgress: () => {} }
    const differences = async () => (await audit(app, chain, { from: 0, to: 20, ...looks })).differences
    assert.deepEqual([await differences(), await differences()], [20, 0])
  })

  test('begins at the block that the settings name', async () => {
    const script = await followedChain()
    await add(ALICE)
    const config = { ...app.config, BACKFILL_FROM_BLOCK: 8 }
    assert.equal(await fill(script, { context: { ...app, config } }), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [8, all.slice(7)])
    assert.equal(await fill(script, { context: { ...app, config } }), 'nothing')
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [0, all])
  })

  test('nothing is asked for accounts that were there before the network’s first block, nor on a network that was never followed', async () => {
    await add(ALICE)
    await sql`update accounts set created_at = now() - interval '1 hour'`.execute(app.db)
    const script = await followedChain()
    const asked = askedFrom(script)
    assert.equal(await fill(script), 'nothing')
    await add(BOB)
    const other = { ...script, chain: { ...script.chain, chainId: 5 } }
    assert.deepEqual([await fill(other), asked], ['nothing', []])
  })

  test('the oldest account comes first, sponsors never, and all are counted', async () => {
    await followedChain()
    await add(ALICE, BOB, CAROL)
    await sql`update accounts set user_id = 'SPONSOR-house' where account_id = ${idOf(BOB)}`.execute(app.db)
    const wanted = { chainId: CHAIN, fromBlock: 0 }
    const waiting = { accountIds: [ALICE, CAROL].map(idOf), waiting: 2, covered: 0 }
    assert.deepEqual(await selectWaiting(app.db, { ...wanted, atMost: 9 }), waiting)
    await noteCoverage(app.db, { chainId: CHAIN }, { accountIds: [idOf(ALICE)], from: 0 })
    const left = { accountIds: [idOf(CAROL)], waiting: 1, covered: 1 }
    assert.deepEqual(await selectWaiting(app.db, { ...wanted, atMost: 1 }), left)
  })

  test('one process does it at a time, and the next continues where one was killed', async () => {
    const script = await followedChain()
    await add(ALICE, BOB)
    script.faults.mostBlocks = 3
    // The process is killed while it requests its second range: no result is reported, and its lease ends.
    const killed = await takeWork(app.db, CHAIN, 'killed')
    await releaseWork(app.db, CHAIN, killed!)
    const stopping = new AbortController()
    script.onAsk = async (method, params) => {
      if (method !== 'eth_getLogs' || Number((params[0] as { fromBlock: Hex }).fromBlock) < 6) return
      assert.equal(await fill(script, { owner: 'two' }), 'elsewhere')
      stopping.abort()
    }
    assert.equal(await fill(script, { stopping: stopping.signal }), 'stopped')
    const { next_block: next } = (await work())!
    assert.ok(next !== null && next >= 6 && next < 20, `${next}`)
    assert.equal(await from(ALICE), null)
    // The group remains as it was begun, whichever accounts were added since.
    await add(CAROL)
    await takeWork(app.db, CHAIN, 'killed')
    await leaseEnds()
    const asked = askedFrom(script)
    assert.equal(await fill(script, { owner: 'two' }), 'filled')
    assert.equal(Math.min(...asked), next)
    assert.deepEqual([await blocksOf(ALICE), await blocksOf(BOB), await blocksOf(CAROL)], [all, all, []])
    assert.deepEqual([await from(ALICE), await from(CAROL)], [0, null])
  })

  test('who was paused while another took over stores nothing more', async () => {
    const script = await followedChain()
    await add(ALICE)
    let isFirst = true
    script.onAsk = async (method) => {
      if (method !== 'eth_getLogs' || !isFirst) return
      isFirst = false
      await leaseEnds()
      assert.notEqual(await takeWork(app.db, CHAIN, 'two'), null)
    }
    assert.equal(await fill(script), 'stopped')
    assert.deepEqual([await blocksOf(ALICE), await from(ALICE)], [[], null])
    assert.equal((await work())!.lease_owner, 'two')
    await leaseEnds()
    assert.equal(await fill(script), 'filled')
    assert.deepEqual(await blocksOf(ALICE), all)
  })

  test('what is not a node’s word is kept out of the row that operators are shown', async () => {
    const script = await followedChain()
    await add(ALICE)
    script.onAsk = () => {
      throw new Error('no connection to postgres://keeper:secret@database/chatelaine')
    }
    await assert.rejects(fill(script), /no connection/)
    assert.equal((await work())!.blocked_by, 'no node refused it: backfill_blocked in the log says what did')
  })

  test('a node’s words come without the URLs and keys in them, also where they are cut', async () => {
    const script = await followedChain()
    await add(ALICE)
    const url = 'https://keeper:secret@node.example/v2/0123456789abcdef?key=hidden'
    script.onAsk = (method) => {
      if (method === 'eth_getLogs')
        throw new RpcUnavailable(`${'x'.repeat(20)} ${'no '.repeat(55)}${url}`, { timedOut: false })
    }
    await assert.rejects(fill(script))
    assert.equal((await work())!.blocked_by, `${'x'.repeat(20)} ${'no '.repeat(55)}[url]`)
  })

  test('a node that has no more of the past is named, counts as nothing covered, and is asked again later', async () => {
    const script = await followedChain()
    await add(ALICE)
    script.onAsk = (method, params) => {
      const isOld = method === 'eth_getLogs' && Number((params[0] as { fromBlock: Hex }).fromBlock) < 10
      if (isOld || method === 'eth_getBlockReceipts') throw new RpcError(4444, 'pruned history unavailable', undefined)
    }
    await assert.rejects(fill(script), /pruned history unavailable/)
    await bindStored(script)
    const told = async () => (await listNetworks(app.db))[0]!.backfill
    const { updatedAt, ...group } = (await told())!
    assert.ok(Date.parse(updatedAt) > 0)
    // Block 0 has no transactions, so only the block itself is requested.
    assert.deepEqual(group, { accounts: 1, fromBlock: 0, nextBlock: 1, toBlock: 20, blockedBy: 'pruned history unavailable' }) // prettier-ignore
    const left = async () =>
      /^backfill_blocks_left\{chain_id="31337"\} (\d+)$/m.exec(await app.telemetry.registry.metrics())?.[1]
    assert.equal(await left(), '20')
    const blocked = (await work())!
    assert.deepEqual([blocked.blocked_by, blocked.lease_until], ['pruned history unavailable', null])
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [null, []])
    // An operator who sets a later first block does not wait for those blocks.
    const config = { ...app.config, BACKFILL_FROM_BLOCK: 10 }
    assert.equal(await fill(script, { context: { ...app, config } }), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [10, all.slice(9)])
    script.onAsk = () => {}
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE), (await work())!.blocked_by], [0, all, null])
    assert.deepEqual([await told(), await left()], [null, '0'])
  })

  test('a network has a first block of its own, which holds from the next group on; what is covered stays so', async () => {
    const script = await followedChain()
    await bindStored(script)
    await add(ALICE)
    const config = { ...app.config, BACKFILL_FROM_BLOCK: 15 }
    const fillFrom = async (backfillFrom: number | null) => {
      await updateNetwork(app.db, script.chain.name, { backfillFrom })
      return fill(script, { context: { ...app, config } })
    }
    assert.deepEqual([await fillFrom(null), await from(ALICE)], ['filled', 15])
    assert.deepEqual([await fillFrom(8), await from(ALICE), await blocksOf(ALICE)], ['filled', 8, all.slice(7)])
    // The group began at a block that no node has, and is discarded for a later first block.
    script.onAsk = () => {
      throw new RpcError(4444, 'pruned history unavailable', undefined)
    }
    await assert.rejects(fillFrom(0), /pruned/)
    script.onAsk = () => {}
    assert.deepEqual([await fillFrom(12), await from(ALICE), await blocksOf(ALICE)], ['nothing', 8, all.slice(7)])
    await add(BOB)
    assert.deepEqual([await fillFrom(12), await from(BOB), await blocksOf(BOB)], ['filled', 12, all.slice(11)])
    // Another network has a separate setting.
    await app.db.updateTable('networks').set({ chain_id: 5 }).execute()
    assert.deepEqual([await fill(script), await from(BOB)], ['filled', 0])
  })

  test('a reorganisation while a range is read costs no transfer and adds none', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 5 })
    for (let number = 1; number <= 20; number++) script.mine({ from: addressOf(0x57), transfers: [coin(ALICE)] })
    const follow = () => followed(script, { ...indexTransfers, afterCommit: () => {} })
    await follow()
    await add(ALICE)
    let isFirst = true
    script.onAsk = async (method) => {
      if (method !== 'eth_getLogs' || !isFirst) return
      isFirst = false
      script.lose(3)
      for (let number = 18; number <= 30; number++) script.mine()
      await follow()
    }
    assert.equal(await fill(script), 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [0, all.slice(0, 17)])
  })

  test('what was looked up is covered when all of it was, which waits for the last block to become final', async () => {
    const clock = runningClock()
    const script = scriptedChain({ finality: 5 })
    const mine = async (count: number) => {
      for (let block = 0; block < count; block++) script.mine({ from: signerAt(0x57), transfers: [coin(ALICE)] })
      await followed(script, { ...indexTransfers, afterCommit: () => {} })
    }
    await mine(20)
    await add(ALICE)
    let became: string | null = null
    const filling = fill(script, { context: { ...app, clock } }).then((end) => (became = end))
    await until('what is final is stored', async () => (await work())?.next_block === 16)
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [null, all.slice(0, 15)])
    await mine(5)
    await until('it is over', async () => (await clock.advance(10_000), became))
    await filling
    assert.deepEqual([became, await from(ALICE), (await blocksOf(ALICE)).slice(0, 20)], ['filled', 0, all])
  })

  test('tokens that turn up are asked what they are, at the pace of ranges, and not by one that stops', async () => {
    const script = await followedChain()
    await add(ALICE)
    let asked = 0
    script.onAsk = (method) => void (method === 'eth_getCode' && asked++)
    script.answer = (method) => (method === 'eth_getCode' ? '0x60' : `0x${'0'.repeat(64)}`)
    const tokens = () => app.db.selectFrom('tokens').select(['asked_block', 'attempts']).execute()
    assert.equal(await fill(script), 'filled')
    assert.deepEqual(await tokens(), [{ asked_block: 20, attempts: 1 }])
    // Repeat this, and stop the backfill when it has fetched the transfers.
    await app.db
      .updateTable('tokens')
      .set({ retry_at: new Date(0) })
      .execute()
    await add(BOB)
    const stopping = new AbortController()
    const log = { ...app.telemetry.log, info: (event: string) => void (event === 'backfill_done' && stopping.abort()) }
    const context = { ...app, telemetry: { ...app.telemetry, log } }
    assert.equal(await fill(script, { context, stopping: stopping.signal }), 'filled')
    assert.deepEqual([asked, await tokens()], [1, [{ asked_block: 20, attempts: 1 }]])
  })

  test('the worker does it without being asked to, and not at all where it is switched off', async () => {
    const script = await followedChain()
    await add(ALICE)
    // If it searched for accounts, it would fail and log the failure.
    const off = startBackfilling({ ...app, db: null as never, config: { ...app.config, BACKFILL: 'off' } }, script.chain, 0) // prettier-ignore
    const on = startBackfilling(app, script.chain, 0)
    await until('the account has its past', async () => (await from(ALICE)) === 0)
    await Promise.all([on.stop(), off.stop()])
    assert.ok(logged.includes('backfill_done') && !logged.includes('backfill_blocked'), logged.join())
  })
})
