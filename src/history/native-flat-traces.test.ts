import assert from 'node:assert/strict'
import { beforeEach, suite, test } from 'node:test'
import { InvalidResponse, RpcError, RpcTooLarge } from '../chain/rpc/failures.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import type { KeptBlock } from '../follower/block.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { indexTransfers } from './index-transfers.ts'
import { nativeCoverage } from './native-coverage.ts'
import { fetchInternalFlat } from './native-flat-traces.ts'

const BLOCK: Hex = `0x${'2'.repeat(64)}`
const HASHES = ['1', '3'].map((digit): Hex => `0x${digit.repeat(64)}`)
const [ALICE, CONTRACT] = [signerAt(0xa1), addressOf(0xc0)]
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'

type Said = Record<string, unknown>
const called = (position: number, traceAddress: number[], value: string, { callType = 'call', ...more }: Said = {}): Said => ({
  ...{ type: 'call', action: { callType, from: CONTRACT, to: ALICE, value }, result: { output: '0x' }, traceAddress },
  ...{ blockHash: BLOCK, transactionHash: HASHES[position], transactionPosition: position, ...more },
}) // prettier-ignore
const receipts = HASHES.map((transactionHash) => ({ transactionHash, status: true }))
const block = { hash: BLOCK, number: 7, receipts } as unknown as KeptBlock
const failed = { error: 'Reverted', result: null }

async function read(traces: unknown, of: KeptBlock = block): Promise<bigint[][]> {
  const call = async (method: string, params: unknown[]) => {
    assert.deepEqual([method, params], ['trace_block', ['0x7']])
    return traces
  }
  const moved = await fetchInternalFlat({ call } as unknown as Rpc, of)
  return moved.map((of) => of.map(({ value }) => value))
}

test('calls, creations and what is left by a contract that ends move currency, in their order; what failed, and all that was called from it, did not', async () => {
  const traces = [
    { type: 'reward', action: { author: ALICE, value: '0x99' }, blockHash: BLOCK, transactionHash: null },
    called(0, [], '0x1'),
    called(0, [0], '0x2'),
    called(0, [0, 0], '0x3'),
    called(0, [1], '0x4', failed),
    called(0, [1, 0], '0x5'),
    called(0, [1, 0, 3], '0x6'),
    called(0, [2], '0x7', { callType: 'delegatecall' }),
    called(0, [2, 0], '0x8'),
    called(0, [3], '0x9', { callType: 'callcode' }),
    called(0, [4], '0xa', { callType: 'staticcall' }),
    { ...called(0, [5], '0x0'), type: 'create', action: { from: CONTRACT, value: '0xb', init: '0x' }, result: { address: ALICE } }, // prettier-ignore
    { ...called(0, [5, 0], '0x0'), type: 'suicide', action: { address: CONTRACT, refundAddress: ALICE, balance: '0xc' }, result: null }, // prettier-ignore
    // The same traces in the format of other nodes.
    { ...called(0, [5, 1], '0x0'), type: 'selfdestruct', action: { address: CONTRACT, refundAddress: ALICE, balance: '0xf' }, result: null }, // prettier-ignore
    { ...called(0, [6], '0x0', failed), type: 'create', action: { from: CONTRACT, value: '0xd', init: '0x' } },
    called(0, [10], '0xe'),
    called(1, [], '0x1'),
  ]
  assert.deepEqual(await read(traces), [[2n, 3n, 8n, 11n, 12n, 15n, 14n], []])
  // A failed transaction moved nothing.
  const reverted = { ...block, receipts: [{ ...receipts[0], status: false }, receipts[1]] } as unknown as KeptBlock
  const [top, ...rest] = traces.slice(1)
  assert.deepEqual(await read([{ ...top, ...failed }, ...rest], reverted), [[], []])
})

