import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { keccak256 } from 'viem/utils'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { toBound, type Attempt } from '../intent.ts'
import { readTransaction } from '../read/read.ts'
import { storeFill, storeFirst, storeReplacement } from '../lanes/store.ts'

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const rowOf = (id: string) =>
  world.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const read = (writer: Writer, id: string) => readTransaction(world.first.app, writer, id)

/** Mines a block in which every call of the probe fails. */
async function mineFailing(): Promise<void> {
  const code = await world.rpc<Hex>('eth_getCode', world.probe, 'latest')
  await world.rpc('anvil_setCode', world.probe, '0xfe')
  await world.mine()
  await world.rpc('anvil_setCode', world.probe, code)
}

/** Returns bytes that were signed and are stored late. */
const late = (what: string, isCancel: boolean): Attempt => ({
  raw: '0xc0ffee',
  hash: keccak256(Buffer.from(what)),
  gas: 21_000n,
  fees: { type: 'eip1559', maxFeePerGas: 9n, maxPriorityFeePerGas: 9n },
  isCancel,
})

for (const ending of ['MINED', 'REVERTED', 'FINALIZED'] as const) {
  for (const isCancel of [false, true]) {
    test(`what is stored late, ${isCancel ? 'a cancel' : 'a higher fee'}, changes nothing of a transaction that is ${ending}`, async () => {
      const { app, chain } = world.first
      const writer = await world.writer(`late ${ending} ${isCancel}`)
      const { answer } = await world.add(world.first, writer)
      await (ending === 'REVERTED' ? mineFailing() : world.mine())
      if (ending === 'FINALIZED') for (let block = 0; block < 4; block++) await world.mine()
      const before = await rowOf(answer.id)
      assert.equal(before.state, ending)
      assert.equal(toHex(before.hash!), answer.hash)
      const bound = toBound(before)
      for (const store of [storeReplacement, storeFill, storeFirst]) {
        const attempt = late(`${answer.id} ${store.name}`, isCancel)
        await store(app, chain, bound, attempt)
        assert.deepEqual(await rowOf(answer.id), before, store.name)
        // The bytes are retained: nodes' pools have them, and their hash may still be requested.
        const kept = await world.db.selectFrom('attempts').select('transaction_id').where('hash', '=', fromHex(attempt.hash)).execute() // prettier-ignore
        assert.deepEqual(kept, [{ transaction_id: answer.id }])
      }
      assert.equal((await read(writer, answer.id)).hash, answer.hash)
    })
  }
}

test('what a write used and paid is stored as its receipt says, of one that succeeded and of one that failed', async () => {
  const writer = await world.writer('receipts')
  const { answer: good } = await world.add(world.first, writer)
  await world.mine()
  const { answer: bad } = await world.add(world.first, writer)
  await mineFailing()
  for (const [{ id, hash }, status] of [
    [good, '0x1'],
    [bad, '0x0'],
  ] as const) {
    const real = await world.rpc<Record<string, Hex>>('eth_getTransactionReceipt', hash)
    assert.equal(real.status, status)
    const { receipt } = await read(writer, id)
    assert.equal(receipt!.status, status === '0x1' ? 'SUCCESS' : 'REVERTED')
    assert.equal(BigInt(receipt!.gasUsed.hex), BigInt(real.gasUsed!))
    assert.equal(BigInt(receipt!.effectiveGasPrice.hex), BigInt(real.effectiveGasPrice!))
    assert.equal(receipt!.blockHash, real.blockHash)
    const row = await rowOf(id)
    assert.equal(toHex(row.hash!), hash)
    assert.deepEqual([row.block_number, row.gas_used], [Number(real.blockNumber), Number(real.gasUsed)])
    assert.deepEqual(fromHex(real.blockHash!), Buffer.from(row.block_hash!))
  }
})

test('a write is final with its own block, and not with the one below', async () => {
  const writer = await world.writer('edge')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  const { block_number: mined } = await rowOf(answer.id)
  const finalized = async () =>
    (await world.db.selectFrom('cursors').select('finalized_number').executeTakeFirstOrThrow()).finalized_number
  while ((await finalized()) < mined! - 1) await world.mine()
  assert.equal(await finalized(), mined! - 1)
  assert.equal((await read(writer, answer.id)).state, 'MINED')
  assert.equal((await read(writer, answer.id)).isFinal, false)
  await world.mine()
  assert.equal(await finalized(), mined)
  assert.equal((await read(writer, answer.id)).state, 'FINALIZED')
  assert.equal((await read(writer, answer.id)).isFinal, true)
})
