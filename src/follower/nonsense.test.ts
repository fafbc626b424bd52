import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import type { App } from '../app.ts'
import { readConfig } from '../config.ts'
import { toHex } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/database.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/scripted-chain.ts'
import { until } from '../../test/until.ts'
import { readBlock, readLog, readReceipt } from './answers.ts'
import type { BlockListener } from './block.ts'
import { startFollower } from './follow.ts'

// A node that answers, and answers what cannot be.

const FAR = `0x${(2 ** 40).toString(16)}`
type Header = Record<string, unknown>

/** Changes what the node answers to `eth_getBlockByNumber`; the rest it answers as it is. */
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
  let database: TestDatabase
  let app: App
  before(async () => {
    database = await testDatabase()
    const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }
    app = { config, db: database.db, telemetry: openTelemetry('test', 'silent'), now: Date.now } as App
  })
  beforeEach(async () => {
    for (const table of ['blocks', 'cursors', 'networks'] as const) await app.db.deleteFrom(table).execute()
  })
  after(() => database.close())

  const events: string[] = []
  const listener: BlockListener = {
    onBlock: async (_db, _app, _chain, { number }) => void events.push(`block ${number}`),
    onRetract: async (_db, _app, _chain, number) => void events.push(`retract ${number}`),
    onFinalize: async (_db, _app, _chain, number) => void events.push(`finalize ${number}`),
  }
  const cursor = () => app.db.selectFrom('cursors').selectAll().executeTakeFirstOrThrow()
  const settled = (script: ScriptedChain) =>
    until('the cursor is at the head', async () => {
      const row = await app.db.selectFrom('cursors').select('block_hash').executeTakeFirst()
      return row !== undefined && toHex(row.block_hash) === script.blocks.at(-1)!.hash
    })
  const following = async (script: ScriptedChain, work: () => Promise<void>) => {
    events.length = 0
    const follower = startFollower(app, script.chain, [listener])
    try {
      await work()
    } finally {
      await follower.stop()
    }
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

  test('a node that denies blocks below its newest moves nothing back and stops nobody', async () => {
    for (const isDevelopment of [true, false]) {
      for (const table of ['blocks', 'cursors', 'networks'] as const) await app.db.deleteFrom(table).execute()
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
  for (const status of ['0x2', '0x', '', 'yes', true, null, undefined])
    assert.throws(() => readReceipt({ ...receipt, status }), /status/, String(status))
})

test('a log has bytes, whole ones', () => {
  const log = { address: addressOf(1), topics: [], data: '0x', logIndex: '0x0' }
  assert.equal(readLog({ ...log, data: '0xab' }).data, '0xab')
  for (const data of ['0xa', '0xabc', '', 'ab', '0xzz', null, 5])
    assert.throws(() => readLog({ ...log, data }), /data/, String(data))
})

test('a transaction is in a block once', () => {
  const [one, other] = [`0x${'ab'.repeat(32)}`, `0x${'cd'.repeat(32)}`]
  const block = { number: '0x1', hash: one, parentHash: one, timestamp: '0x1' }
  assert.deepEqual(readBlock({ ...block, transactions: [one, other] }).transactions, [one, other])
  for (const again of [one, one.toUpperCase().replace('X', 'x')])
    assert.throws(() => readBlock({ ...block, transactions: [one, other, again] }), /twice/)
})
