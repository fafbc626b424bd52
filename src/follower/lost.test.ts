import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Chain } from '../chain/network.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { indexedTo } from './history-cursor.ts'
import { startFollower } from './follow.ts'

const { app, cursor, settled, following } = followerStage()

/** Follows a chain of 20 blocks, loses some of them, and does `work` during that. */
async function losing(
  { depth, settings, finality }: { depth: number; settings: Partial<Chain>; finality: number | 'finalized' },
  work: (script: ScriptedChain) => Promise<void>,
): Promise<void> {
  const script = scriptedChain({ finality })
  Object.assign(script.chain, settings)
  for (let count = 0; count < 20; count++) script.mine()
  await following(script, null, async () => {
    await settled(script)
    const lost = new Set(script.lose(depth).map(({ hash }) => hash))
    // A node that has lost blocks does not return them by hash either.
    const rpc = script.chain.rpc
    script.chain.rpc = {
      ...rpc,
      call: (async (method: string, params: unknown[]) =>
        method === 'eth_getBlockByHash' && lost.has(params[0] as never)
          ? null
          : rpc.call(method, params)) as typeof rpc.call,
    }
    await work(script)
  })
}

test('a node that has lost blocks above finality is followed back, without waiting for its head to pass ours', () =>
  losing({ depth: 3, settings: { lostAfterMs: 20 }, finality: 12 }, async (script) => {
    await settled(script)
    assert.equal(script.chain.head.current()?.number, 17)
    assert.equal((await indexedTo(app.db, 31337)).halted, null)
  }))

test('one that has lost blocks below finality stops the follower, which says so', () =>
  losing({ depth: 10, settings: { lostAfterMs: 20 }, finality: 4 }, async () => {
    await until('the follower halted', async () => (await indexedTo(app.db, 31337)).halted !== null)
    assert.match((await indexedTo(app.db, 31337)).halted!, /below the finalized block 16/)
  }))

test('in development even that heals', () =>
  losing({ depth: 5, settings: { isDevelopment: true }, finality: 4 }, async (script) => {
    await settled(script)
    const { block_number, finalized_number, halted } = await cursor()
    assert.deepEqual([block_number, finalized_number, halted], [15, 15, null])
    script.mine()
    await settled(script)
  }))

test('in development the chain may lose more than was followed: it is followed from its beginning', () =>
  losing({ depth: 19, settings: { isDevelopment: true }, finality: 4 }, async (script) => {
    await settled(script)
    assert.equal((await indexedTo(app.db, 31337)).followedTo, 1)
  }))

test('whoever must know is told when a node that was away answers again, not of a failure that passes at once', async () => {
  const script = scriptedChain({ finality: 4 })
  script.mine()
  let returns = 0
  const follower = startFollower(app, script.chain, [], { onNodeBack: () => returns++ })
  try {
    await settled(script)
    const { rpc } = script.chain
    const away = () => Promise.reject(new RpcUnavailable('away', { timedOut: false }))
    const failing = async (times: number) => {
      let asked = 0
      const refuse = () => (asked++, away())
      script.chain.rpc = { ...rpc, call: refuse, batch: refuse }
      await until('the node was asked', () => asked >= times)
      script.chain.rpc = rpc
      script.mine()
      await settled(script)
    }
    await failing(1)
    assert.equal(returns, 0)
    await failing(6)
    await until('it is told', () => returns === 1)
  } finally {
    await follower.stop()
  }
})
