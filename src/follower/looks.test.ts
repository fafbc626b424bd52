import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Chain } from '../chain/network.ts'
import { followerStage, recorder, TRANSACTION, headOf } from '../../test/follower-stage.ts'
import { scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { startFollower } from './follow.ts'

// When and how often the node is queried.

/** milliseconds between two turns: on a slow machine more, which is why turns are counted instead of time */
const TURN_MS = 5
const turn = () => new Promise((resolve) => setTimeout(resolve, TURN_MS))

/** Counts the turns of the event loop within these milliseconds. */
async function turnsIn(ms: number): Promise<number> {
  const from = performance.now()
  let turns = 0
  for (; performance.now() - from < ms; turns++) await turn()
  return turns
}

/** The work takes no more turns than fit into so many milliseconds. */
async function within(ms: number, work: () => Promise<unknown>): Promise<void> {
  let isOver = false
  let turns = 0
  const counting = (async () => {
    for (; !isOver; turns++) await turn()
  })()
  await work().finally(() => (isOver = true))
  await counting
  assert.ok(turns < ms / TURN_MS, `it took ${turns} turns`)
}

/** The age of the head at each look from now on. */
function agesOfLooks(script: ScriptedChain): number[] {
  const ages: number[] = []
  script.onAsk = (method) => {
    if (method === 'eth_getBlockByNumber') ages.push(script.chain.head.sinceChangeMs())
  }
  return ages
}

suite('the looks of a follower', () => {
  const { app, settled, following } = followerStage()

  test('the newest block is asked for once: by its number, then its receipts', async () => {
    const script = scriptedChain()
    for (let count = 0; count < 5; count++) script.mine(TRANSACTION)
    await following(script, recorder().listener, async () => {
      await settled(script)
      const before = script.asked.get('eth_getBlockByHash') ?? 0
      const receipts = script.asked.get('eth_getBlockReceipts') ?? 0
      script.mine(TRANSACTION)
      await settled(script)
      script.mine()
      await settled(script)
      assert.equal(script.asked.get('eth_getBlockByHash') ?? 0, before)
      assert.equal(script.asked.get('eth_getBlockReceipts'), receipts + 1)
      await until('it leads', () => script.chain.head.isFollowed())
    })
    assert.equal(script.chain.head.isFollowed(), false, 'another may lead from the moment that it stops')
  })

  test('where blocks come regularly the node is hardly looked at in between, and again when the next is to be expected', async () => {
    const script = scriptedChain({ everySeconds: 2, finality: 12 })
    for (let count = 0; count < 30; count++) script.mine()
    await following(script, recorder().listener, async () => {
      await settled(script)
      script.mine()
      await settled(script)
      await until('the head was shown', () => script.chain.head.current()!.hash === script.blocks.at(-1)!.hash)
      const ages = agesOfLooks(script)
      const between = () => ages.filter((ms) => ms <= 1_700).length
      await until('most of the time to the next block is over', () => script.chain.head.sinceChangeMs() > 1_700)
      await until('the next block is looked for', () => ages.length - between() > 8)
      assert.ok(between() <= 2, `${between()} looks`)
    })
  })

  test('a block that is long overdue is looked for once a second, however often the settings say', async () => {
    const script = scriptedChain({ everySeconds: 1, finality: 12 })
    for (let count = 0; count < 30; count++) script.mine()
    await following(script, recorder().listener, async () => {
      await settled(script)
      const ages = agesOfLooks(script)
      const late = () => ages.filter((ms) => ms > 2_100)
      await until('it was looked for three times', () => late().length >= 3)
      const pauses = late().flatMap((ms, index, all) => (index === 0 ? [] : [ms - all[index - 1]!]))
      assert.ok(pauses.every((ms) => ms > 700), `${pauses.join(', ')} ms between two looks`) // prettier-ignore
    })
  })

  test('a block that a read has seen is followed at once, however long the next look was to wait', async () => {
    const script = scriptedChain({ everySeconds: 15, finality: 12 })
    for (let count = 0; count < 30; count++) script.mine()
    await following(script, recorder().listener, async () => {
      await settled(script)
      script.chain.head.set(headOf(script.mine()))
      await within(5_000, () => settled(script))
    })
  })

  suite('where blocks come every twelve seconds', () => {
    /** Uses the production interval: a follower that waits for the next planned query then waits 6 s. */
    const usual = () => ({ ...app, config: { ...app.config, FOLLOW_INTERVAL_MS: 250, DATABASE_URL: 'postgres://db' } })
    const soon = (script: ScriptedChain) => within(4_000, () => settled(script))
    const steady = (blocks = 30, finality: Chain['finality'] = 12) => {
      const script = scriptedChain({ everySeconds: 12, finality })
      for (let count = 0; count < blocks; count++) script.mine()
      return script
    }
    const shown = (script: ScriptedChain) => script.chain.head.set(headOf(script.mine()))

    test('a process that takes over follows at once, and sleeps between its looks', async () => {
      const [script, other] = [steady(), steady()]
      other.chain.rpc = script.chain.rpc
      const first = startFollower(usual(), script.chain, [])
      await settled(script)
      const second = startFollower(usual(), other.chain, [])
      try {
        for (let count = 0; count < 10; count++) {
          shown(script)
          await settled(script)
          await until('the other one has heard', () => other.chain.head.current()?.number === script.blocks.length - 1)
        }
        await first.stop()
        await until('the other one leads', () => other.chain.head.isFollowed())
        const looks = script.asked.get('eth_getBlockByNumber')!
        const turns = await turnsIn(500)
        assert.ok(turns > 2, `the process had ${turns} turns in half a second`)
        assert.ok(script.asked.get('eth_getBlockByNumber')! - looks < 5)
        other.chain.head.set(headOf(script.mine()))
        await soon(script)
      } finally {
        await second.stop()
      }
    })

    test('a hint that names nothing new costs one look', async () => {
      const script = steady()
      const listeners = new Set<() => void>()
      script.chain.newHeads = {
        isLive: () => true,
        hasAbove: () => false,
        onHint: (listener) => {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
        close: () => {},
      }
      const follower = startFollower(usual(), script.chain, [])
      await settled(script)
      await until('it waits', () => listeners.size > 0)
      await turnsIn(300)
      const looks = script.asked.get('eth_getBlockByNumber')!
      for (const listener of listeners) listener()
      const turns = await turnsIn(500)
      assert.ok(turns > 2, `the process had ${turns} turns in half a second`)
      assert.equal(script.asked.get('eth_getBlockByNumber')! - looks, 1)
      await follower.stop()
    })

    test('after a rollback the new chain is followed at once', async () => {
      const script = steady()
      const follower = startFollower(usual(), script.chain, [])
      await settled(script)
      shown(script)
      await settled(script)
      script.lose(1)
      script.mine()
      shown(script)
      await soon(script)
      await follower.stop()
    })

    test('many blocks are caught up with without a pause, and a try that failed is made again soon', async () => {
      const script = steady(100, 4_000)
      await startFollower(usual(), script.chain, []).stop()
      const before = startFollower(usual(), script.chain, [])
      await settled(script)
      await before.stop()
      for (let count = 0; count < 1_600; count++) script.mine()
      const { chain } = steady(1)
      chain.rpc = script.chain.rpc
      const follower = startFollower(usual(), chain, [])
      await soon(script)
      script.faults.nullReceipts = 1
      const block = script.mine(TRANSACTION)
      chain.head.set(headOf(block))
      await soon(script)
      await follower.stop()
    })
  })
})
