import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql, type KyselyPlugin } from 'kysely'
import { readAt } from '../chain/reads.ts'
import { addressOf, logOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { followerStage, recorder, TRANSACTION } from '../../test/follower-stage.ts'
import { applyBlocks } from './apply.ts'
import type { BlockListener } from './block.ts'
import { Fenced, releaseLease, renewLease, setHalted, takeLease } from './cursor.ts'
import { startFollower } from './follow.ts'
import { indexedTo } from './history-cursor.ts'
import { chainLike } from '../../test/opened.ts'
import { runningClock } from '../../test/kit/clock.ts'
import { systemClock } from '../clock.ts'

suite('the follower', () => {
  const { app, logged, cursor, settled, storedHashes, following } = followerStage()
  const hashes = (blocks: { hash: string }[]) => blocks.map(({ hash }) => hash)

  test('a development chain is told from block 0, every block once and in order', async () => {
    const script = scriptedChain({ isDevelopment: true })
    for (let count = 0; count < 100; count++) script.mine(TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.mine(TRANSACTION)
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.deepEqual(told.at(-1)!.receipts[0]!.logs[0]!.topics.length, 3)
    assert.equal(told.at(-1)!.receipts[0]!.transactionHash, script.blocks.at(-1)!.transactions[0]!.hash)
    assert.equal(script.chain.head.current()!.hash, script.blocks.at(-1)!.hash)
  })

  test('a stand-by that has read the block above the cursor’s does not take its head back', async () => {
    const script = scriptedChain({ finality: 12 })
    for (let count = 0; count < 20; count++) script.mine()
    const { listener } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      await sql`update cursors set epoch = epoch + 1, lease_owner = 'other', lease_until = now() + interval '1 hour'`.execute(
        app.db,
      )
      await until('it stands by', () => logged.includes('lease_lost'))
      script.mine()
      const seen = new Set<number>()
      const numberOf = ({ block }: { block: { number: number } }) => Promise.resolve(block.number)
      await until('the new block is read', async () => (await readAt(script.chain, 'latest', numberOf)) === 21)
      for (let round = 0; round < 100; round++) {
        seen.add(await readAt(script.chain, 'latest', numberOf))
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
      assert.deepEqual([...seen], [21])
    })
  })

  test('another network is told from its finalized block on', async () => {
    const script = scriptedChain({ finality: 'finalized' })
    for (let count = 0; count < 40; count++) script.mine()
    const { listener, told } = recorder()
    await following(script, listener, () => settled(script))
    assert.equal(told[0]!.number, 40 - 12)
    const { block_number, finalized_number, halted } = await app.db
      .selectFrom('cursors')
      .selectAll()
      .executeTakeFirstOrThrow()
    assert.deepEqual([block_number, finalized_number, halted], [40, 28, null])
  })

  test('a node without the finalized tag counts 64 blocks', async () => {
    const script = scriptedChain({ finality: 'finalized' })
    script.faults.hasNoFinalizedTag = true
    for (let count = 0; count < 100; count++) script.mine()
    const { listener, finalized } = recorder()
    await following(script, listener, () => settled(script))
    assert.equal(finalized(), 100 - 64)
  })

  test('finality is told as it advances and stays behind what is stored', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 5 })
    const { listener, events } = recorder()
    await following(script, listener, async () => {
      for (let count = 0; count < 7; count++) {
        script.mine()
        await settled(script)
      }
    })
    assert.deepEqual(events.slice(-4), ['block 6', 'finalize 1', 'block 7', 'finalize 2'])
    assert.equal((await cursor()).finalized_number, 2)
  })

  test('a reorganisation is retracted to the common ancestor and the other branch told', async () => {
    const script = scriptedChain({ isDevelopment: true })
    for (let count = 0; count < 9; count++) script.mine(TRANSACTION)
    const { listener, told, events } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.lose(5)
      for (let count = 0; count < 5; count++) script.mine(TRANSACTION)
      await settled(script)
      script.lose(1)
      script.mine()
      script.mine()
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.deepEqual(await storedHashes(), hashes(script.blocks))
    assert.deepEqual(
      events.filter((event) => event.startsWith('retract')),
      ['retract 5', 'retract 9'],
    )
    assert.equal(script.chain.head.current()!.hash, script.blocks.at(-1)!.hash)
  })

  test('a node that lags behind our blocks retracts nothing', async () => {
    const script = scriptedChain({ finality: 12 })
    for (let count = 0; count < 20; count++) script.mine()
    const { listener, events } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.faults.lag = 3
      const asked = script.asked.get('eth_getBlockByNumber')!
      await until('the node was asked again', () => script.asked.get('eth_getBlockByNumber')! > asked + 5)
      assert.equal(script.chain.head.current()!.number, 20)
      script.faults.lag = 0
      script.mine()
      await settled(script)
    })
    assert.ok(!events.some((event) => event.startsWith('retract')))
  })

  const stops = async () =>
    (await app.telemetry.followerStopped.get()).values.map(({ labels: { state, cause }, value }) => [state, String(value), cause]) // prettier-ignore

  test('a block that cannot be taken is noted for every process, with its cause, until it is taken', async (t) => {
    const clock = runningClock()
    Object.assign(app, { clock })
    t.after(() => Object.assign(app, { clock: systemClock }))
    const script = scriptedChain({ isDevelopment: true })
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION)
    const { listener } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.mine(TRANSACTION)
      script.faults.partialReceipts = Number.POSITIVE_INFINITY
      const noted = await until('it is noted', async () => {
        await clock.advance(2_000)
        return (await cursor()).blocked_by
      })
      assert.match(noted, /receipt/)
      assert.equal((await cursor()).block_number, 5)
      await until('the metric shows it', async () => (await stops()).length === 1)
      assert.deepEqual(await stops(), [['stuck', '5', noted]])
      script.faults.partialReceipts = 0
      await until('it is taken', async () => {
        await clock.advance(2_000)
        return (await cursor()).block_number === 6
      })
      assert.equal((await cursor()).blocked_by, null)
      await until('the metric shows it', async () => (await stops()).length === 0)
    })
  })

  test('below finality the follower stops, says so, and goes on when the chains agree again', async () => {
    const script = scriptedChain({ finality: 4 })
    for (let count = 0; count < 20; count++) script.mine(TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const stored = hashes(told)
      const lost = script.lose(10)
      for (let count = 0; count < 12; count++) script.mine()
      await until('the follower halted', async () => (await indexedTo(app.db, 31337)).halted !== null)
      assert.match((await indexedTo(app.db, 31337)).halted!, /below the finalized block 16/)
      assert.deepEqual(hashes(told), stored)
      await until('the metric shows it', async () => (await stops()).length === 1)
      assert.deepEqual(await stops(), [['halted', '20', (await cursor()).halted]])
      script.lose(12)
      script.restore(lost)
      script.mine()
      await settled(script)
    })
    assert.equal((await indexedTo(app.db, 31337)).halted, null)
    assert.equal(told.at(-1)!.hash, script.blocks.at(-1)!.hash)
  })

  test('a reorganisation above finality halts nobody while the database is back at an older block: it is followed from there', async () => {
    const script = scriptedChain({ finality: 4 })
    for (let count = 0; count < 20; count++) script.mine(TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const older = await cursor()
      const blocks = await app.db.selectFrom('blocks').selectAll().execute()
      // The cursor's block in the older database is no longer in the chain.
      script.lose(1)
      for (let count = 0; count < 11; count++) script.mine(TRANSACTION)
      await settled(script)
      const { promise, resolve } = Promise.withResolvers<void>()
      let isHeld = false
      script.onAsk = () => {
        isHeld = true
        return promise
      }
      await until('the follower asks for the newest block', () => isHeld)
      await app.db.transaction().execute(async (db) => {
        const { block_number, block_hash, finalized_number } = older
        await db.updateTable('cursors').set({ block_number, block_hash, finalized_number }).execute()
        await db.deleteFrom('blocks').execute()
        await db.insertInto('blocks').values(blocks).execute()
      })
      script.lose(2)
      for (let count = 0; count < 3; count++) script.mine(TRANSACTION)
      script.onAsk = () => {}
      resolve()
      await settled(script)
    })
    assert.ok(!logged.includes('follower_halted'))
    assert.deepEqual([(await cursor()).halted, told.at(-1)!.hash], [null, script.blocks.at(-1)!.hash])
    assert.deepEqual((await storedHashes()).slice(-12), hashes(script.blocks).slice(-12))
  })

  test('a development chain that lost blocks below finality is followed back, even past the blocks that are kept', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 4 })
    for (let count = 0; count < 30; count++) script.mine(TRANSACTION)
    const { listener, told, events } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.lose(20)
      await settled(script)
      assert.equal((await cursor()).finalized_number, 10)
      for (let count = 0; count < 10; count++) script.mine(TRANSACTION)
      await settled(script)
      await app.db.deleteFrom('blocks').where('number', '<', 15).execute()
      script.lose(15)
      script.mine(TRANSACTION)
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.deepEqual(await storedHashes(), hashes(script.blocks))
    assert.ok(events.includes('retract 0'))
  })

  test('a development chain with another genesis is refused', async () => {
    const script = scriptedChain({ isDevelopment: true })
    for (let count = 0; count < 5; count++) script.mine()
    const genesis = Buffer.from(script.blocks[0]!.hash.slice(2), 'hex')
    await app.db.insertInto('networks').values({ chain_id: 31337, name: 'devnet', genesis_hash: genesis }).execute()
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.lose(6)
      for (let count = 0; count < 9; count++) script.mine()
      await until('the follower halted', async () => (await indexedTo(app.db, 31337)).halted !== null)
    })
    assert.equal(told.length, 6)
    assert.match((await indexedTo(app.db, 31337)).halted!, /genesis/)
  })

  for (const fault of [
    'emptyReceipts',
    'nullReceipts',
    'partialReceipts',
    'nullBlocks',
    'missingLogs',
    'falseTopics',
  ] as const) {
    test(`a node that answers ${fault} is asked again, nothing is taken as empty`, async () => {
      const script = scriptedChain({ isDevelopment: true })
      const { listener, told } = recorder()
      await following(script, listener, async () => {
        await settled(script)
        script.faults[fault] = 4
        script.mine(TRANSACTION, TRANSACTION, TRANSACTION)
        script.mine(TRANSACTION)
        await settled(script)
      })
      assert.equal(script.faults[fault], 0)
      assert.deepEqual(
        told.map((block) => block.receipts.length),
        [0, 3, 1],
      )
    })
  }

  test('in strict mode not even another amount is believed', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    script.faults.falseAmounts = 3
    const { data } = logOf(TRANSACTION.transfers[0]!)
    script.mine(TRANSACTION)
    const follower = startFollower(app, chainLike(script.chain, { verification: 'hash' }), [listener])
    await settled(script)
    await follower.stop()
    assert.equal(script.faults.falseAmounts, 0)
    assert.equal(told.at(-1)!.receipts[0]!.logs[0]!.data, data)
  })

  test('on a network without Bloom filters the lax mode follows, and the others take nothing', async () => {
    const script = scriptedChain({ isDevelopment: true })
    script.mine(TRANSACTION).header.logsBloom = `0x${'00'.repeat(256)}`
    const { listener, told } = recorder()
    const asked = () => script.asked.get('eth_getBlockReceipts') ?? 0
    await following(script, listener, () => until('the block was asked for again and again', () => asked() > 4))
    assert.equal(told.length, 1)
    const follower = startFollower(app, chainLike(script.chain, { verification: 'count' }), [listener])
    await settled(script)
    await follower.stop()
    assert.equal(told.length, 2)
  })

  test('two forks behind one address: whatever is stored is one of them, and the one that stays is reached', async () => {
    const script = scriptedChain({ finality: 40 })
    for (let count = 0; count < 50; count++) script.mine(TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const trunk = script.blocks.slice(0, -6)
      const forks = [script.blocks, [...trunk]]
      script.blocks = forks[1]!
      for (let count = 0; count < 7; count++) script.mine(TRANSACTION)
      // Every request goes to the other of two nodes; both continue mining.
      let turn = 0
      script.onAsk = async () => {
        await new Promise((resolve) => setImmediate(resolve))
        script.blocks = forks[turn++ % 2]!
      }
      for (let count = 0; count < 20; count++) {
        script.blocks = forks[count % 2]!
        script.mine(TRANSACTION)
        const asked = turn
        await until('the nodes were asked', () => turn > asked + 3)
        const known = new Set(hashes(forks.flat()))
        assert.ok(
          told.every(({ hash, parentHash }, at) => known.has(hash) && (at === 0 || parentHash === told[at - 1]!.hash)),
        )
      }
      script.onAsk = () => {}
      script.blocks = forks[0]!
      for (let count = 0; count < 8; count++) script.mine(TRANSACTION)
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks.slice(told[0]!.number)))
    assert.equal((await indexedTo(app.db, 31337)).halted, null)
  })

  test('a node without eth_getBlockReceipts is followed by single receipts where a block has few', async () => {
    const script = scriptedChain({ isDevelopment: true })
    script.faults.hasNoBlockReceipts = true
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION, TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const refused = script.asked.get('eth_getBlockReceipts')!
      script.mine(TRANSACTION)
      await settled(script)
      assert.equal(script.asked.get('eth_getBlockReceipts'), refused)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.equal(told[3]!.receipts.length, 2)
  })

  test('a node without eth_getBlockReceipts is followed by the logs of its blocks, and operators can see so', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const readFrom = async () => {
      const rows = await app.db.selectFrom('cursors').select('read_from').where('chain_id', '=', 31337).execute()
      return rows[0]?.read_from
    }
    script.faults.hasNoBlockReceipts = true
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      // An empty block does not show how a node is read.
      assert.equal(await readFrom(), 'block receipts')
      script.mine(TRANSACTION, TRANSACTION, TRANSACTION)
      await settled(script)
      assert.equal(await until('it is noted', async () => (await readFrom()) === 'logs' && 'logs'), 'logs')
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.deepEqual(
      told[1]!.receipts.map(({ logs }) => logs.length),
      [1, 1, 1],
    )
    assert.equal(script.asked.get('eth_getTransactionReceipt'), undefined)
    assert.ok(logged.includes('block_receipts_missing'))
    // After a start, another node may be behind the address.
    script.faults.hasNoBlockReceipts = false
    await following(script, recorder().listener, async () => {
      script.mine(TRANSACTION)
      await settled(script)
      await until('it is noted', async () => (await readFrom()) === 'block receipts')
    })
  })

  test('a node that says null for the receipts of every block is followed by single ones, and no block is taken as empty', async () => {
    const script = scriptedChain({ isDevelopment: true })
    script.faults.nullReceipts = 1_000
    script.mine()
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION, TRANSACTION)
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      // The node is asked again for each block, so one that lagged briefly is used again.
      const single = script.asked.get('eth_getTransactionReceipt')!
      script.faults.nullReceipts = 0
      script.mine(TRANSACTION)
      await settled(script)
      assert.equal(script.asked.get('eth_getTransactionReceipt'), single)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.deepEqual(
      told.map(({ receipts }) => receipts.length),
      [0, 0, 2, 2, 2, 2, 2, 1],
    )
    assert.ok(logged.includes('block_receipts_missing'))
  })

  test('an empty block needs no receipts, unless its header says that it is not empty', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    const asked = () => script.asked.get('eth_getBlockReceipts') ?? 0
    await following(script, listener, async () => {
      await settled(script)
      script.faults.nullReceipts = 2
      script.mine()
      script.mine()
      await settled(script)
      assert.equal(script.faults.nullReceipts, 1, 'one answer was enough, and of the newest block none was asked for')
      const { header } = script.mine()
      header.transactionsRoot = `0x${'ab'.repeat(32)}`
      const before = asked()
      await until('the block was asked for again', () => asked() > before + 1)
    })
    assert.deepEqual(
      told.slice(0, 3).map(({ number }) => number),
      [0, 1, 2],
    )
  })

  test('the head counts as followed while the lease is sure to be ours, and no longer', async (t) => {
    const script = scriptedChain()
    script.mine()
    const { head } = script.chain
    await following(script, recorder().listener, async () => {
      assert.equal(head.isFollowed(), false)
      await settled(script)
      await until('it leads', () => head.isFollowed())
      // A statement hangs: the lease expires, and this process is not told.
      const { promise, resolve } = Promise.withResolvers<void>()
      script.onAsk = () => promise
      const { now } = performance
      t.mock.method(performance, 'now', () => now.call(performance) + 3_001)
      assert.equal(head.isFollowed(), false)
      t.mock.restoreAll()
      script.onAsk = () => {}
      resolve()
      await until('it leads again', () => head.isFollowed())
      await sql`update cursors set epoch = epoch + 1, lease_owner = 'other', lease_until = now() + interval '1 hour'`.execute(
        app.db,
      )
      await until('another one leads', () => !head.isFollowed())
    })
    assert.equal(head.isFollowed(), false)
  })

  test('a lease whose statement took longer than it lasts is not believed in', async (t) => {
    const script = scriptedChain()
    script.mine()
    const { head } = script.chain
    const { now } = performance
    let offsetMs = 0
    t.mock.method(performance, 'now', () => now.call(performance) + offsetMs)
    let [asked, isSlow] = [0, true]
    const slow: KyselyPlugin = {
      transformQuery: ({ node }) => {
        asked++
        if (isSlow) offsetMs += 3_001
        return node
      },
      transformResult: async ({ result }) => {
        await new Promise((resolve) => setImmediate(resolve))
        return result
      },
    }
    const follower = startFollower({ ...app, db: app.db.withPlugin(slow) }, script.chain, [recorder().listener])
    try {
      await until('it leads', () => logged.includes('lease_acquired'), Number.MAX_SAFE_INTEGER)
      const from = asked
      await until(
        'it has renewed its lease and followed',
        () => {
          assert.equal(head.isFollowed(), false)
          if (asked % 5 === 0) script.mine()
          return asked > from + 30
        },
        Number.MAX_SAFE_INTEGER,
      )
      isSlow = false
      await until('its lease is sure', () => head.isFollowed())
    } finally {
      await follower.stop()
    }
  })

  test('a node that was away is caught up with', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.faults.isAway = true
      const asked = script.asked.get('eth_getBlockByNumber')!
      for (let count = 0; count < 50; count++) script.mine(TRANSACTION)
      await until('the node was asked in vain', () => script.asked.get('eth_getBlockByNumber')! > asked + 2)
      script.faults.isAway = false
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
  })

  test('a listener that fails leaves nothing of its block behind and is told it again', async () => {
    const script = scriptedChain({ isDevelopment: true })
    script.mine()
    let failures = 4
    const failing: BlockListener = {
      onBlock: async (db, _app, _chain, { number, hash }) => {
        // Fail before the write and after it.
        if (number === 1 && failures-- > 2) throw new Error('not yet')
        await sql`insert into networks (chain_id, name, genesis_hash) values (${number}, ${hash}, ''::bytea)`.execute(
          db,
        )
        if (number === 1 && failures-- > 0) throw new Error('not now')
      },
      onRetract: async () => {},
      onFinalize: async () => {},
    }
    await following(script, failing, () => settled(script))
    const names = await app.db.selectFrom('networks').select('name').orderBy('chain_id').execute()
    assert.deepEqual(
      names.map(({ name }) => name),
      hashes(script.blocks),
    )
  })

  test('a follower whose epoch was taken cannot commit', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const { promise, resolve } = Promise.withResolvers<void>()
      let isHeld = false
      script.onAsk = (method) => {
        if (method !== 'eth_getBlockReceipts') return
        isHeld = true
        return promise
      }
      script.mine(TRANSACTION)
      await until('the follower is fetching the block', () => isHeld)
      await sql`update cursors set epoch = epoch + 1, lease_owner = 'other', lease_until = now() + interval '1 hour'`.execute(
        app.db,
      )
      script.onAsk = () => {}
      resolve()
      await until('the follower noticed', () => logged.includes('lease_lost'))
      assert.equal((await cursor()).block_number, 0)
      assert.equal(told.length, 1)
      await sql`update cursors set lease_until = now() - interval '1 second'`.execute(app.db)
      await settled(script)
    })
    assert.deepEqual(hashes(told), hashes(script.blocks))
  })

  test('a transaction under an old epoch is rolled back with everything its listeners wrote', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    await following(script, listener, () => settled(script))
    const held = (await takeLease(app.db, 31337, 'first'))!
    await sql`update cursors set lease_until = now() - interval '1 second'`.execute(app.db)
    const taken = (await takeLease(app.db, 31337, 'second'))!
    assert.equal(taken.epoch, held.epoch + 1)
    const next = {
      ...told[0]!,
      number: 1,
      hash: addressOf(1).padEnd(66, '0') as `0x${string}`,
      parentHash: told[0]!.hash,
    }
    const work = applyBlocks(app, script.chain, [listener], { held, blocks: [next], finality: null })
    await assert.rejects(work, Fenced)
    assert.equal((await cursor()).block_number, 0)
    assert.equal((await storedHashes()).length, 1)
  })

  test('an epoch that a database gives out again, because it lost the first time, is held by the second owner only', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    await following(script, listener, () => settled(script))
    const held = (await takeLease(app.db, 31337, 'first'))!
    // Simulate a promoted standby that lacks the newest lease.
    await sql`update cursors set epoch = epoch - 1, lease_owner = null, lease_until = null`.execute(app.db)
    const taken = (await takeLease(app.db, 31337, 'second'))!
    assert.equal(taken.epoch, held.epoch)
    const next = { ...told[0]!, number: 1, hash: `0x${'11'.repeat(32)}` as const, parentHash: told[0]!.hash }
    const work = (position: typeof held) =>
      applyBlocks(app, script.chain, [listener], { held: position, blocks: [next], finality: null })
    await assert.rejects(work(held), Fenced)
    assert.equal(await renewLease(app.db, 31337, held), null)
    await releaseLease(app.db, 31337, held)
    await assert.rejects(setHalted(app.db, 31337, held, 'for no reason'), Fenced)
    assert.equal((await work(taken)).number, 1)
  })

  test('on the embedded database a new start does not wait for the lease of a killed process', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    await following(script, listener, () => settled(script))
    await sql`update cursors set epoch = epoch + 1, lease_owner = 'killed', lease_until = now() + interval '1 hour'`.execute(
      app.db,
    )
    script.mine(TRANSACTION)
    await following(script, listener, () => settled(script))
    assert.deepEqual(hashes(told), hashes(script.blocks))
  })

  test('a finalized block that is not in our chain makes nothing final', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told, finalized } = recorder()
    await following(script, listener, () => settled(script))
    const held = (await takeLease(app.db, 31337, 'test'))!
    const next = { ...told[0]!, number: 1, hash: `0x${'11'.repeat(32)}` as const, parentHash: told[0]!.hash }
    const other = { number: 0, hash: `0x${'22'.repeat(32)}` as const }
    const after = await applyBlocks(app, script.chain, [listener], { held, blocks: [next], finality: other })
    assert.equal(after.finalized, -1)
    const last = { ...next, number: 2, hash: `0x${'33'.repeat(32)}` as const, parentHash: next.hash }
    await applyBlocks(app, script.chain, [listener], { held: after, blocks: [last], finality: next })
    assert.equal(finalized(), 1)
  })

  test('two processes follow as one: each block is told once, and the other goes on when one stops', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener, told } = recorder()
    const other = scriptedChain({ isDevelopment: true }).chain
    const chains = [script.chain, { ...other, rpc: script.chain.rpc }]
    const config = { ...app.config, DATABASE_URL: 'postgres://shared' }
    const followers = chains.map((chain) => startFollower({ ...app, config }, chain, [listener]))
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION)
    await settled(script)
    await until('both show the newest block', () => chains.every((chain) => chain.head.current()?.number === 5))
    await followers[0]!.stop()
    script.mine(TRANSACTION)
    await settled(script)
    await followers[1]!.stop()
    assert.deepEqual(hashes(told), hashes(script.blocks))
    assert.equal((await cursor()).lease_until, null)
  })

  test('stopping does not wait for a node that hangs', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      script.faults.hangs = true
      const asked = script.asked.get('eth_getBlockByNumber')!
      await until('a question hangs', () => script.asked.get('eth_getBlockByNumber')! > asked)
    })
    assert.equal((await cursor()).lease_until, null)
  })

  test('a head that is still the newest counts as fresh', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const { listener } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      const asked = script.asked.get('eth_getBlockByNumber')!
      await until('the node was asked again', () => script.asked.get('eth_getBlockByNumber')! > asked + 20)
      assert.ok(script.chain.head.ageMs() < 1_000)
    })
  })

  test('blocks far below finality are forgotten', async () => {
    const script = scriptedChain({ finality: 4 })
    for (let count = 0; count < 10; count++) script.mine()
    const { listener } = recorder()
    await following(script, listener, async () => {
      await settled(script)
      for (let count = 0; count < 300; count++) script.mine()
      await settled(script)
    })
    const oldest = await app.db
      .selectFrom('blocks')
      .select(({ fn }) => fn.min('number').as('number'))
      .executeTakeFirstOrThrow()
    assert.equal(oldest.number, 310 - 4 - 256)
  })
})
