import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { followerStage } from '../../test/follower-stage.ts'
import { scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import type { BlockListener } from './block.ts'

// Behaviour exactly at the final block, and one block beside it.

suite('at the edge of what is final', () => {
  const { cursor, settled, following: follows } = followerStage()
  const following = (script: ScriptedChain, work: (events: string[]) => Promise<void>) => {
    const events: string[] = []
    const listener: BlockListener = {
      onBlock: async () => {},
      onRetract: async (_db, _app, _chain, number) => void events.push(`retract ${number}`),
      onFinalize: async (_db, _app, _chain, number) => void events.push(`finalize ${number}`),
    }
    return follows(script, listener, () => work(events))
  }
  const mine = (script: ScriptedChain, count: number) => {
    for (let block = 0; block < count; block++) script.mine()
  }

  for (const finality of [6, 'finalized'] as const) {
    // The scripted node's final block lies 12 below its newest block.
    const depth = finality === 'finalized' ? 12 : finality

    test(`a branch that leaves ours right above the final block is followed (${finality})`, async () => {
      const script = scriptedChain({ finality })
      // The follower starts at the final block, so blocks below the edge are stored as well.
      mine(script, 20)
      await following(script, async (events) => {
        await settled(script)
        mine(script, 10)
        await settled(script)
        assert.equal((await cursor()).finalized_number, 30 - depth)
        // Lose all blocks that are not final, and no more.
        script.lose(depth)
        mine(script, depth)
        await settled(script)
        assert.deepEqual(
          events.filter((event) => event.startsWith('retract')),
          [`retract ${31 - depth}`],
        )
        assert.equal((await cursor()).halted, null)
        assert.equal((await cursor()).finalized_number, 30 - depth)
      })
    })

    test(`a branch that leaves ours right below the final block is not (${finality})`, async () => {
      const script = scriptedChain({ finality })
      // The follower starts at the final block, so blocks below the edge are stored as well.
      mine(script, 20)
      await following(script, async (events) => {
        await settled(script)
        mine(script, 10)
        await settled(script)
        script.lose(depth + 1)
        mine(script, depth + 1)
        await until('the follower halted', async () => (await cursor()).halted !== null)
        assert.deepEqual(
          events.filter((event) => event.startsWith('retract')),
          [],
        )
        assert.deepEqual([(await cursor()).block_number, (await cursor()).finalized_number], [30, 30 - depth])
      })
    })

    test(`the next block makes one block final, and the last stored one at most (${finality})`, async () => {
      const script = scriptedChain({ finality })
      // The follower starts at the final block, so blocks below the edge are stored as well.
      mine(script, 20)
      await following(script, async (events) => {
        await settled(script)
        mine(script, 10)
        await settled(script)
        mine(script, 1)
        await settled(script)
        assert.equal(events.at(-1), `finalize ${31 - depth}`)
        assert.equal((await cursor()).finalized_number, 31 - depth)
      })
    })
  }

  test('where every block is final at once the newest is final, and no branch replaces it', async () => {
    const script = scriptedChain({ finality: 0 })
    mine(script, 3)
    await following(script, async (events) => {
      await settled(script)
      assert.equal((await cursor()).finalized_number, 3)
      script.lose(1)
      mine(script, 2)
      await until('the follower halted', async () => (await cursor()).halted !== null)
      assert.equal(
        events.some((event) => event.startsWith('retract')),
        false,
      )
    })
  })
})
