import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql } from 'kysely'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import { testCluster } from '../../test/kit/database.ts'
import { atHead, followerStage, recorder, TRANSACTION } from '../../test/follower-stage.ts'
import { chainLike } from '../../test/opened.ts'
import { scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import type { Trailing } from './block.ts'
import { startFollower } from './follow.ts'

/** Records the canonical blocks that the history received, in order. `fails`: block at which it fails, if set. */
function trailing() {
  const told: { number: number; hash: Hex }[] = []
  const events: string[] = []
  const ever = new Set<Hex>()
  const state = { fails: false as boolean | ((number: number) => boolean), gate: Promise.resolve(), isAtGate: false }
  const listener: Trailing = {
    isTrailing: true,
    onBlocks: async (_db, _app, _chain, blocks) => {
      for (const { number } of blocks)
        if (typeof state.fails === 'boolean' ? state.fails : state.fails(number))
          throw new Error('no room for transfers')
      state.isAtGate = true
      await state.gate
      state.isAtGate = false
      for (const { number, hash } of blocks) {
        told.push({ number, hash })
        ever.add(hash)
        events.push(`block ${number}`)
      }
    },
    onRetract: async (_db, _app, _chain, fromNumber) => {
      events.push(`retract ${fromNumber}`)
      while (told.length > 0 && told.at(-1)!.number >= fromNumber) told.pop()
    },
  }
  return { listener, told, events, ever, state }
}

suite('the history behind the follower', () => {
  const { app, logged, settled, storedHashes } = followerStage(['blocks', 'cursors', 'history_cursors', 'networks'])
  const history = () => app.db.selectFrom('history_cursors').selectAll().executeTakeFirstOrThrow()
  const caughtUp = (script: ScriptedChain) => atHead(app.db, 'history_cursors', () => script.blocks.at(-1)!.hash)
  const hashes = (blocks: { hash: Hex }[]) => blocks.map(({ hash }) => hash)
  const chainOf = (count: number, finality = 4) => {
    const script = scriptedChain({ isDevelopment: true, finality })
    for (let number = 1; number <= count; number++) script.mine(TRANSACTION)
    return script
  }
  async function follow(
    script: ScriptedChain,
    listeners: Parameters<typeof startFollower>[2],
    work: () => Promise<unknown>,
    // Release held answers even if the test fails, so that the follower can stop.
    letGo: () => void = () => {},
    chain = script.chain,
  ) {
    const follower = startFollower(app, chain, listeners)
    await work().finally(() => {
      letGo()
      return follower.stop()
    })
  }

  /** Simulates a process that followed more blocks than its history has stored, and then ended. */
  async function leaveBehind(script: ScriptedChain, one: ReturnType<typeof trailing>, blocks: number): Promise<void> {
    await follow(script, [one.listener], async () => {
      await caughtUp(script)
      one.state.fails = true
      for (let count = 0; count < blocks; count++) script.mine(TRANSACTION)
      await settled(script)
    })
    one.state.fails = false
  }

  test('is told every block once and in order, and reads none of them again', async () => {
    // Use no more blocks than fit in memory: otherwise some are fetched again if the history starts late.
    const script = chainOf(25)
    const [{ listener, told }, one] = [recorder(), trailing()]
    await follow(script, [listener, one.listener], async () => {
      await caughtUp(script)
      for (let count = 0; count < 5; count++) {
        script.mine(TRANSACTION)
        await caughtUp(script)
      }
    })
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
    assert.deepEqual(hashes(told), hashes(script.blocks))
    // 30 blocks with transactions, and block 0 without any.
    assert.equal(script.asked.get('eth_getBlockReceipts'), 31)
  })

  test('holds up nobody while it fails, says how far it is, and goes on where it was', async () => {
    const script = chainOf(3)
    const [{ listener, told }, one] = [recorder(), trailing()]
    await follow(script, [listener, one.listener], async () => {
      await caughtUp(script)
      one.state.fails = true
      for (let count = 0; count < 100; count++) script.mine(TRANSACTION)
      await settled(script)
      assert.deepEqual(hashes(told), hashes(script.blocks))
      assert.equal((await history()).block_number, 3)
      const lag = async (cursor: string) =>
        (await app.telemetry.cursorLag.get()).values.find(({ labels }) => labels.cursor === cursor)?.value
      assert.deepEqual([await lag('transactions')], [0])
      one.state.fails = false
      await caughtUp(script)
      assert.deepEqual([await lag('transactions'), await lag('history')], [0, 0])
    })
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
  })

  test(
    'is in the middle of a block while the next ones are followed',
    { skip: testCluster === null && 'the embedded database has one connection' },
    async () => {
      const script = chainOf(3)
      const [{ listener, told }, one] = [recorder(), trailing()]
      const { promise, resolve } = Promise.withResolvers<void>()
      await follow(
        script,
        [listener, one.listener],
        async () => {
          await caughtUp(script)
          one.state.gate = promise
          for (let count = 0; count < 3; count++) {
            script.mine(TRANSACTION)
            await settled(script)
          }
          assert.deepEqual([told.length, one.told.length], [7, 4])
          resolve()
          await caughtUp(script)
        },
        resolve,
      )
      assert.deepEqual(hashes(one.told), hashes(script.blocks))
    },
  )

  test(
    'in the middle of a block that is reorganised has stored it before, and it is taken back with it',
    { skip: testCluster === null && 'the embedded database has one connection' },
    async () => {
      const script = chainOf(3)
      const one = trailing()
      const { promise, resolve } = Promise.withResolvers<void>()
      await follow(
        script,
        [recorder().listener, one.listener],
        async () => {
          await caughtUp(script)
          one.state.gate = promise
          script.mine(TRANSACTION)
          await settled(script)
          await until('the history is in the block', () => one.state.isAtGate)
          script.lose(1)
          for (let count = 0; count < 2; count++) script.mine(TRANSACTION)
          // The reorganisation waits for the row of the history's cursor.
          await until('it waits', async () => {
            const { rows } = await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(app.db) // prettier-ignore
            return rows.length > 0
          })
          resolve()
          await caughtUp(script)
        },
        resolve,
      )
      assert.deepEqual(hashes(one.told), hashes(script.blocks))
      assert.ok(one.events.includes('retract 4'))
    },
  )

  test('is taken back as far as it was, by a reorganisation above it as by one below it', async () => {
    const script = chainOf(10, 100)
    const one = trailing()
    await follow(script, [recorder().listener, one.listener], async () => {
      await caughtUp(script)
      one.state.fails = true
      for (let count = 0; count < 10; count++) script.mine(TRANSACTION)
      await settled(script)
      // Lose blocks above the history's cursor, which it has not indexed.
      script.lose(5)
      for (let count = 0; count < 6; count++) script.mine(TRANSACTION)
      await settled(script)
      assert.equal((await history()).block_number, 10)
      assert.equal(one.told.length, 11)
      // Lose blocks below it: stored rows are retracted in the same transaction as the blocks.
      script.lose(13)
      for (let count = 0; count < 14; count++) script.mine(TRANSACTION)
      await settled(script)
      const { block_number, block_hash } = await history()
      assert.deepEqual([block_number, toHex(block_hash)], [8, script.blocks[8]!.hash])
      assert.equal(one.told.length, 9)
      one.state.fails = false
      await caughtUp(script)
    })
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
  })

  test('reads from the node again what a process left behind, by the hashes that are stored', async () => {
    const script = chainOf(3)
    const one = trailing()
    await leaveBehind(script, one, 20)
    const asked = new Set<unknown>()
    script.onAsk = (method, [hash]) => void (method === 'eth_getBlockByHash' && asked.add(hash))
    await follow(script, [one.listener], () => caughtUp(script))
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
    assert.deepEqual([...asked], hashes(script.blocks.slice(4)))
  })

  test('stores what a node gives of a stretch that it does not give as a whole', async () => {
    const script = chainOf(3)
    const one = trailing()
    await leaveBehind(script, one, 20)
    const late = script.blocks[6]!.hash
    script.onAsk = (_method, [hash]) => {
      if (hash === late && one.told.length < 6) throw new RpcUnavailable('not yet', { timedOut: false })
    }
    await follow(script, [one.listener], () => caughtUp(script))
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
  })

  test('stores no block of a branch that was reorganised while it was read again', async () => {
    const script = chainOf(3, 100)
    const one = trailing()
    await leaveBehind(script, one, 3)
    const old = script.blocks[4]!.hash
    const [asked, reorganised] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    script.onAsk = (method, [hash]) => {
      if (method !== 'eth_getBlockByHash' || hash !== old) return
      asked.resolve()
      return reorganised.promise
    }
    await follow(
      script,
      [one.listener],
      async () => {
        await asked.promise
        script.lose(3)
        for (let count = 0; count < 4; count++) script.mine(TRANSACTION)
        await settled(script)
        // A node returns lost blocks by hash for a while.
        reorganised.resolve()
        await caughtUp(script)
      },
      reorganised.resolve,
    )
    assert.deepEqual(hashes(one.told), hashes(script.blocks))
    assert.ok(!one.ever.has(old))
  })

  test('finds final blocks that are not kept any more by their numbers, and takes none that does not follow', async () => {
    const script = scriptedChain({ finality: 4 })
    const chain = chainLike(script.chain, { finality: 4 })
    for (let number = 1; number <= 5; number++) script.mine(TRANSACTION)
    const one = trailing()
    await follow(script, [one.listener], () => caughtUp(script), undefined, chain)
    const first = one.told[0]!.number
    one.state.fails = true
    for (let count = 0; count < 320; count++) script.mine(TRANSACTION)
    await follow(script, [one.listener], () => settled(script), undefined, chain)
    one.state.fails = false
    const kept = await storedHashes()
    assert.ok(!kept.includes(script.blocks[6]!.hash), 'block 6 is not kept')
    // A node with another chain below finality.
    const ours = script.blocks
    const other = scriptedChain({ finality: 4 })
    for (let number = 1; number <= 400; number++) other.mine()
    script.blocks = [...other.blocks.slice(0, 20), ...ours.slice(20)]
    await follow(
      script,
      [one.listener],
      () => until('it is told', () => logged.includes('history_retrying')),
      undefined,
      chain,
    )
    assert.equal((await history()).block_number, 5)
    script.blocks = ours
    await follow(script, [one.listener], () => caughtUp(script), undefined, chain)
    assert.deepEqual(hashes(one.told), hashes(script.blocks.slice(first)))
  })

  test('goes on with the process that follows next, and the one before stores nothing more', async () => {
    const script = chainOf(5)
    const [one, two] = [trailing(), trailing()]
    const first = startFollower(app, chainLike(script.chain), [one.listener])
    await caughtUp(script)
    const before = await history()
    await sql`update cursors set lease_until = now() - interval '1 second'`.execute(app.db)
    await sql`update cursors set lease_owner = 'gone', epoch = epoch + 1`.execute(app.db)
    const second = startFollower(app, chainLike(script.chain), [two.listener])
    await until('another one has the history', async () => (await history()).epoch > before.epoch)
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION)
    await caughtUp(script)
    await Promise.all([first.stop(), second.stop()])
    assert.deepEqual(hashes([...one.told, ...two.told]), hashes(script.blocks))
  })
})
