import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { RpcError } from '../chain/failures.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import { readTransaction } from './read.ts'
import { isUsedForGood } from './used.ts'

/** A nonce is given up for good only where the followed chain proves that it was used. */
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
const isUsed = ({ address: from }: Writer, nonce: number) =>
  isUsedForGood(world.first.app, world.first.chain, { id: 'tx_used', from, nonce })
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
    assert.equal(await isUsedForGood(world.first.app, { ...chain, rpc }, asked), false, what)
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
