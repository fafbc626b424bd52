import assert from 'node:assert/strict'
import { afterEach, beforeEach, suite, test } from 'node:test'
import { ALICE, backfillStage, BOB } from '../../test/backfill-stage.ts'
import type { ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { fillNext } from './automatic-backfill.ts'

suite('a backfill waits', () => {
  const { app, add, from, followedChain, blocksOf, all, work } = backfillStage()
  /** Returns the same network, whose node reports this newest block. */
  const atBlock = ({ chain }: ScriptedChain, newest: () => number) => ({
    ...chain,
    head: { ...chain.head, node: { ...chain.head.node, newest } },
  })
  let stopping = new AbortController()
  beforeEach(() => void (stopping = new AbortController()))
  // Stop what a failed test left running.
  afterEach(() => stopping.abort())
  const asOne = () => ({ owner: 'one', stopping: stopping.signal })

  test('while the history is far behind its node, and says so until it is not', async () => {
    const script = await followedChain()
    await add(ALICE)
    let newest = 53
    const running = fillNext(
      app,
      atBlock(script, () => newest),
      asOne(),
    )
    await until(
      'it is told',
      async () => (await work())?.blocked_by === 'it waits: the history is more than 32 blocks behind its node',
    )
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [null, []])
    const told: unknown[] = []
    script.onAsk = async () => void told.push((await work())!.blocked_by)
    newest = 52
    assert.equal(await running, 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE), new Set(told)], [0, all, new Set([null])])
  })

  test('while requests wait for the database, and says so until they do not', async () => {
    const script = await followedChain()
    await add(ALICE)
    let poolWaitMs = 21
    const running = fillNext({ ...app, poolWaitMs: () => poolWaitMs }, script.chain, asOne())
    await until('it is told', async () => (await work())?.blocked_by === 'it waits: requests wait for the database')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [null, []])
    poolWaitMs = 20
    assert.equal(await running, 'filled')
    assert.deepEqual([await from(ALICE), await blocksOf(ALICE)], [0, all])
  })

  test('no longer than until it is stopped', async () => {
    const script = await followedChain()
    await add(BOB)
    const ever = atBlock(script, () => (stopping.abort(), 1_000))
    assert.equal(await fillNext(app, ever, asOne()), 'stopped')
    assert.deepEqual(await blocksOf(BOB), [])
  })
})
