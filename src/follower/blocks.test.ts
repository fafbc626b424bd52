import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { findAncestor } from './ancestor.ts'
import { applyBlocks, retractBlocks, type Finality } from './apply.ts'
import type { BlockListener, FollowedBlock } from './block.ts'
import { Fenced, openCursor, readFollowerCursor, takeLease, type Position } from './cursor.ts'
import { systemClock } from '../clock.ts'

const OTHER = 5
const NOWHERE: Hex = `0x${'ab'.repeat(32)}`

suite('stored blocks, beside those of another network', () => {
  let database: TestDatabase
  let app: App
  before(async () => {
    database = await testDatabase()
    app = { clock: systemClock, db: database.db } as App
  })
  beforeEach(async () => {
    for (const table of ['blocks', 'cursors', 'history_cursors'] as const) await app.db.deleteFrom(table).execute()
  })
  after(() => database.close())

  const events: string[] = []
  const each: BlockListener = {
    onBlock: async (_db, _app, _chain, { number }) => void events.push(`block ${number}`),
    onRetract: async (_db, _app, _chain, number) => void events.push(`retract ${number}`),
    onFinalize: async (_db, _app, _chain, number) => void events.push(`finalize ${number}`),
  }
  const many: BlockListener = {
    onBlocks: async (_db, _app, _chain, blocks) =>
      void events.push(`blocks ${blocks.map(({ number }) => number).join()}`),
    onRetract: async () => {},
    onFinalize: async () => {},
  }
  const followed = (script: ScriptedChain, from: number, to: number): FollowedBlock[] =>
    script.blocks.slice(from, to + 1).map(({ number, hash, parentHash, timestamp }) => ({
      ...{ number, hash, parentHash, timestamp, baseFee: BigInt(number), receipts: [] },
      prove: () => Promise.reject(new Error('nobody asks')),
    }))
  /**
   * Creates a followed chain with this number of blocks and the cursor at the last one. The other network has the same
   * block numbers.
   */
  async function at(blocks: number, { finalized = 0, isDevelopment = false } = {}) {
    const script = scriptedChain({ isDevelopment })
    for (let count = 0; count < blocks; count++) script.mine()
    await openCursor(app.db, 31337, { number: -1, hash: script.blocks[0]!.parentHash })
    const first = (await takeLease(app.db, 31337, 'us'))!
    const held = await applyBlocks(app, script.chain, [], {
      held: first,
      blocks: followed(script, 0, blocks),
      finality: { number: finalized, hash: null },
    })
    await app.db
      .insertInto('blocks')
      .values(
        followed(script, 0, blocks).map(({ number }) => ({
          ...{ chain_id: OTHER, number, hash: fromHex(NOWHERE), parent_hash: fromHex(NOWHERE) },
          ...{ mined_at: new Date(0), base_fee: null },
        })),
      )
      .execute()
    events.length = 0
    return { script, held }
  }
  const add = (
    script: ScriptedChain,
    held: Position,
    count: number,
    finality: Finality | null,
    listeners: BlockListener[] = [each],
  ) => {
    for (let mined = 0; mined < count; mined++) script.mine()
    const blocks = followed(script, held.number + 1, held.number + count)
    return applyBlocks(app, script.chain, listeners, { held, blocks, finality })
  }
  const numbers = async (chainId = 31337) =>
    (
      await app.db.selectFrom('blocks').select('number').where('chain_id', '=', chainId).orderBy('number').execute()
    ).map(({ number }) => number)
  const cursor = async () => {
    const row = await app.db.selectFrom('cursors').selectAll().executeTakeFirstOrThrow()
    return { number: row.block_number, hash: toHex(row.block_hash), finalized: row.finalized_number }
  }
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

  test('are told in order, to those who take them one by one and to those who take them together, and kept as they are', async () => {
    const { script, held } = await at(2)
    const next = await add(script, held, 3, { number: 1, hash: null }, [each, many])
    assert.deepEqual(events, ['block 3', 'block 4', 'block 5', 'blocks 3,4,5', 'finalize 1'])
    const { number, hash, parentHash, timestamp } = script.blocks[5]!
    assert.deepEqual(await cursor(), { number, hash, finalized: 1 })
    assert.deepEqual(next, { ...held, number, hash, finalized: 1 })
    const row = await app.db.selectFrom('blocks').selectAll().where('chain_id', '=', 31337).where('number', '=', 5).executeTakeFirstOrThrow() // prettier-ignore
    assert.deepEqual(
      [toHex(row.hash), toHex(row.parent_hash), row.mined_at.getTime() / 1_000, BigInt(toHex(row.base_fee!))],
      [hash, parentHash, timestamp, 5n],
    )
  })

  test('of a network without a base fee are kept without one', async () => {
    const { script, held } = await at(1)
    script.mine()
    const blocks = followed(script, 2, 2).map((block) => ({ ...block, baseFee: null }))
    await applyBlocks(app, script.chain, [], { held, blocks, finality: null })
    assert.equal((await readFollowerCursor(app.db, 31337))!.block!.baseFee, null)
  })

  test('become final along our chain only, never past what is stored, and never less', async () => {
    const of = (script: ScriptedChain, number: number) => script.blocks[number]!.hash
    const cases: [what: string, finality: (script: ScriptedChain) => Finality | null, expected: number][] = [
      ['unknown', () => null, 2],
      ['below', () => ({ number: 1, hash: null }), 2],
      ['the same', () => ({ number: 2, hash: null }), 2],
      ['one more, by its number', () => ({ number: 3, hash: null }), 3],
      ['above all, by its number', () => ({ number: 99, hash: null }), 7],
      ['above all, by a hash that nobody can know yet', () => ({ number: 99, hash: NOWHERE }), 7],
      ['the last one', (script) => ({ number: 7, hash: of(script, 7) }), 7],
      ['one of the new ones', (script) => ({ number: 6, hash: of(script, 6) }), 6],
      ['another chain’s instead of a new one', () => ({ number: 6, hash: NOWHERE }), 2],
      ['one stored before', (script) => ({ number: 3, hash: of(script, 3) }), 3],
      ['another chain’s, of which another network has the hash', () => ({ number: 3, hash: NOWHERE }), 2],
    ]
    for (const [what, finality, expected] of cases) {
      for (const table of ['blocks', 'cursors', 'history_cursors'] as const) await app.db.deleteFrom(table).execute()
      const { script, held } = await at(4, { finalized: 2 })
      for (let count = 0; count < 3; count++) script.mine()
      const blocks = followed(script, 5, 7)
      const next = await applyBlocks(app, script.chain, [each], { held, blocks, finality: finality(script) })
      assert.equal(next.finalized, expected, what)
      assert.equal((await cursor()).finalized, expected, what)
      assert.deepEqual(events.slice(3), expected === 2 ? [] : [`finalize ${expected}`], what)
    }
  })

  test('are kept for 256 blocks below finality, those of the other network for ever', async () => {
    const { script, held } = await at(300, { finalized: 256 })
    assert.deepEqual(await numbers(), range(0, 300))
    const next = await add(script, held, 1, { number: 257, hash: null })
    assert.deepEqual(await numbers(), range(1, 301))
    await add(script, next, 1, { number: 290, hash: null })
    assert.deepEqual(await numbers(), range(34, 302))
    assert.deepEqual(await numbers(OTHER), range(0, 300))
  })

  test('of a development chain are kept however final they are: it may lose them', async () => {
    const { script, held } = await at(300, { isDevelopment: true })
    await add(script, held, 1, { number: 300, hash: null })
    assert.deepEqual(await numbers(), range(0, 301))
  })

  test('are taken back above the ancestor, with what was made of them and what was final', async () => {
    const { script, held } = await at(9, { finalized: 4 })
    const to = (number: number) => ({ number, hash: script.blocks[number]!.hash })
    const next = await retractBlocks(app, script.chain, [each], { held, ancestor: to(6) })
    assert.deepEqual(
      [events, await numbers(), await cursor()],
      [['retract 7'], range(0, 6), { ...to(6), finalized: 4 }],
    )
    assert.deepEqual(next, { ...held, ...to(6), finalized: 4 })
    assert.deepEqual(await numbers(OTHER), range(0, 9))
    await retractBlocks(app, script.chain, [each], { held: next, ancestor: to(3) })
    assert.deepEqual([await numbers(), await cursor()], [range(0, 3), { ...to(3), finalized: 3 }])
    await assert.rejects(retractBlocks(app, script.chain, [each], { held: next, ancestor: to(1) }), Fenced)
    assert.deepEqual(await numbers(), range(0, 3))
  })

  test('have with the node’s chain the newest in common that both hold, at or below where it is looked for', async () => {
    const { script } = await at(60)
    const find = async (from: number) => (await findAncestor(app, script.chain, from))?.number ?? null
    const asks = async (from: number) => {
      script.asked.clear()
      return [await find(from), script.asked.get('eth_getBlockByNumber')]
    }
    assert.deepEqual(await asks(60), [60, 4])
    assert.deepEqual(await asks(58), [58, 4])
    script.lose(4)
    for (let count = 0; count < 4; count++) script.mine()
    assert.deepEqual(await asks(60), [56, 4 + 50])
    assert.deepEqual(await asks(59), [56, 4])
    script.lose(56)
    for (let count = 0; count < 60; count++) script.mine()
    assert.deepEqual(await asks(60), [4, 4 + 50 + 7])
    script.lose(65)
    for (let count = 0; count < 61; count++) script.mine()
    assert.deepEqual(await asks(60), [null, 61])
  })

  test('have the block before the first that is kept in common where its hash is the node’s, and no other block of its number', async () => {
    const { script } = await at(9)
    await app.db.deleteFrom('blocks').where('chain_id', '=', 31337).where('number', '<', 6).execute()
    const shared = script.blocks[5]!.hash
    script.lose(4)
    for (let count = 0; count < 4; count++) script.mine()
    assert.equal((await findAncestor(app, script.chain, 9))?.hash, shared)
    script.lose(5)
    for (let count = 0; count < 5; count++) script.mine()
    assert.notEqual(script.blocks[5]!.hash, shared)
    assert.equal(await findAncestor(app, script.chain, 9), null)
  })

  test('prove nothing about a node that lacks blocks below its newest', async () => {
    const { script } = await at(9)
    script.faults.lag = 2
    await assert.rejects(findAncestor(app, script.chain, 9), /lacks a block/)
    assert.equal((await findAncestor(app, script.chain, 7))!.number, 7)
  })
})
