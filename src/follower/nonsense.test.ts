import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { fromHex } from '../hex.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { readBlock, readLog, readReceipt } from './answers.ts'
import { bytes, quantity } from './fields.ts'
import { findFinality } from './finality.ts'
import { askLatest, type Follower } from './follower.ts'
import type { BlockListener } from './block.ts'
import { startFollower } from './follow.ts'

// A node that responds with impossible answers.

const FAR = `0x${(2 ** 40).toString(16)}`
type Header = Record<string, unknown>

/** Changes the node's answers to `eth_getBlockByNumber`; other answers remain. */
function misanswer(script: ScriptedChain, change: (at: unknown, answer: Header | null) => unknown): void {
  const { rpc } = script.chain
  const changed = (method: string, params: unknown[], answer: unknown) =>
    method === 'eth_getBlockByNumber' ? change(params[0], answer as Header | null) : answer
  script.chain.rpc = {
    ...rpc,
    call: async (method, params) => changed(method, params, await rpc.call(method, params)) as never,
    batch: async (calls) => {
      const answers = await rpc.batch(calls)
      return answers.map((answer, index) => changed(calls[index]!.method, calls[index]!.params, answer))
    },
  }
}

suite('a follower of a node that answers nonsense', () => {
  const { app, cursor, settled, following: follows } = followerStage()

  const events: string[] = []
  const listener: BlockListener = {
    onBlock: async (_db, _app, _chain, { number }) => void events.push(`block ${number}`),
    onRetract: async (_db, _app, _chain, number) => void events.push(`retract ${number}`),
    onFinalize: async (_db, _app, _chain, number) => void events.push(`finalize ${number}`),
  }
  const following = (script: ScriptedChain, work: () => Promise<unknown>) => {
    events.length = 0
    return follows(script, listener, work)
  }

  test('a final block above the newest makes nothing final', async () => {
    const script = scriptedChain({ finality: 'finalized', isDevelopment: true })
    misanswer(script, (at, answer) => (at === 'finalized' ? { ...answer, number: FAR } : answer))
    for (let count = 0; count < 40; count++) script.mine()
    await following(script, () => settled(script))
    assert.equal((await cursor()).finalized_number, -1)
    assert.ok(!events.some((event) => event.startsWith('finalize')))
  })

  test('where finality is instant a final block above the newest of a moment ago counts', async () => {
    const script = scriptedChain({ finality: 'finalized', isDevelopment: true })
    misanswer(script, (at, answer) => {
      if (at !== 'finalized') return answer
      const { header, hash } = script.mine()
      return { ...header, hash }
    })
    for (let count = 0; count < 3; count++) script.mine()
    await following(script, () =>
      until('something is final', async () => {
        const row = await app.db.selectFrom('cursors').select('finalized_number').executeTakeFirst()
        return row !== undefined && row.finalized_number > 0
      }),
    )
  })

  test('a newest block that the node does not have makes nothing final, and is no head', async () => {
    const script = scriptedChain({ finality: 12, isDevelopment: true })
    let isWrong = true
    misanswer(script, (at, answer) =>
      at === 'latest' && isWrong ? { ...answer, number: FAR, hash: `0x${'ab'.repeat(32)}` } : answer,
    )
    const heads: number[] = []
    script.chain.head.onChange(({ number }) => void heads.push(number))
    for (let count = 0; count < 60; count++) script.mine()
    await following(script, async () => {
      await until('it was asked a few times', () => (script.asked.get('eth_getBlockByNumber') ?? 0) > 6)
      isWrong = false
      await settled(script)
    })
    assert.equal((await cursor()).finalized_number, 60 - 12)
    assert.ok(Math.max(...heads) <= 60, `heads ${heads.join()}`)
  })

  test('a process that waits shows no block of a halted cursor, and the one where it goes on', async () => {
    const script = scriptedChain()
    for (let count = 0; count < 8; count++) script.mine()
    const blocks = script.blocks.slice(7).map(({ number, hash, parentHash, timestamp }) => ({
      ...{ chain_id: 31337, number, hash: fromHex(hash), parent_hash: fromHex(parentHash) },
      ...{ mined_at: new Date(timestamp * 1_000), base_fee: null },
    }))
    await app.db.insertInto('blocks').values(blocks).execute()
    await app.db
      .insertInto('cursors')
      .values({
        ...{ chain_id: 31337, block_number: 7, block_hash: blocks[0]!.hash, finalized_number: 0, epoch: 1 },
        ...{ lease_owner: 'another', lease_until: new Date(Date.now() + 600_000), halted: 'It stands.' },
      })
      .execute()
    const heads: number[] = []
    script.chain.head.onChange(({ number }) => void heads.push(number))
    const looks = () => script.asked.get('eth_getBlockByNumber') ?? 0
    events.length = 0
    // Use a database for several processes: the embedded one has no lease to wait for.
    const config = { ...app.config, DATABASE_URL: 'postgres://several' }
    const follower = startFollower({ ...app, config }, script.chain, [listener])
    try {
      // The second query to the node follows many reads of the cursor.
      await until('it looked twice', () => looks() > 1)
      await app.db.updateTable('cursors').set({ block_number: 8, block_hash: blocks[1]!.hash, halted: null }).execute()
      await until('the head is shown', () => heads.length > 0)
    } finally {
      await follower.stop()
    }
    assert.deepEqual([heads, events], [[8], []])
  })

  test('after a reorganisation the head is the block where the chains part, and then the new ones', async () => {
    const script = scriptedChain({ finality: 12 })
    for (let count = 0; count < 9; count++) script.mine()
    const heads: string[] = []
    await following(script, async () => {
      await settled(script)
      script.chain.head.onChange(({ hash }) => void heads.push(hash))
      script.lose(2)
      for (let count = 0; count < 3; count++) script.mine()
      await settled(script)
    })
    assert.deepEqual([heads[0], heads.at(-1)], [script.blocks.at(-4)!.hash, script.blocks.at(-1)!.hash])
  })

  test('a node that denies blocks below its newest moves nothing back and stops nobody', async () => {
    for (const isDevelopment of [true, false]) {
      for (const table of ['blocks', 'cursors', 'history_cursors', 'networks'] as const)
        await app.db.deleteFrom(table).execute()
      const script = scriptedChain({ isDevelopment, finality: 2 })
      for (let count = 0; count < 9; count++) script.mine()
      let denials = 0
      let isDenying = false
      misanswer(script, (at, answer) => {
        if (!isDenying || at === 'latest' || Number(at) === 0 || Number(at) > 9) return answer
        denials++
        return null
      })
      await following(script, async () => {
        await settled(script)
        script.lose(1)
        isDenying = true
        script.mine()
        await until('it was denied', () => denials > 4)
        assert.equal((await cursor()).halted, null)
        isDenying = false
        await settled(script)
      })
      const retracted = events.filter((event) => event.startsWith('retract'))
      assert.deepEqual(retracted, ['retract 9'], `development: ${isDevelopment}`)
    }
  })
})

