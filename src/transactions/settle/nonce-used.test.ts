import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { testCluster } from '../../../test/kit/database.ts'
import { until } from '../../../test/kit/until.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { RpcError } from '../../chain/rpc/failures.ts'
import { bloomOf } from '../../follower/bloom.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { readTransaction } from '../read/read.ts'
import { usedForGood } from './nonce-used.ts'
import { chainLike } from '../../../test/opened.ts'

/** A nonce is abandoned for good only if the followed chain proves that it was used. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const keep = async () => {
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
}
const stopped = async ({ address }: Writer) =>
  (await world.db.selectFrom('stopped_lanes').select('nonce').where('sender', '=', fromHex(address)).execute()).length
const isUsed = async ({ address: from }: Writer, nonce: number) =>
  (await usedForGood(world.first.app, world.first.chain, { id: 'tx_used', from, nonce })) !== null
const finalise = async () => {
  for (let block = 0; block < 4; block++) await world.mine()
}

async function useNonce({ address: from }: Writer): Promise<Hex> {
  await world.rpc('anvil_impersonateAccount', from)
  const hash = await world.rpc<Hex>('eth_sendTransaction', { from, to: from, value: '0x1', gas: '0x5208' })
  await world.rpc('anvil_stopImpersonatingAccount', from)
  return hash
}

test('a node that counts a nonce as used and has no receipt makes nothing FAILED, however final it says that is', async () => {
  const writer = await world.writer('liar')
  await finalise()
  const { answer } = await world.add(world.first, writer, 1, 'k')
  await world.rpc('anvil_dropAllTransactions')
  world.first.misbehave(async (method, _params, next) => {
    if (method === 'eth_sendRawTransaction') throw new RpcError(-32000, 'nonce too low', undefined)
    if (method === 'eth_getTransactionCount') return '0x10'
    if (method === 'eth_getTransactionReceipt') return null
    return next()
  })
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  assert.equal(await stopped(writer), 0)
  world.first.misbehave(null)
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 1n)
})

test('a nonce is used for good when its proof leads to a final block that was followed, not before', async () => {
  const writer = await world.writer('foreign')
  await finalise()
  assert.equal(await isUsed(writer, 0), false)
  await useNonce(writer)
  await world.mine()
  assert.equal(await isUsed(writer, 0), false, 'mined, and not final')
  await finalise()
  assert.equal(await isUsed(writer, 0), true)
  assert.equal(await isUsed(writer, 1), false)
})

test('what the node cannot prove, or proves of another block, is not given up', async () => {
  const writer = await world.writer('unproven')
  await useNonce(writer)
  await world.mine()
  await finalise()
  const older = await world.rpc<object>('eth_getProof', writer.address, [], 'latest')
  const chain = { ...world.first.chain }
  const asked = { id: 'tx_used', from: writer.address, nonce: 0 }
  for (const [what, lie] of [
    ['header', null],
    ['header', { ...(await world.rpc<object>('eth_getBlockByNumber', 'latest', false)) }],
    ['proof', null],
    ['proof', new RpcError(-32601, 'the method eth_getProof does not exist', undefined)],
    ['proof', { ...older, accountProof: [] }],
  ] as const) {
    const rpc = {
      ...world.first.chain.rpc,
      batch: async (calls: { method: string; params: unknown[] }[]) => {
        const [header, proof] = await world.first.chain.rpc.batch(calls)
        return what === 'header' ? [lie, proof] : [header, lie]
      },
    }
    assert.equal(await usedForGood(world.first.app, chainLike(chain, { rpc }), asked), null, what)
  }
  assert.equal(await isUsed(writer, 0), true)
})

test('a FAILED that a block contradicts is corrected', async () => {
  const writer = await world.writer('corrected')
  const { answer } = await world.add(world.first, writer)
  await world.db
    .updateTable('transactions')
    .set({ state: 'FAILED', is_final: true })
    .where('id', '=', answer.id)
    .execute()
  await world.mine()
  const { state, isFinal, receipt } = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([state, isFinal, receipt?.status], ['MINED', false, 'SUCCESS'])
})

test('a receipt that the block does not bear out marks nothing, and what a row says of a false block is corrected', async () => {
  const writer = await world.writer('false-receipt')
  const { answer } = await world.add(world.first, writer, 1, 'k')
  const block = await world.rpc<{ number: Hex; hash: Hex }>('eth_getBlockByNumber', 'latest', false)
  for (const status of ['0x0', '0x1']) {
    world.first.misbehave(async (method, params, next) => {
      if (method === 'eth_sendRawTransaction') throw new RpcError(-32000, 'nonce too low', undefined)
      if (method !== 'eth_getTransactionReceipt' || params[0] !== answer.hash) return next()
      const place = { transactionHash: answer.hash, blockNumber: block.number, blockHash: block.hash }
      return { ...place, status, gasUsed: '0x5208', effectiveGasPrice: '0x1', logs: [], from: writer.address }
    })
    await sql`update attempts set broadcast_at = null`.execute(world.db)
    await keep()
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  }
  world.first.misbehave(null)
  await world.db
    .updateTable('transactions')
    .set({ state: 'REVERTED', block_number: Number(block.number), block_hash: fromHex(block.hash), succeeded: false })
    .where('id', '=', answer.id)
    .execute()
  await world.mine()
  const { state, receipt } = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([state, receipt?.status, receipt?.blockHash === block.hash], ['MINED', 'SUCCESS', false])
})

test('what used a nonce is told by the block that used it, and by no node: one that hides a write of ours makes it not FAILED', async () => {
  const writer = await world.writer('hidden')
  await finalise()
  const { answer } = await world.add(world.first, writer, 1, 'k')
  const { chain } = world.first
  const { batch } = chain.rpc
  const isOther = ({ transactionHash }: Receipt) => transactionHash !== answer.hash
  const lying = async (method: string, said: unknown) => {
    if (method === 'eth_getBlockReceipts') return (said as Receipt[]).filter(isOther)
    const block = said as { hash: Hex; transactions: Hex[] } | null
    if (!/^eth_getBlockBy/.test(method) || block?.transactions.includes(answer.hash) !== true) return said
    const others = (await world.rpc<Receipt[]>('eth_getBlockReceipts', block.hash)).filter(isOther)
    const logsBloom = `0x${bloomOf(others.flatMap(({ logs }) => logs)).toString('hex')}`
    return { ...block, logsBloom, transactions: others.map(({ transactionHash }) => transactionHash) }
  }
  chain.rpc.batch = async (calls) => {
    const answers = structuredClone(await batch(calls))
    return Promise.all(answers.map((said, index) => lying(calls[index]!.method, said)))
  }
  let hidesBlock = true
  world.first.misbehave(async (method, params, next) => {
    if (method === 'eth_getTransactionReceipt' && params[0] === answer.hash) return null
    const said = await next()
    return hidesBlock ? lying(method, said) : said
  })
  await world.mine()
  await finalise()
  assert.equal(await world.countOf(writer), 1n)
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  const state = async () => (await readTransaction(world.first.app, writer, answer.id)).state
  assert.deepEqual([await state(), await stopped(writer)], ['SUBMITTED', 0])
  // The receipt remains hidden. The block is correct again, and shows whose transaction used the nonce.
  chain.rpc.batch = batch
  hidesBlock = false
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  world.first.misbehave(null)
  assert.deepEqual([await state(), await stopped(writer)], ['MINED', 0])
})

test('a write whose nonce somebody else used is FAILED with its proof, though the follower was shown nothing of it', async () => {
  const writer = await world.writer('used-unseen')
  await finalise()
  const { answer } = await world.add(world.first, writer, 1, 'k')
  await world.rpc('anvil_dropAllTransactions')
  const foreign = await useNonce(writer)
  // The account did not exist here when its block was followed.
  const address = fromHex(writer.address)
  const other = fromHex('0x00000000000000000000000000000000000000f1')
  await world.db.updateTable('accounts').set({ address: other }).where('address', '=', address).execute()
  await world.mine()
  await world.db.updateTable('accounts').set({ address }).where('address', '=', other).execute()
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED', 'not final yet')
  await finalise()
  // Without the states of older blocks, or with false counts, the block cannot be found.
  for (const count of [new RpcError(-32000, 'missing trie node', undefined), '0x0', '0x7', null]) {
    world.first.misbehave(async (method, params, next) => {
      if (method !== 'eth_getTransactionCount' || !/^0x/.test(String(params[1])) || count === null) return next()
      if (count instanceof RpcError) throw count
      return count
    })
    await sql`update attempts set broadcast_at = null`.execute(world.db)
    await keep()
    const { state } = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(state, count === null ? 'FAILED' : 'SUBMITTED')
  }
  world.first.misbehave(null)
  const lane = await world.db
    .selectFrom('stopped_lanes')
    .select('hash')
    .where('sender', '=', address)
    .executeTakeFirst()
  assert.equal(lane?.hash && toHex(lane.hash), foreign)
})

test('the keeper believes what the follower of the same process refuses as little: no false outcome of a write', async () => {
  const writer = await world.writer('keeper-believes')
  await world.add(world.first, writer)
  await world.mine()
  const { answer } = await world.add(world.first, writer, 10)
  const empty = await world.rpc<{ number: Hex; hash: Hex }>('eth_getBlockByNumber', 'latest', false)
  const { chain } = world.first
  const { batch } = chain.rpc
  const whole = { hash: answer.hash, from: writer.address, nonce: '0x1', type: '0x6a' }
  const block = (transaction: unknown) => ({
    ...empty,
    logsBloom: `0x${'00'.repeat(256)}`,
    transactions: [transaction],
  })
  const receipt = {
    ...{ transactionHash: answer.hash, blockHash: empty.hash, blockNumber: empty.number, from: writer.address },
    ...{ to: writer.address, status: '0x0', gasUsed: '0x5208', cumulativeGasUsed: '0x5208', effectiveGasPrice: '0x1' },
    ...{ logs: [], type: '0x6a' },
  }
  world.first.misbehave(async (method, params, next) => {
    if (method === 'eth_sendRawTransaction') throw new RpcError(-32000, 'nonce too low', undefined)
    if (method === 'eth_getTransactionReceipt' && params[0] === answer.hash) return receipt
    return method === 'eth_getBlockByHash' && params[0] === empty.hash ? block(whole) : next()
  })
  chain.rpc.batch = async (calls) =>
    calls[0]!.params[0] === empty.hash ? [block(answer.hash), [receipt]] : batch(calls)
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await keep()
  world.first.misbehave(null)
  chain.rpc.batch = batch
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
})

// The embedded database has only one connection, which nothing else can use during this test.
test(
  'what the follower takes back while the keeper looks at it is not marked',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  async () => {
    const writer = await world.writer('taken-back')
    const { answer } = await world.add(world.first, writer)
    await world.mine()
    const { receipt } = await readTransaction(world.first.app, writer, answer.id)
    // The database has lost the outcome, and the follower has passed the block.
    await sql`update transactions set state = 'SUBMITTED', block_number = null, block_hash = null, gas_used = null,
    effective_gas_price = null, succeeded = null where id = ${answer.id}`.execute(world.db)
    await sql`update attempts set broadcast_at = null where transaction_id = ${answer.id}`.execute(world.db)
    let isDone = false
    const isWaiting = async () =>
    (await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(world.db)).rows.length > 0 // prettier-ignore
    let kept: Promise<unknown> | undefined
    await world.db.transaction().execute(async (db) => {
      await db.selectFrom('cursors').select('chain_id').forUpdate().execute()
      await db.deleteFrom('blocks').where('number', '=', receipt!.blockNumber).execute()
      kept = keep().then(() => (isDone = true))
      await until('the keeper waits for the follower, or is done', async () => isDone || (await isWaiting()))
    })
    await kept
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  },
)

type Receipt = { transactionHash: Hex; logs: { address: Hex; topics: Hex[] }[] }

test('an account’s first write waits where the node counts too high, and starts where the chain proves it', async () => {
  const writer = await world.writer('beginner')
  world.first.misbehave(async (method, _params, next) => (method === 'eth_getTransactionCount' ? '0x5' : next()))
  await assert.rejects(world.add(world.first, writer, 1, 'first'), { code: 'chain_unavailable' })
  const rows = await world.db
    .selectFrom('transactions')
    .select('id')
    .where('sender', '=', fromHex(writer.address))
    .execute()
  assert.deepEqual(rows, [])
  world.first.misbehave(null)
  const { answer } = await world.add(world.first, writer, 1, 'first')
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
})

test('an account that was used before starts behind that, also where the node has no proofs', async () => {
  for (const hasProofs of [true, false]) {
    const writer = await world.writer(`imported-${hasProofs}`)
    await useNonce(writer)
    await world.mine()
    const { chain } = world.first
    const { batch } = chain.rpc
    if (!hasProofs)
      chain.rpc.batch = async (calls) => {
        const answers = await batch(calls)
        const missing = new RpcError(-32601, 'the method eth_getProof does not exist', undefined)
        return answers.map((one, index) => (calls[index]!.method === 'eth_getProof' ? missing : one))
      }
    const { answer } = await world.add(world.first, writer, 1)
    chain.rpc.batch = batch
    await world.mine()
    assert.equal(answer.tx.nonce, 1)
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
  }
})
