import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { App } from '../app.ts'
import type { NewHeads } from '../chain/rpc/new-heads.ts'
import { readConfig } from '../config.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { startFollower } from './follow.ts'
import { chainLike } from '../../test/opened.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

let database: TestDatabase
before(async () => {
  database = await testDatabase()
})
after(() => database.close())

/** A subscription that announces the blocks chosen by the test. */
function announcer() {
  const listeners = new Set<() => void>()
  const state = { isLive: true, announced: -1 }
  const newHeads: NewHeads = {
    isLive: () => state.isLive,
    hasAbove: (number) => state.announced > number,
    onHint: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: () => {},
  }
  const hint = () => listeners.forEach((listener) => listener())
  return { newHeads, state, hint }
}

test('while a subscription stands the node is asked once a second, and at once when a block is announced', async (t) => {
  const clock = stoppedClock()
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 10 }
  const app = { config, db: database.db, telemetry: openTelemetry('test', 'silent'), clock } as unknown as App
  const script = scriptedChain({ isDevelopment: true })
  for (let count = 0; count < 10; count++) script.mine()
  const { newHeads, state, hint } = announcer()
  const chain = chainLike(script.chain, { newHeads })
  const follower = startFollower(app, chain, [])
  t.after(() => follower.stop())
  const isFollowed = () => chain.head.current()?.hash === script.blocks.at(-1)!.hash
  const looks = () => script.asked.get('eth_getBlockByNumber') ?? 0
  /** Lets ten milliseconds pass once the follower only waits. */
  const passes = async () => {
    await until('it waits', () => clock.sleepers() > 0)
    await clock.advance(10)
  }
  const looksWithin = async (ms: number) => {
    const start = looks()
    for (let passed = 0; passed < ms; passed += 10) await passes()
    return looks() - start
  }
  await until('it has caught up', async () => {
    await passes()
    return isFollowed()
  })
  await looksWithin(100)
  assert.ok((await looksWithin(500)) <= 4, 'with a subscription hardly any')

  script.mine()
  assert.ok(!isFollowed())
  state.announced = script.blocks.length - 1
  hint()
  const at = clock.ticks()
  while (!isFollowed()) await passes()
  assert.ok(clock.ticks() - at < 900, 'it waited for its turn')

  state.announced = script.blocks.length
  hint()
  assert.ok((await looksWithin(500)) >= 5, 'a block that the nodes do not have yet is asked for again')

  state.announced = -1
  state.isLive = false
  hint()
  assert.ok((await looksWithin(500)) >= 5, 'without a subscription it polls')
  script.mine()
  await until('a block that nobody announced is followed', async () => {
    await passes()
    return isFollowed()
  })
})