test('a status that is none is no success and no failure; before Byzantium there was a state root', () => {
  const hash = `0x${'ab'.repeat(32)}`
  const receipt = { blockHash: hash, transactionHash: hash, from: addressOf(1), to: null, gasUsed: '0x5208', logs: [] }
  assert.equal(readReceipt({ ...receipt, status: '0x1' }).status, true)
  assert.equal(readReceipt({ ...receipt, status: '0x0' }).status, false)
  assert.equal(readReceipt({ ...receipt, root: hash }).status, true)
  assert.deepEqual(readReceipt({ ...receipt, status: '0x1', logs: null }).logs, [])
  for (const status of ['0x2', '0x', '', 'yes', true, null, undefined])
    assert.throws(() => readReceipt({ ...receipt, status }), /status/, String(status))
})

test('a log has bytes, whole ones', () => {
  const log = { address: addressOf(1), topics: [], data: '0x', logIndex: '0x0' }
  assert.equal(readLog({ ...log, data: '0xab' }).data, '0xab')
  for (const data of ['0xa', '0xabc', '', 'ab', '0xzz', null, 5])
    assert.throws(() => readLog({ ...log, data }), /data/, String(data))
})

test('a node that names no newest block gives a bad answer', async () => {
  const head = { node: { observe: (ask: () => Promise<unknown>) => ask() } }
  const follower = { chain: { rpc: { call: async () => null }, head }, stopping: new AbortController().signal }
  await assert.rejects(askLatest(follower as unknown as Follower), InvalidResponse)
})

test('a node that names no finalized block is told of once, and counts 64 blocks each time', async () => {
  const { chain, faults, blocks } = scriptedChain({ finality: 'finalized' })
  faults.hasNoFinalizedTag = true
  const warnings: string[] = []
  const log = { warn: (text: string) => void warnings.push(text) }
  const follower = { chain, app: { telemetry: { log } }, hasWarnedOfFinality: false } as unknown as Follower
  const latest = { ...blocks[0]!, number: 100, baseFee: null }
  for (let count = 0; count < 3; count++)
    assert.deepEqual(await findFinality(follower, latest), { number: 36, hash: null })
  assert.equal(warnings.length, 1)
})

test('a log has up to four topics, in a list', () => {
  const log = { address: addressOf(1), data: '0x', logIndex: '0x0' }
  const topics = Array.from({ length: 5 }, () => `0x${'ab'.repeat(32)}`)
  assert.equal(readLog({ ...log, topics: topics.slice(1) }).topics.length, 4)
  assert.deepEqual(readLog({ ...log, topics: null }).topics, [])
  for (const wrong of [topics, undefined, 'none', {}, [5], ['0xab']])
    assert.throws(() => readLog({ ...log, topics: wrong }), (error) => error instanceof InvalidResponse && /topic/.test(error.message)) // prettier-ignore
})

test('bytes and numbers of a field begin with 0x and have nothing around them', () => {
  assert.equal(bytes('0xABcd').toString('hex'), 'abcd')
  assert.equal(bytes('0x').length, 0)
  for (const wrong of ['abcd', 'x0xabcd', '00xab', '0xabc', '0xabzz', '0xab ', null, undefined, 5])
    assert.throws(() => bytes(wrong), InvalidResponse, String(wrong))
  assert.equal(quantity('0x0').length, 0)
  assert.equal(quantity('0x0100').toString('hex'), '0100')
  assert.equal(quantity(`0x${'F'.repeat(64)}`).length, 32)
  for (const wrong of ['10', 'x0x10', '0x', '0x10 ', '0xg', `0x${'f'.repeat(65)}`, null, undefined, 5])
    assert.throws(() => quantity(wrong), InvalidResponse, String(wrong))
})

test('a transaction is in a block once', () => {
  const [one, other] = [`0x${'ab'.repeat(32)}`, `0x${'cd'.repeat(32)}`]
  const block = { number: '0x1', hash: one, parentHash: one, timestamp: '0x1' }
  assert.deepEqual(readBlock({ ...block, transactions: [one, other] }).transactions, [one, other])
  for (const again of [one, one.toUpperCase().replace('X', 'x')])
    assert.throws(() => readBlock({ ...block, transactions: [one, other, again] }), /twice/)
})
