import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressOf, scriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { takeGroup, takeTransfers } from './apply.ts'
import { fetchBlock } from './fetch.ts'

const batchOf = (count: number): ScriptedTransfer => ({
  ...{ type: 'ERC1155', token: addressOf(0x70), from: addressOf(1), to: addressOf(2) },
  items: Array.from({ length: count }, (_, index) => ({ id: BigInt(index), value: 1n })),
})
const single = batchOf(1)

async function blocksOf(...blocks: ScriptedTransfer[][]) {
  const script = scriptedChain()
  const { rpc } = script.chain
  const mined = blocks.map((transfers) => script.mine({ from: addressOf(1), transfers }))
  return Promise.all(mined.map(({ hash }) => fetchBlock(rpc, hash, { hasBlockReceipts: true, verification: 'bloom' })))
}

test('transfers of blocks share a transaction up to 32 of them, or up to the rows that their batches can become', async () => {
  const sizes = async (...blocks: ScriptedTransfer[][]) => {
    const found: number[] = []
    for (let rest = await blocksOf(...blocks); rest.length > 0; rest = rest.slice(found.at(-1)!))
      found.push(takeTransfers(rest).length)
    return found
  }
  const repeated = (count: number, transfers: ScriptedTransfer[]) => Array.from({ length: count }, () => transfers)
  assert.deepEqual(await sizes(...repeated(70, [single])), [32, 32, 6])
  // Each block has 401 rows: itself and both sides of 200 transfers. A fifth block would make 2,005.
  assert.deepEqual(await sizes(...repeated(9, [batchOf(200)])), [4, 4, 1])
  assert.deepEqual(await sizes([single], [batchOf(1_000)], [single]), [1, 1, 1])
  assert.deepEqual(await sizes([batchOf(300), batchOf(300)], [single], [batchOf(500)], [single]), [2, 2])
})

test('what blocks made of transactions shares one whatever they logged: up to 32 blocks, or up to their transactions', async () => {
  const [loud] = await blocksOf([batchOf(1_000), batchOf(1_000)])
  const many = (count: number) => ({ ...loud!, receipts: Array.from({ length: count }, () => loud!.receipts[0]!) })
  const size = (...blocks: (typeof loud)[]) => takeGroup(blocks.map((block) => block!)).length
  assert.equal(size(...Array.from({ length: 40 }, () => loud)), 32)
  assert.equal(size(many(999), many(999), loud), 2)
  assert.equal(size(many(5_000), loud), 1)
})
