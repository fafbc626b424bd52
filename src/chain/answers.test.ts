import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readHeader } from './answers.ts'
import { newestBlock } from './fresh.ts'
import { openHead } from './head.ts'
import type { Chain } from './network.ts'
import { mapChainError, RpcUnavailable } from './rpc.ts'

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
    assert.throws(() => readHeader(answer), { name: 'BadAnswer' })
    const chain = { faucet: null, head: openHead(Date.now), rpc: { call: async () => answer } } as unknown as Chain
    await assert.rejects(newestBlock(chain), (error) => {
      assert.ok(error instanceof RpcUnavailable)
      assert.equal((mapChainError(error) as { code: string }).code, 'chain_unavailable')
      return true
    })
    assert.equal(chain.head.current(), null)
  })
}