test('traces that are not those of the block are refused', async () => {
  const good = [called(0, [], '0x1'), called(0, [0], '0x2'), called(0, [0, 0], '0x3'), called(0, [1], '0x3'), called(1, [], '0x1')] // prettier-ignore
  assert.deepEqual(await read(good), [[2n, 3n, 3n], []])
  const changed = (index: number, more: Said) => good.map((one, at) => (at === index ? { ...one, ...more } : one))
  for (const [what, traces] of Object.entries({
    'no list': null,
    'of none': [],
    'of one transaction less': good.slice(0, 4),
    'of calls without their transaction': good.slice(1),
    'of another block': changed(1, { blockHash: HASHES[0] }),
    'of another transaction': changed(1, { transactionHash: HASHES[1] }),
    'of a transaction that is not there': changed(1, { transactionPosition: 2 }),
    'of no transaction': changed(1, { transactionHash: null }),
    'ending otherwise than the receipt': changed(4, failed),
    'without places': changed(1, { traceAddress: null }),
    'with a place below nothing': changed(1, { traceAddress: [-1] }),
    'in another order': [good[0], good[1], good[3], good[2], good[4]],
    'told twice': [good[0], good[1], good[1], good[4]],
    'of two beginnings': [good[0], good[0], good[4]],
    'of an unknown kind': changed(1, { type: 'gift' }),
    'with no number': changed(1, { action: { callType: 'call', from: CONTRACT, to: ALICE, value: 'much' } }),
    'with no address': changed(1, { action: { callType: 'call', from: CONTRACT, to: '0x1', value: '0x1' } }),
  }))
    await assert.rejects(read(traces), InvalidResponse, what)
})

suite('traces of nodes that have one way or the other', () => {
  const stage = followerStage(['blocks', 'cursors', 'history_cursors', 'networks', 'transfers', 'tokens', 'native_coverage', 'history_marks', 'accounts']) // prettier-ignore
  const { app, followed, logged } = stage
  beforeEach(async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    logged.length = 0
    await app.db
      .insertInto('accounts')
      .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
      .execute()
  })
  const flat = (script: ScriptedChain, [asked]: readonly unknown[]): Said[] => {
    const { hash, transactions } = script.blocks.find(({ number }) => number === Number(asked))!
    return transactions.flatMap((one, position) => [
      called(position, [], '0x0', { blockHash: hash, transactionHash: (one as { hash?: Hex }).hash }),
      called(position, [0], '0x2', { blockHash: hash, transactionHash: (one as { hash?: Hex }).hash }),
    ])
  }
  const nested = (script: ScriptedChain, [asked]: readonly unknown[]) =>
    script.blocks
      .find(({ hash }) => hash === asked)!
      .transactions.map(({ from }) => ({
        result: {
          type: 'CALL',
          from,
          to: CONTRACT,
          calls: [{ type: 'CALL', from: CONTRACT, to: ALICE, value: '0x3' }],
        },
      }))
  async function follow(ways: Record<string, (script: ScriptedChain, params: readonly unknown[]) => unknown>) {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    script.answer = (method, params) => {
      if (ways[method] === undefined) throw new RpcError(-32601, `the method ${method} does not exist/is not available`, undefined) // prettier-ignore
      return ways[method](script, params)
    }
    for (let count = 0; count < 5; count++) script.mine({ from: ALICE, transfers: [], gasUsed: 30_000 })
    await followed(script, indexTransfers)
    const values = await app.db.selectFrom('transfers').select('value').where('recipient', '=', fromHex(ALICE)).where('sender', '=', fromHex(CONTRACT)).execute() // prettier-ignore
    const asked = ['trace_block', 'debug_traceBlockByHash'].map((method) => script.asked.get(method) ?? 0)
    const { internalFrom } = (await nativeCoverage(app.db, { accountId: ALICE_ID, chainId: 31_337 }))!
    return { values: values.map(({ value }) => value.at(-1)), asked, internalFrom }
  }

  test('are asked for by trace_block alone where it is there', async () => {
    const { values, asked, internalFrom } = await follow({ trace_block: flat, debug_traceBlockByHash: nested })
    assert.deepEqual([values, asked, internalFrom], [[2, 2, 2, 2, 2], [5, 0], 0])
  })

  test('are asked for by debug_traceBlockByHash where it is not, which is learned once', async () => {
    const { values, asked, internalFrom } = await follow({ debug_traceBlockByHash: nested })
    assert.deepEqual([values, asked[1], internalFrom], [[3, 3, 3, 3, 3], 5, 0])
    // At most four blocks are requested at a time.
    assert.ok(asked[0]! <= 4, String(asked[0]))
    assert.ok(!logged.includes('internal_transfers_unknown'))
  })

  test('are asked for in the other way where they contradict the block', async () => {
    const other = (script: ScriptedChain, params: readonly unknown[]) => flat(script, params).slice(1)
    const { values, internalFrom } = await follow({ trace_block: other, debug_traceBlockByHash: nested })
    assert.deepEqual([values, internalFrom], [[3, 3, 3, 3, 3], 0])
  })

  test('are asked for in the other way where they are too long', async () => {
    const long = () => {
      throw new RpcTooLarge()
    }
    const { values, internalFrom } = await follow({ trace_block: long, debug_traceBlockByHash: nested })
    assert.deepEqual([values, internalFrom], [[3, 3, 3, 3, 3], 0])
  })
})
