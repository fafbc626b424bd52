import assert from 'node:assert/strict'
import { beforeEach, suite, test } from 'node:test'
import { RpcTooLarge } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { until } from '../../test/kit/until.ts'
import { indexTransfers } from './index-transfers.ts'
import { kindOf } from './native.ts'
import { nativeCoverage } from './native-coverage.ts'

const ALICE = signerAt(0xa1)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const CONTRACT = addressOf(0xc0)
/** value of each scripted transaction */
const VALUE = 3n

suite('native currency behind the follower', () => {
  const stage = followerStage(['blocks', 'cursors', 'history_cursors', 'networks', 'transfers', 'tokens', 'native_coverage', 'history_marks', 'accounts']) // prettier-ignore
  const { app, followed, following, settled, logged } = stage
  beforeEach(async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    await app.db
      .insertInto('accounts')
      .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
      .execute()
  })
  // Enough gas to run code: for plain transactions no traces are requested.
  const sends = { from: ALICE, transfers: [], gasUsed: 30_000 }
  const rows = async () =>
    (
      await app.db
        .selectFrom('transfers')
        .selectAll()
        .where('token_type', '=', 1)
        .orderBy('block_number')
        .orderBy('log_index')
        .orderBy('batch_index')
        .execute()
    ).map(
      (row) => // prettier-ignore
      [row.block_number, kindOf({ logIndex: row.log_index, batchIndex: row.batch_index }), row.direction, fromWord(row.value)], // prettier-ignore
    )
  const coverage = () => nativeCoverage(app.db, { accountId: ALICE_ID, chainId: 31337 })
  /** Returns traces in which each transaction that costs more than a plain one sends its value back. */
  const traces = (script: ScriptedChain, hash: unknown) =>
    script.blocks
      .find((block) => block.hash === hash)!
      .transactions.map((one) => ({
        txHash: one.hash,
        result: {
          ...{ type: 'CALL', from: one.from, to: CONTRACT, value: '0x3' },
          ...(one.reverted === true ? { error: 'execution reverted' } : {}),
          calls: [{ type: 'CALL', from: CONTRACT, to: one.from, value: '0x2' }],
        },
      }))
  const chainWith = (answer: (script: ScriptedChain, hash: unknown) => unknown): ScriptedChain => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    script.answer = (method, params) => {
      if (method !== 'debug_traceBlockByHash') throw new RpcError(-32601, 'Method not found', undefined)
      return answer(script, params[0])
    }
    return script
  }
  const FEE = 30_000n * 1_000_000_007n

  test('is fees, values and what contracts send; what failed pays its fee alone', async () => {
    const script = chainWith(traces)
    script.mine(sends, { ...sends, reverted: true })
    await followed(script, indexTransfers)
    assert.deepEqual(await rows(), [
      [1, 'FEE', 1, FEE],
      [1, 'VALUE', 1, VALUE],
      [1, 'INTERNAL', 0, 2n],
      [1, 'FEE', 1, FEE],
    ])
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
  })

  test('is asked for no traces in `values`, and not at all in `off`', async () => {
    for (const [choice, kinds] of [
      ['values', ['FEE', 'VALUE']],
      ['off', []],
    ] as const) {
      Object.assign(app.config, { NATIVE_HISTORY: choice })
      for (const table of ['blocks', 'cursors', 'history_cursors', 'transfers', 'native_coverage'] as const) await app.db.deleteFrom(table).execute() // prettier-ignore
      const script = chainWith(traces)
      script.mine(sends)
      await followed(script, indexTransfers)
      assert.deepEqual((await rows()).map(([, kind]) => kind), kinds) // prettier-ignore
      assert.deepEqual(await coverage(), { from: choice === 'off' ? null : 0, internalFrom: null })
      assert.equal(script.asked.get('debug_traceBlockByHash'), undefined)
    }
  })

  test('of a node without traces lacks what contracts send, and says so once', async () => {
    const script = chainWith(() => {
      throw new RpcError(-32601, 'the method debug_traceBlockByHash does not exist/is not available', undefined)
    })
    for (let count = 0; count < 3; count++) script.mine(sends)
    await followed(script, indexTransfers)
    assert.equal((await rows()).length, 6)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: null })
    assert.equal(logged.filter((event) => event === 'internal_transfers_unknown').length, 1)
  })

  test('does not wait for a block whose traces fail again and again, and is complete behind it', async () => {
    const script = chainWith((_, hash) => {
      if (hash === script.blocks[2]!.hash) throw new RpcError(-32000, 'execution timeout', undefined)
      return traces(script, hash)
    })
    for (let count = 0; count < 3; count++) script.mine(sends)
    await followed(script, indexTransfers)
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block), [1, 3]) // prettier-ignore
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 3 })
    assert.ok(logged.includes('internal_transfers_missing'))
    // The block is replaced by one that the node can trace.
    script.lose(2)
    for (let count = 0; count < 3; count++) script.mine(sends)
    const told = script.answer
    script.answer = (method, params) => (method === 'debug_traceBlockByHash' ? traces(script, params[0]) : told(method, params)) // prettier-ignore
    await followed(script, indexTransfers)
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block), [1, 2, 3, 4]) // prettier-ignore
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 2 })
  })

  test('asks once a block where the traces of a network never fit its blocks, and tokens do not wait', async () => {
    const script = chainWith((_, hash) => (traces(script, hash) as unknown[]).slice(1))
    for (let count = 0; count < 12; count++) script.mine(sends)
    await followed(script, indexTransfers)
    assert.deepEqual(new Set((await rows()).map(([, kind]) => kind)), new Set(['FEE', 'VALUE']))
    // None of the twelve blocks has internal transfers.
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 13 })
    const asked = script.asked.get('debug_traceBlockByHash')!
    assert.ok(asked <= 12 + 3 * 4, `asked ${asked} times`)
  })

  test('stores the blocks before one of which a node says nothing, and holds no many blocks back for one', async () => {
    const script = chainWith((_, hash) => traces(script, hash))
    let isSilent = true
    script.onAsk = (method, params) => {
      const isIt = method === 'eth_getBlockByHash' && params[1] === true && params[0] === script.blocks[6]!.hash
      if (isSilent && isIt) throw new RpcUnavailable('away', { timedOut: false })
    }
    for (let count = 0; count < 9; count++) script.mine(sends)
    await following(script, indexTransfers, async () => {
      await until('the blocks before it are stored', async () => (await rows()).length === 5 * 3)
      isSilent = false
      await settled(script)
    })
    assert.equal((await rows()).length, 9 * 3)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
  })

  test('asks twice for traces that take too long, and for nothing else of the block meanwhile: the node works at them', async () => {
    const asked: string[] = []
    const script = chainWith((_, hash) => {
      if (hash !== script.blocks[2]!.hash) return traces(script, hash)
      asked.push('traces')
      throw new RpcUnavailable('the node took too long', { timedOut: true })
    })
    script.onAsk = (method, params) => {
      if (method === 'eth_getBlockByHash' && params[1] === true && params[0] === script.blocks[2]!.hash) asked.push('block') // prettier-ignore
    }
    for (let count = 0; count < 3; count++) script.mine(sends)
    await followed(script, indexTransfers)
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block), [1, 3]) // prettier-ignore
    assert.deepEqual(asked.slice(0, 4), ['block', 'traces', 'block', 'traces'])
    assert.equal(asked.filter((what) => what === 'traces').length, 2)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 3 })
  })

  test('waits for a node that is away, and loses nothing', async () => {
    let isAway = true
    let refused = 0
    const script = chainWith((_, hash) => traces(script, hash))
    script.onAsk = (method, params) => {
      if (!isAway || method !== 'eth_getBlockByHash' || params[1] !== true) return
      refused++
      throw new RpcUnavailable('away', { timedOut: false })
    }
    script.mine(sends)
    await following(script, indexTransfers, async () => {
      await until('the node was asked again and again', () => refused >= 4)
      assert.deepEqual(await rows(), [])
      isAway = false
      await settled(script)
    })
    assert.equal((await rows()).length, 3)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
  })

  test('does not wait for a block that is longer than what is read of a node', async () => {
    const script = chainWith((_, hash) => traces(script, hash))
    script.onAsk = (method, params) => {
      if (method === 'eth_getBlockByHash' && params[1] === true && params[0] === script.blocks[1]!.hash) throw new RpcTooLarge() // prettier-ignore
    }
    script.mine(sends)
    script.mine(sends)
    await followed(script, indexTransfers)
    assert.deepEqual((await rows()).map(([block]) => block), [2, 2, 2]) // prettier-ignore
    assert.deepEqual(await coverage(), { from: 2, internalFrom: 2 })
    assert.ok(logged.includes('native_transfers_missing'))
  })

  test('believes no value that the block’s hash contradicts', async () => {
    const script = chainWith((_, hash) => traces(script, hash))
    let lies = 3
    const { rpc } = script.chain
    const lying = {
      ...rpc,
      call: async (method: string, params: unknown[]) => {
        const answer = (await rpc.call(method, params)) as { transactions: { value: Hex }[] }
        if (method === 'eth_getBlockByHash' && params[1] === true && answer.transactions.length > 0 && lies-- > 0) answer.transactions[0]!.value = '0x99' // prettier-ignore
        return answer as never
      },
    }
    script.mine(sends)
    await followed(script, indexTransfers, { ...script.chain, rpc: lying })
    assert.ok(lies <= 0)
    assert.deepEqual(await rows(), [
      [1, 'FEE', 1, FEE],
      [1, 'VALUE', 1, VALUE],
      [1, 'INTERNAL', 0, 2n],
    ])
  })

  test('stays complete where the newest block alone is reorganised', async () => {
    const script = chainWith((_, hash) => traces(script, hash))
    for (let count = 0; count < 3; count++) script.mine(sends)
    await followed(script, indexTransfers)
    script.lose(1)
    script.mine(sends, sends)
    await followed(script, indexTransfers)
    assert.equal((await rows()).length, 4 * 3)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
  })

  test('begins anew where a program that does not know it has followed meanwhile', async () => {
    const script = chainWith((_, hash) => traces(script, hash))
    script.mine(sends)
    await followed(script, indexTransfers)
    Object.assign(app.config, { NATIVE_HISTORY: 'off' })
    script.mine(sends)
    await followed(script, indexTransfers)
    // No block is complete up to the end of the history.
    assert.deepEqual(await coverage(), { from: null, internalFrom: null })
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    script.mine(sends)
    await followed(script, indexTransfers)
    assert.deepEqual(await coverage(), { from: 3, internalFrom: 3 })
  })
})
