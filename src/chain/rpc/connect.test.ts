import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Hex } from '../../ids.ts'
import { badNode, hashOf, type BadNode } from '../../../test/bad-node.ts'
import { connect } from './connect.ts'
import { isUnknownBlock } from './errors.ts'
import { WrongChain } from './failures.ts'
import { RpcError, type Rpc } from './rpc.ts'
import { systemClock } from '../../clock.ts'

const SOMEBODY = `0x${'11'.repeat(20)}`

async function connected(t: TestContext, ...nodes: BadNode[]): Promise<{ rpc: Rpc; events: string[] }> {
  const events: string[] = []
  const { rpc } = await connect(
    nodes.map(({ url }) => url),
    {
      clock: systemClock,
      wantedChainId: undefined,
      onCall: () => {},
      onNode: (position, event) => void events.push(`${position} ${event}`),
      probeEveryMs: 20,
    },
  )
  t.after(() => rpc.close())
  for (const node of nodes) node.asked.length = 0
  return { rpc, events }
}

const balanceAt = (rpc: Rpc, number: number): Promise<unknown> =>
  rpc.call('eth_getBalance', [SOMEBODY, { blockHash: hashOf(number) }])

/** Message of ganache 7. */
const takesNumbersOnly: BadNode['answer'] = ({ params }) =>
  params.some((one) => typeof one === 'object' && one !== null && 'blockHash' in one)
    ? { error: { code: -32700, message: 'Cannot wrap a "object" as a json-rpc type' } }
    : undefined

test('a node that takes block numbers only is read by number, the hash checked before and after', async (t) => {
  const node = await badNode(t, { answer: takesNumbersOnly })
  const { rpc, events } = await connected(t, node)
  assert.deepEqual(events, ['1 reads_by_number'])
  assert.equal(await balanceAt(rpc, 100), '0x2a')
  assert.deepEqual(
    node.asked.map(({ method, params }) => `${method} ${params.filter((one) => typeof one === 'string').at(-1)}`),
    [
      `eth_getBlockByHash ${hashOf(100)}`,
      'eth_getBlockByNumber 0x64',
      'eth_getBalance 0x64',
      'eth_getBlockByNumber 0x64',
    ],
  )
  const [one, other, none] = await rpc.batch([
    { method: 'eth_getBalance', params: [SOMEBODY, { blockHash: hashOf(99) }] },
    { method: 'eth_chainId', params: [] },
    { method: 'eth_getBalance', params: [SOMEBODY, { blockHash: hashOf(500) }] },
  ])
  assert.deepEqual([one, other], ['0x2a', '0x7a69'])
  assert.ok(none instanceof RpcError && isUnknownBlock(none), 'a block that nobody knows is one')
})

for (const when of ['before', 'after'] as const)
  test(`what such a node says counts only if the block was the wanted one ${when} it, too`, async (t) => {
    let isOther = false
    let checks = 0
    const node = await badNode(t)
    node.answer = (call) => {
      if (call.method === 'eth_getBlockByNumber' && isOther && ++checks === (when === 'before' ? 1 : 2))
        return { result: { number: '0x64', hash: hashOf(0xdead), parentHash: hashOf(99), timestamp: '0x1' } }
      return takesNumbersOnly(call)
    }
    const { rpc } = await connected(t, node)
    isOther = true
    await assert.rejects(balanceAt(rpc, 100), (error) => error instanceof RpcError && isUnknownBlock(error))
    isOther = false
    assert.equal(await balanceAt(rpc, 100), '0x2a')
  })

test('a node that takes hashes is not asked for more than what is wanted', async (t) => {
  const node = await badNode(t)
  const { rpc, events } = await connected(t, node)
  assert.equal(await balanceAt(rpc, 100), '0x2a')
  assert.deepEqual([events, node.asked.length], [[], 1])
})

const lacking =
  (...methods: string[]): BadNode['answer'] =>
  ({ method }) =>
    methods.includes(method) ? { error: { code: -32601, message: 'Method not found' } } : undefined

test('a node that lacks what it must have is refused by the names of the methods, and without its address', async (t) => {
  const node = await badNode(t, { answer: lacking('eth_estimateGas', 'eth_sendRawTransaction') })
  await assert.rejects(connected(t, node), (error: Error) => {
    assert.match(error.message, /^no node supports eth_estimateGas, eth_sendRawTransaction: docs\/operate\/nodes\.md/)
    assert.doesNotMatch(error.message, /http|kkk/)
    return true
  })
})

test('of several nodes one has to have each method', async (t) => {
  const one = await badNode(t, { answer: lacking('eth_estimateGas') })
  const other = await badNode(t, { answer: lacking('eth_getCode') })
  await connected(t, one, other)
  other.answer = lacking('eth_estimateGas', 'eth_getCode')
  await assert.rejects(connected(t, one, other), /no node supports eth_estimateGas:/)
})

test('a single node that was away is asked and sent nothing until it has shown that it is the same chain', async (t) => {
  const node = await badNode(t)
  const { rpc, events } = await connected(t, node)
  const genesis: Hex = node.genesis as Hex
  node.interfere = (_calls, response) => (response.destroy(), true)
  await assert.rejects(balanceAt(rpc, 100))
  node.interfere = () => false
  node.genesis = hashOf(0xbad)
  node.asked.length = 0
  for (const method of ['eth_sendRawTransaction', 'eth_getBalance', 'eth_getBlockByNumber'])
    await assert.rejects(rpc.call(method, ['0x02', 'latest']), WrongChain)
  assert.deepEqual(
    new Set(node.asked.map(({ method, params }) => `${method} ${String(params[0])}`)),
    new Set(['eth_chainId undefined', 'eth_getBlockByNumber 0x0']),
  )
  assert.deepEqual(events, ['1 wrong_chain'], 'told once')
  node.genesis = genesis
  assert.equal(await balanceAt(rpc, 100), '0x2a')
  node.asked.length = 0
  assert.equal(await balanceAt(rpc, 99), '0x2a')
  assert.equal(node.asked.length, 1, 'and is then believed again')
})
