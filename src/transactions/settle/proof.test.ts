import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { keccak256 } from 'viem/utils'
import { until } from '../../../test/kit/until.ts'
import { writing, type Writing } from '../../../test/writing.ts'
import type { Rpc } from '../../chain/rpc/rpc.ts'
import type { Hex } from '../../ids.ts'
import { readTransaction } from '../read/read.ts'

// A follower that does not require proofs, and a node that reports false data about our own transactions.

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

type Fields = Record<string, unknown>
type Lie = (hashes: unknown[], receipts: Fields[]) => void

/** Makes the node lie in every block with transactions, until `work` is done. */
async function lied(lie: Lie, work: (lies: () => number) => Promise<void>): Promise<void> {
  const { rpc } = world.first.chain
  let lies = 0
  world.first.chain.rpc = {
    ...rpc,
    ...rpc,
    batch: async (calls, options) => {
      const answers = await rpc.batch(calls, options)
      const [block, receipts] = ['eth_getBlockByHash', 'eth_getBlockReceipts'].map((method) => answers[calls.findIndex((call) => call.method === method)]) // prettier-ignore
      if (Array.isArray(receipts) && receipts.length > 0) {
        lies++
        lie((block as { transactions: unknown[] }).transactions, receipts as Fields[])
      }
      return answers
    },
  }
  try {
    await work(() => lies)
  } finally {
    world.first.chain.rpc = rpc
  }
}

const LIES: Record<string, Lie> = {
  'that it failed': (_, [receipt]) => (receipt!.status = '0x0'),
  'that it used other gas': (_, [receipt]) => (receipt!.gasUsed = '0x1'),
  'that it used other gas, also in sum': (_, [receipt]) => (receipt!.gasUsed = receipt!.cumulativeGasUsed = '0x1'),
  'that it cost another price': (_, [receipt]) => (receipt!.effectiveGasPrice = '0x1'),
}
for (const [what, lie] of Object.entries(LIES)) {
  test(`a node that says of a write ${what} settles nothing, and an honest one settles it`, async () => {
    const writer = await world.writer(`lied ${what}`)
    const { answer } = await world.add(world.first, writer)
    await lied(lie, async (lies) => {
      await world.rpc('evm_mine')
      await until('it was lied to again and again', () => lies() > 4)
      assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
    })
    await world.followed()
    const { state, receipt } = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(state, 'MINED')
    const real = await world.rpc<Record<string, Hex>>('eth_getTransactionReceipt', answer.hash)
    assert.equal(BigInt(receipt!.gasUsed.hex), BigInt(real.gasUsed!))
    assert.equal(BigInt(receipt!.effectiveGasPrice.hex), BigInt(real.effectiveGasPrice!))
  })
}

test('a node that shows a write in the place of somebody else’s transaction settles nothing', async () => {
  const writer = await world.writer('in another’s place')
  const [, stranger] = await world.rpc<Hex[]>('eth_accounts')
  // The transaction never reaches the chain.
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.resolve(keccak256(params[0] as Hex)) : next(),
  )
  const { answer } = await world.add(world.first, writer)
  await world.rpc('eth_sendTransaction', { from: stranger, to: stranger, value: '0x1' })
  const lie: Lie = (transactions, receipts) => {
    const ours = { hash: answer.hash, from: writer.address, transactionHash: answer.hash }
    transactions[0] = typeof transactions[0] === 'string' ? answer.hash : { ...(transactions[0] as object), ...ours }
    Object.assign(receipts[0]!, ours)
  }
  await lied(lie, async (lies) => {
    await world.rpc('evm_mine')
    await until('it was lied to again and again', () => lies() > 4)
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  })
  await world.followed()
  world.first.misbehave(null)
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
})

test('a stranger’s transaction that the node calls one of an account’s own stops no account', async () => {
  const writer = await world.writer('called its own')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  const [, stranger] = await world.rpc<Hex[]>('eth_accounts')
  await world.rpc('eth_sendTransaction', { from: stranger, to: stranger, value: '0x1' })
  const lie: Lie = (transactions, receipts) => {
    if (typeof transactions[0] === 'object') Object.assign(transactions[0]!, { from: writer.address, nonce: '0x1' })
    receipts[0]!.from = writer.address
  }
  await lied(lie, async (lies) => {
    await world.rpc('evm_mine')
    await until('it was lied to again and again', () => lies() > 4)
  })
  await world.followed()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
  const { answer: next } = await world.add(world.first, writer)
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, next.id)).state, 'MINED')
})

test('the newest block is not asked for again by its hash, but for its transactions where it has some of ours and of others', async () => {
  const asked: unknown[] = []
  const { rpc } = world.first.chain
  const note = (method: string, params: unknown[]) => {
    if (method === 'eth_getBlockByHash') asked.push(params[1])
  }
  world.first.chain.rpc = {
    ...rpc,
    batch: (calls, options) => {
      for (const { method, params } of calls) note(method, params)
      return rpc.batch(calls, options)
    },
    call: ((method: string, params: unknown[], options?: { timeoutMs?: number }) => {
      note(method, params)
      return rpc.call(method, params, options)
    }) as Rpc['call'],
  }
  const [, stranger] = await world.rpc<Hex[]>('eth_accounts')
  await world.rpc('eth_sendTransaction', { from: stranger, to: stranger, value: '0x1' })
  await world.mine()
  assert.deepEqual(asked, [])
  // A block with only our transactions is proven by our own bytes.
  await world.add(world.first, await world.writer('asked for whole'))
  await world.mine()
  assert.deepEqual(asked, [])
  await world.add(world.first, await world.writer('asked for whole, beside a stranger'))
  await world.rpc('eth_sendTransaction', { from: stranger, to: stranger, value: '0x1' })
  await world.mine()
  assert.deepEqual(asked, [true])
  world.first.chain.rpc = rpc
})
