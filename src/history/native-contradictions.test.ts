import assert from 'node:assert/strict'
import { beforeEach, suite, test } from 'node:test'
import type { Chain } from '../chain/network.ts'
import { InvalidResponse, RpcError } from '../chain/rpc/failures.ts'
import type { KeptBlock } from '../follower/block.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedTransaction } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { gatherNative } from './index-native.ts'
import { indexTransfers } from './index-transfers.ts'
import { kindOf } from './native.ts'
import { nativeCoverage, noteNative } from './native-coverage.ts'
import { fetchInternal } from './native-traces.ts'

const ALICE = signerAt(0xa1)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const CONTRACT = addressOf(0xc0)

suite('native currency where sources say different things', () => {
  const stage = followerStage(['blocks', 'cursors', 'history_cursors', 'networks', 'transfers', 'tokens', 'native_coverage', 'history_marks', 'accounts']) // prettier-ignore
  const { app, followed, logged } = stage
  beforeEach(async () => {
    Object.assign(app.config, { NATIVE_HISTORY: 'traces' })
    await app.db
      .insertInto('accounts')
      .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
      .execute()
  })
  const rows = async (chainId = 31_337) =>
    (await app.db.selectFrom('transfers').selectAll().where('token_type', '=', 1).where('chain_id', '=', chainId).orderBy('block_number').orderBy('log_index').orderBy('batch_index').execute())
      .map((row) => [row.block_number, kindOf({ logIndex: row.log_index, batchIndex: row.batch_index }), fromWord(row.value)]) // prettier-ignore

  type Told = { hash?: string; error?: string | undefined; calls?: readonly unknown[] }
  const traceOf = ({ hash, from }: ScriptedTransaction & { hash: string }, { error, ...told }: Told) => ({
    txHash: told.hash ?? hash,
    result: {
      ...{ type: 'CALL', from, to: CONTRACT, value: '0x3', ...(error === undefined ? {} : { error }) },
      calls: told.calls ?? [{ type: 'CALL', from: CONTRACT, to: from, value: '0x2' }],
    },
  })
  /** Follows blocks, one of which has the traces that the test defines. */
  async function follow(isReverted: boolean, told: Told) {
    const script = scriptedChain({ isDevelopment: true, finality: 2 })
    for (let count = 0; count < 3; count++) script.mine({ from: ALICE, transfers: [], gasUsed: 30_000, reverted: count === 1 && isReverted }) // prettier-ignore
    script.answer = (method, params) => {
      if (method !== 'debug_traceBlockByHash')
        throw new RpcError(-32601, `the method ${method} does not exist/is not available`, undefined)
      const { number, transactions } = script.blocks.find(({ hash }) => hash === params[0])!
      return transactions.map((one) => traceOf(one as never, number === 2 ? told : { error: one.reverted === true ? 'execution reverted' : undefined })) // prettier-ignore
    }
    await followed(script, indexTransfers)
    return (await rows()).filter(([, kind]) => kind === 'INTERNAL').map(([block]) => block)
  }
  const coverage = () => nativeCoverage(app.db, { accountId: ALICE_ID, chainId: 31_337 })

  for (const [what, isReverted, told] of [
    ['that failed by its trace and not by its receipt', false, { error: 'out of gas' }],
    ['that failed by its receipt and not by its trace', true, {}],
    ['whose trace is of another transaction', false, { hash: `0x${'9'.repeat(64)}` }],
    ['whose trace moves what is no number', false, { calls: [{ type: 'CALL', from: CONTRACT, to: ALICE, value: 'much' }] }], // prettier-ignore
    ['whose trace calls no list', false, { calls: 'none' as never }],
  ] as const)
    test(`of a transaction ${what} nothing is believed: it is told, and counted as missing`, async () => {
      assert.deepEqual(await follow(isReverted, told), [1, 3])
      assert.deepEqual(await coverage(), { from: 0, internalFrom: 3 })
      assert.ok(logged.includes('internal_transfers_missing'))
    })

  test('what was called from a call that failed did not happen, nor what a delegate call is said to have; the rest did, in its order', async () => {
    const move = (type: string, value: string, more = {}) => ({ type, from: CONTRACT, to: ALICE, value, ...more })
    const calls = [
      move('CALL', '0x5', { calls: [move('CREATE', '0x6'), move('CALL', '0x7')] }),
      move('CALL', '0x8', { error: 'execution reverted', calls: [move('CALL', '0x9')] }),
      move('DELEGATECALL', '0xa', { calls: [move('CALL', '0xb')] }),
      ...[move('STATICCALL', '0xc'), move('CALLCODE', '0xd'), move('SELFDESTRUCT', '0xe'), move('CREATE2', '0xf')],
    ]
    const hash = `0x${'1'.repeat(64)}`
    const chain = {
      rpc: { call: async () => [traceOf({ hash, from: ALICE } as never, { calls })] },
    } as unknown as Chain
    const block = { hash: `0x${'2'.repeat(64)}`, receipts: [{ transactionHash: hash, status: true }] } as KeptBlock
    const [moved] = await fetchInternal(chain.rpc, block)
    assert.deepEqual(moved!.map(({ value }) => value), [5n, 6n, 7n, 11n, 14n, 15n]) // prettier-ignore
    await assert.rejects(fetchInternal(chain.rpc, { ...block, receipts: [] }), InvalidResponse)
  })

  test('withdrawals are of native currency, each of them, and of a token on the networks that pay them so', async () => {
    // Several validators may pay one account in a block.
    const paid = [[ALICE, 5n], [CONTRACT, 9n], [ALICE, 6n]].map(([address, value]) => ({ address, value })) // prettier-ignore
    for (const [chainId, isNative] of [
      [1, true],
      [100, false],
      [10_200, false],
    ] as const) {
      const chain = { chainId, verification: 'bloom', state: openState(), rpc: { call: async () => assert.fail('nothing is asked') } } as unknown as Chain // prettier-ignore
      const block = {
        ...{
          number: 7,
          hash: `0x${'3'.repeat(64)}`,
          parentHash: `0x${'4'.repeat(64)}`,
          timestamp: 1_700_000_000,
          receipts: [],
          baseFee: null,
        },
        native: { miner: null, withdrawals: paid, sent: null },
      } as unknown as KeptBlock
      const { count, store } = await gatherNative(app, chain, [block])
      assert.equal(count, 1)
      await store(app.db)
      assert.deepEqual(await rows(chainId), isNative ? [[7, 'WITHDRAWAL', 5n], [7, 'WITHDRAWAL', 6n]] : []) // prettier-ignore
    }
  })

  test('it is whole as far as each block is the parent of the next, and from a block of another branch on anew', async () => {
    const hash = (number: number): Hex => `0x${wordDigits(BigInt(number))}`
    const looked = async (number: number, parentHash: Hex) => {
      await noteNative(app.db, { chainId: 31_337 }, { first: { number, parentHash }, last: { number, hash: hash(number) }, internalFrom: number }) // prettier-ignore
      const row = await app.db.selectFrom('native_coverage').selectAll().where('chain_id', '=', 31_337).executeTakeFirstOrThrow() // prettier-ignore
      return [row.from_block, row.internal_from_block, row.to_block]
    }
    assert.deepEqual(await looked(5, hash(4)), [5, 5, 5])
    assert.deepEqual(await looked(6, hash(5)), [5, 5, 6])
    assert.deepEqual(await looked(7, hash(66)), [7, 7, 7])
    assert.deepEqual(await looked(9, hash(7)), [9, 9, 9])
  })

  test('an account that others may have used before has all of it from behind the last block before it was known, and no sooner than the network', async () => {
    const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000)
    await app.db
      .updateTable('accounts')
      .set({ created_at: at(0), is_key_new: false })
      .execute()
    await app.db.insertInto('history_cursors').values({ chain_id: 31_337, block_number: 90, block_hash: Buffer.alloc(32), epoch: 1 } as never).execute() // prettier-ignore
    const marks = [[-900, 10], [200, 20], [400, 30], [700, 40]] as const // prettier-ignore
    await app.db.insertInto('history_marks').values(marks.map(([seconds, block_number]) => ({ chain_id: 31_337, at: at(seconds), block_number }))).execute() // prettier-ignore
    // Marks of another network are no evidence for this one.
    await app.db
      .insertInto('history_marks')
      .values({ chain_id: 1, at: at(350), block_number: 3 })
      .execute()
    const note = async (from: number, internal: number | null) => {
      await app.db.deleteFrom('native_coverage').execute()
      await app.db.insertInto('native_coverage').values({ chain_id: 31_337, from_block: from, from_at: at(-800), internal_from_block: internal, internal_from_at: internal === null ? null : at(-800), to_block: 90, to_hash: null }).execute() // prettier-ignore
      return coverage()
    }
    // For five minutes after an account's creation, blocks may have been stored without it.
    assert.deepEqual(await note(5, 6), { from: 31, internalFrom: 31 })
    assert.deepEqual(await note(35, null), { from: 35, internalFrom: null })
    await app.db
      .updateTable('accounts')
      .set({ created_at: at(10_000) })
      .execute()
    assert.deepEqual(await note(5, 6), { from: null, internalFrom: null })
    await app.db.updateTable('accounts').set({ is_key_new: true }).execute()
    assert.deepEqual(await note(5, 6), { from: 0, internalFrom: 0 })
    await app.db
      .updateTable('accounts')
      .set({ created_at: at(-850) })
      .execute()
    assert.deepEqual(await note(5, 6), { from: 21, internalFrom: 21 })
    // The newest blocks of the history were not indexed.
    await app.db
      .updateTable('history_cursors')
      .set({ block_number: 91 } as never)
      .execute()
    assert.deepEqual(await coverage(), { from: null, internalFrom: null })
  })
})
