import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readHeader } from './answers.ts'
import { hasCode } from '../code.ts'
import { currentFees } from '../current-fees.ts'
import { newestBlock } from '../latest-block.ts'
import type { Block } from '../rpc/block.ts'
import type { Chain } from '../network.ts'
import { readAt } from '../reads.ts'
import { mapChainError, RpcError, RpcUnavailable, type Rpc } from './rpc.ts'
import { openedHead } from '../../../test/opened.ts'

const HASH = `0x${'AB'.repeat(32)}`
const good = { number: '0x10', hash: HASH, parentHash: `0x${'cd'.repeat(32)}`, timestamp: '0x65', baseFeePerGas: '0x7' }

const BAD: Record<string, unknown> = {
  'no block': null,
  'a text': 'pending',
  'a block that is not mined yet': { ...good, number: null, hash: null },
  'a decimal number': { ...good, number: 16 },
  'a number that is not exact': { ...good, number: '0x20000000000001' },
  'a short hash': { ...good, hash: '0xab' },
  'a hash of other letters': { ...good, hash: `0x${'zz'.repeat(32)}` },
  'no parent': { ...good, parentHash: undefined },
  'no time': { ...good, timestamp: undefined },
  'a fee that is none': { ...good, baseFeePerGas: '7' },
}

test('a header is read with its fee or without, in lower case, and not past the year 9999', () => {
  const header = { number: 16, hash: HASH.toLowerCase(), parentHash: good.parentHash, timestamp: 101, baseFee: 7n }
  assert.deepEqual(readHeader({ ...good, transactions: ['anything'] }), header)
  for (const baseFeePerGas of [null, undefined])
    assert.deepEqual(readHeader({ ...good, baseFeePerGas }), { ...header, baseFee: null })
  assert.equal(readHeader({ ...good, timestamp: '0xffffffffffff' }).timestamp, 253_402_300_799)
})

for (const [name, answer] of Object.entries(BAD)) {
  test(`a newest block that cannot be right is a node that is away, for readers as for the follower: ${name}`, async () => {
    assert.throws(() => readHeader(answer), { name: 'InvalidResponse' })
    const chain = { faucet: null, ...openedHead(), rpc: { call: async () => answer } } as unknown as Chain
    await assert.rejects(newestBlock(chain), (error) => {
      assert.ok(error instanceof RpcUnavailable)
      assert.equal((mapChainError(error) as { code: string }).code, 'chain_unavailable')
      return true
    })
    assert.equal(chain.head.current(), null)
  })
}

const block = (number: number, branch: string): Block => ({
  ...{ number, hash: `0x${branch.repeat(64)}`, parentHash: `0x${'0'.repeat(64)}`, timestamp: 1, baseFee: null },
})
/** A network whose node has this newest block and every other one, except for the lost ones. */
function chainAt(told: Block, lost: ReadonlySet<string> = new Set()): Chain {
  const call = async (method: string, params: unknown[]) => {
    if (method === 'eth_getBlockByNumber') return { ...told, number: `0x${told.number.toString(16)}`, timestamp: '0x1' }
    if (lost.has((params[1] as { blockHash: string }).blockHash)) throw new RpcError(-32000, 'unknown block', undefined)
    return '0x2a'
  }
  return { faucet: null, ...openedHead(), rpc: { call } } as unknown as Chain
}
const balanceOf = (chain: Chain) =>
  readAt(chain, 'latest', async (reads) => {
    await reads.balance(`0x${'11'.repeat(20)}`)
    return reads.block.hash
  })

test('a node with another block of the same height does not hide what was mined in ours', async () => {
  const [ours, theirs] = [block(16, 'a'), block(16, 'b')]
  const chain = chainAt(theirs)
  chain.head.set(ours)
  chain.head.ageMs = () => 1_000
  assert.equal(await balanceOf(chain), ours.hash)
  assert.equal(chain.head.current()!.hash, ours.hash)
})

test('a block that nobody knows any more gives way to another one of its height', async () => {
  const [ours, theirs] = [block(16, 'a'), block(16, 'b')]
  const chain = chainAt(theirs, new Set([ours.hash]))
  chain.head.set(ours)
  assert.equal(await balanceOf(chain), theirs.hash)
})

test('code is remembered until blocks are taken back; a delegation and an answer that is none never', async () => {
  let [code, asked]: [unknown, number] = ['0x60', 0]
  const chain = chainAt(block(1, 'a'))
  chain.rpc = { call: async () => (asked++, code) } as unknown as Rpc
  const address = `0x${'11'.repeat(20)}` as const
  chain.head.set(block(16, 'a'))
  assert.deepEqual([await hasCode(chain, address), await hasCode(chain, address), asked], [true, true, 1])
  chain.head.set({ ...block(17, 'b'), parentHash: block(16, 'a').hash })
  assert.deepEqual([await hasCode(chain, address), asked], [true, 1])
  chain.head.set({ ...block(18, 'd'), parentHash: block(17, 'b').hash })
  assert.deepEqual([await hasCode(chain, address), asked], [true, 1])
  code = '0x'
  chain.head.set({ ...block(17, 'c'), parentHash: block(16, 'a').hash })
  assert.equal(await hasCode(chain, address), false)
  code = `0xef0100${'22'.repeat(20)}`
  assert.equal(await hasCode(chain, address), true)
  code = '0x'
  assert.equal(await hasCode(chain, address), false)
  code = null
  await assert.rejects(hasCode(chain, address), RpcUnavailable)
  code = '0x'
  assert.equal(await hasCode(chain, address), false)
})

test('a price that is none is a node that is away', async () => {
  for (const baseFee of [7n, null]) {
    for (const nonsense of [null, '7', {}, '0x']) {
      const chain = { ...openedHead(), rpc: { call: async () => nonsense }, feeCapWei: 1n } as unknown as Chain
      await assert.rejects(currentFees(chain), RpcUnavailable)
      chain.head.set({ ...block(16, 'a'), baseFee })
      await assert.rejects(currentFees(chain), RpcUnavailable)
    }
  }
})

test('one question for the newest block that hangs holds nobody up', async () => {
  let asked = 0
  const chain = chainAt(block(16, 'a'))
  const { call } = chain.rpc
  chain.rpc = { call: (...of: Parameters<Rpc['call']>) => (asked++ === 0 ? new Promise(() => {}) : call(...of)) } as Rpc
  const blocks = await Promise.all([newestBlock(chain), newestBlock(chain), newestBlock(chain)])
  assert.deepEqual(new Set(blocks.map(({ number }) => number)), new Set([16]))
})
