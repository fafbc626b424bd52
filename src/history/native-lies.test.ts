import assert from 'node:assert/strict'
import { beforeEach, suite, test } from 'node:test'
import type { Chain } from '../chain/network.ts'
import { NATIVE_TRANSFER_LOGGER, TRANSFER_TOPIC } from '../abi/transfers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable, type Rpc } from '../chain/rpc/rpc.ts'
import { fetchBlock } from '../follower/fetch.ts'
import { sourceOf } from '../follower/receipt-source.ts'
import type { Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { until } from '../../test/kit/until.ts'
import { gatherNative } from './index-native.ts'
import { indexTransfers } from './index-transfers.ts'
import { kindOf } from './native.ts'
import { nativeCoverage } from './native-coverage.ts'

const [ALICE, STRANGER] = [signerAt(0xa1), signerAt(0x57)]
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const TOKEN = addressOf(0x70)
const GAS = 30_000

suite('native currency of nodes that lie, or are away', () => {
  const stage = followerStage(['blocks', 'cursors', 'history_cursors', 'networks', 'transfers', 'tokens', 'native_coverage', 'history_marks', 'accounts']) // prettier-ignore
  const { app, followed, following, settled, logged } = stage
  beforeEach(async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'values' })
    await app.db
      .insertInto('accounts')
      .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
      .execute()
  })
  const rows = async () =>
    (await app.db.selectFrom('transfers').selectAll().where('token_type', '=', 1).orderBy('block_number').orderBy('log_index').orderBy('batch_index').execute())
      .map((row) => [row.block_number, kindOf({ logIndex: row.log_index, batchIndex: row.batch_index }), fromWord(row.value)]) // prettier-ignore
  const coverage = () => nativeCoverage(app.db, { accountId: ALICE_ID, chainId: 31_337 })

  type Said = Record<string, unknown>
  /** Answers `debug_traceBlockByHash` only; each transaction returns two wei. */
  const tracesOf =
    (script: ScriptedChain): ScriptedChain['answer'] =>
    (method, [asked]) => {
      if (method !== 'debug_traceBlockByHash') throw new RpcError(-32601, 'Method not found', undefined)
      return script.blocks
        .find(({ hash }) => hash === asked)!
        .transactions.map(({ from, hash: txHash }) => ({
          txHash,
          result: { type: 'CALL', from, to: TOKEN, calls: [{ type: 'CALL', from: TOKEN, to: ALICE, value: '0x2' }] },
        }))
    }
  /** Returns the chain with a node that changes its answers. */
  function lying(script: ScriptedChain, lie: (method: string, params: unknown[], answer: unknown) => void): Chain {
    const changed = <T>(method: string, params: unknown[], answer: T): T => {
      lie(method, params, answer)
      return answer
    }
    const rpc: Rpc = {
      ...script.chain.rpc,
      call: async (method, params) => changed(method, params, (await script.chain.rpc.call(method, params)) as never),
      batch: async (calls) =>
        (await script.chain.rpc.batch(calls)).map((answer, index) => changed(calls[index]!.method, calls[index]!.params, answer)), // prettier-ignore
    }
    return { ...script.chain, rpc }
  }

  test('a server that starts anew at a block without native currency knows by those before that the network logs it', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    const wordOf = (hex: string): Hex => `0x${hex.slice(2).padStart(64, '0')}`
    const data = wordOf('0x3')
    const logs = [{ address: NATIVE_TRANSFER_LOGGER, topics: [TRANSFER_TOPIC, STRANGER, addressOf(0xc0)].map((one, index) => (index === 0 ? one : wordOf(one))), data }] // prettier-ignore
    const moving = { from: STRANGER, transfers: [], gasUsed: GAS, logs }
    const silent = { from: STRANGER, transfers: [], gasUsed: GAS, reverted: true }
    for (const made of [[moving, silent], [silent, silent], [moving]]) {
      for (const one of made) script.mine(one)
      await followed(script, indexTransfers, { ...script.chain, state: openState() })
      assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
    }
  })

  test('nothing is known of a network whose blocks did not say whether it logs native currency', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    for (let count = 0; count < 12; count++)
      script.mine({ from: STRANGER, transfers: [], gasUsed: GAS, reverted: true })
    await followed(script, indexTransfers)
    assert.deepEqual(await coverage(), { from: 0, internalFrom: null })
  })

  test('what an account is paid for a block rests on receipts that are proven', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2, miner: ALICE })
    script.mine({ from: STRANGER, transfers: [], gasUsed: GAS })
    let lies = 0
    let isWhole = false
    const chain = lying(script, (method, params, answer) => {
      // From then on, receipts are requested again, to be verified.
      isWhole ||= method === 'eth_getBlockByHash' && params[1] === true
      const [receipt] = method === 'eth_getBlockReceipts' ? (answer as Said[]) : []
      if (receipt === undefined || isWhole) return
      // Set the price as if the transaction had paid no tip.
      receipt.effectiveGasPrice = script.blocks[1]!.header.baseFeePerGas
      lies++
    })
    await followed(script, indexTransfers, chain)
    assert.ok(lies > 0)
    const tip = 1_000_000_007n - BigInt(script.blocks[1]!.header.baseFeePerGas!)
    assert.deepEqual(await rows(), [[1, 'REWARD', BigInt(GAS) * tip]])
  })

  test('a sender is believed whom the receipts name, too', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    script.mine({ from: STRANGER, transfers: [], gasUsed: GAS })
    let lies = 1
    const chain = lying(script, (method, params, answer) => {
      const { transactions = [] } = (answer ?? {}) as { transactions?: Said[] }
      if (method !== 'eth_getBlockByHash' || params[1] !== true || transactions.length === 0 || lies-- <= 0) return
      transactions[0]!.from = ALICE
    })
    await followed(script, indexTransfers, { ...chain, verification: 'count' })
    assert.ok(lies <= 0)
    assert.deepEqual(await rows(), [])
    assert.deepEqual(await coverage(), { from: 0, internalFrom: null })
  })

  test('complete is what is stored, and no block behind it of which a node tells all and bears out nothing', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    for (let count = 0; count < 3; count++) script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
    const { chain } = script
    const source = sourceOf(chain)
    const blocks = await Promise.all(script.blocks.slice(1).map(({ hash }) => fetchBlock(chain.rpc, hash, source)))
    const gathered = async (from: number) => {
      const { count, store } = await gatherNative(app, chain, blocks.slice(from))
      await app.db.transaction().execute(store)
      const noted = await app.db.selectFrom('native_coverage').select(['from_block', 'to_block']).executeTakeFirstOrThrow() // prettier-ignore
      return [count, noted.from_block, noted.to_block]
    }
    script.onAsk = (method, [hash]) => {
      if (method === 'eth_getBlockReceipts' && hash === blocks[1]!.hash) throw new RpcUnavailable('away', { timedOut: false }) // prettier-ignore
    }
    assert.deepEqual(await gathered(0), [1, 1, 1])
    script.onAsk = () => {}
    assert.deepEqual(await gathered(1), [2, 1, 3])
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'VALUE').map(([block]) => block), [1, 2, 3]) // prettier-ignore
  })

  test('an amount that no balance can hold is left out after a while, so that transfers of tokens do not wait for it', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
    const { hash } = script.blocks[1]!
    const chain = lying(script, (method, _, answer) => {
      if (method === 'eth_getBlockReceipts') for (const one of answer as Said[]) one.l1Fee = `0x${'f'.repeat(64)}`
    })
    const block = await fetchBlock(chain.rpc, hash, sourceOf(chain))
    for (let tries = 1; tries < 20; tries++) await assert.rejects(gatherNative(app, chain, [block]), InvalidResponse)
    const { count, store } = await gatherNative(app, chain, [block])
    assert.equal(count, 1)
    await app.db.transaction().execute(store)
    assert.deepEqual(await rows(), [])
    assert.ok(logged.includes('native_transfers_missing'))
  })

  test('a node that limits requests is waited for, however often it does, and a block is not left out for that', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
    const { chain } = script
    const block = await fetchBlock(chain.rpc, script.blocks[1]!.hash, sourceOf(chain))
    script.onAsk = () => {
      throw new RpcError(429, 'Too Many Requests', undefined)
    }
    for (let tries = 0; tries < 30; tries++)
      await assert.rejects(gatherNative(app, chain, [block]), { message: 'Too Many Requests' })
    script.onAsk = () => {}
    const { store } = await gatherNative(app, chain, [block])
    await app.db.transaction().execute(store)
    assert.deepEqual((await rows()).map(([, kind]) => kind), ['FEE', 'VALUE']) // prettier-ignore
    assert.ok(!logged.includes('native_transfers_missing'))
  })

  for (const [what, error, most] of [
    ['a limit of requests', new RpcError(429, 'Too Many Requests', undefined), 20],
    ['a block that another node behind its address has, and it not yet', new RpcError(-32000, 'block 0x12 not found', undefined), 8], // prettier-ignore
    ['a fault of its own', new RpcError(-32000, 'execution timeout', undefined), 3],
  ] as const)
    test(`traces that a node refuses for ${what} are asked for ${most} times`, async () => {
      Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
      const gathered = async (refusals: number) => {
        const script = scriptedChain({ isDevelopment: true, finality: 2 })
        script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
        const traces = tracesOf(script)
        let left = refusals
        script.answer = (method, params) => {
          if (method === 'debug_traceBlockByHash' && left-- > 0) throw error
          return traces(method, params)
        }
        const { chain } = script
        const block = await fetchBlock(chain.rpc, script.blocks[1]!.hash, sourceOf(chain))
        for (let tries = 1; tries < most; tries++)
          await assert.rejects(gatherNative(app, chain, [block]), { message: error.message })
        const { store } = await gatherNative(app, chain, [block])
        await app.db.transaction().execute(store)
        const kinds = (await rows()).map(([, kind]) => kind)
        await app.db.deleteFrom('transfers').execute()
        return kinds
      }
      assert.deepEqual(await gathered(most - 1), ['FEE', 'VALUE', 'INTERNAL'])
      assert.ok(!logged.includes('internal_transfers_missing'))
      assert.deepEqual(await gathered(most), ['FEE', 'VALUE'])
      assert.ok(logged.includes('internal_transfers_missing'))
    })

  test('traces of old blocks that a node has no state for any more are missing, and those of newer ones are asked for', async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    const traces = tracesOf(script)
    script.answer = (method, params) => {
      const isOld = script.blocks.slice(0, 3).some(({ hash }) => hash === params[0])
      // go-ethereum, eth/state_accessor.go
      if (method === 'debug_traceBlockByHash' && isOld) throw new RpcError(-32000, 'historical state not available in path scheme yet', undefined) // prettier-ignore
      return traces(method, params)
    }
    for (let count = 0; count < 4; count++) script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
    await followed(script, indexTransfers)
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block), [3, 4]) // prettier-ignore
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 3 })
    assert.ok(!logged.includes('internal_transfers_unknown'))
  })

  test('a node that is away is waited for, also where blocks came whole and nothing of them is left to be asked but traces', async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    let isAway = true
    let refused = 0
    script.answer = tracesOf(script)
    for (let count = 0; count < 3; count++) script.mine({ from: ALICE, transfers: [], gasUsed: GAS })
    let wasRead = false
    script.onAsk = (method) => {
      const isTraces = method.startsWith('debug_') || method.startsWith('trace_')
      wasRead ||= isTraces
      if (!isAway || !wasRead) return
      refused++
      throw new RpcUnavailable('away', { timedOut: false })
    }
    await following(
      script,
      indexTransfers,
      async () => {
        await until('the node was asked again and again, from traces on', () => refused >= 5)
        isAway = false
        await settled(script)
      },
      { ...script.chain, verification: 'hash' },
    )
    assert.deepEqual((await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block), [1, 2, 3]) // prettier-ignore
    assert.deepEqual(await coverage(), { from: 0, internalFrom: 0 })
  })
})
