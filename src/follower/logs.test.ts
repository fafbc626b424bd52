import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { InvalidResponse, RpcTooLarge } from '../chain/rpc/failures.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import { addressOf, scriptedChain, type ScriptedTransaction } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import type { Ours } from './block.ts'
import { fetchBlock } from './fetch.ts'
import type { ReceiptSource } from './receipt-source.ts'

// A node without eth_getBlockReceipts, and the calls that a block costs there.

type Fields = Record<string, unknown>

const [alice, bob] = [signerAt(1), signerAt(2)]
const moving = (value: bigint, reverted = false): ScriptedTransaction => ({
  from: value % 2n === 0n ? alice : bob,
  transfers: [
    { type: 'ERC20', token: addressOf(0x70), from: alice, to: bob, items: [{ id: null, value }] },
    // Each transfer is of a different token: the filter cannot show a missing log whose token it contains anyway.
    { type: 'ERC20', token: addressOf(0x1000 + Number(value)), from: bob, to: alice, items: [{ id: null, value }] },
  ],
  reverted,
})
const FIVE = [moving(1n), moving(2n, true), moving(3n), moving(4n), moving(5n)]

/** Creates the node, with its recorded calls and a hook to change its answers. */
function stage(transactions: ScriptedTransaction[] = FIVE) {
  const script = scriptedChain()
  script.faults.hasNoBlockReceipts = true
  const block = script.mine(...transactions)
  const asked: string[] = []
  const node: { change: (method: string, answer: unknown, params: unknown[]) => unknown } = {
    change: (_method, answer) => answer,
  }
  const { rpc } = script.chain
  const changing: Rpc = {
    ...rpc,
    call: async (method, params) => {
      asked.push(method)
      return node.change(method, await rpc.call(method, params), params) as never
    },
    batch: async (calls) => {
      asked.push(...calls.map(({ method }) => method))
      const answers = await rpc.batch(calls)
      return answers.map((answer, index) => node.change(calls[index]!.method, answer, calls[index]!.params))
    },
  }
  return { script, block, asked, node, rpc: changing }
}
const source = (more: Partial<ReceiptSource> = {}): ReceiptSource => ({
  ...{ hasBlockReceipts: false, verification: 'bloom', ...more },
})
const claimed = (...claimed: Ours['claimed']): Ours => ({ signed: new Map(), claimed })
const count = (asked: string[], method: string) => asked.filter((one) => one === method).length
const singly = (asked: string[]) => count(asked, 'eth_getTransactionReceipt')

test('a block of 200 transactions of others costs two calls, and 200 where its receipts are asked for', async () => {
  const { block, asked, rpc } = stage(Array.from({ length: 200 }, (_, index) => moving(BigInt(index))))
  await fetchBlock(rpc, block.hash, source())
  assert.deepEqual(asked.splice(0), ['eth_getBlockByHash', 'eth_getLogs'])
  await fetchBlock(rpc, block.hash, source({ hasBlockLogs: false }))
  assert.equal(singly(asked.splice(0)), 200)
  for (const verification of ['hash', 'count'] as const) {
    await fetchBlock(rpc, block.hash, source({ verification }))
    assert.deepEqual([singly(asked), count(asked.splice(0), 'eth_getLogs')], [200, 0], verification)
  }
})

test('logs tell of each transaction what its receipt tells, and who sent it; no log is asked for where there is none', async () => {
  const { script, block, asked, rpc } = stage()
  const byLogs = await fetchBlock(rpc, block.hash, source())
  const byReceipts = await fetchBlock(rpc, block.hash, source({ hasBlockLogs: false }))
  const told = ({ receipts }: typeof byLogs) =>
    receipts.map(({ transactionHash, from, logs }) => ({ transactionHash, from, logs }))
  assert.deepEqual(told(byLogs), told(byReceipts))
  assert.deepEqual(
    byLogs.receipts.map(({ status }) => status),
    Array<null>(5).fill(null),
  )
  const quiet = script.mine(...FIVE.map((one) => ({ ...one, transfers: [] })))
  asked.length = 0
  assert.equal((await fetchBlock(rpc, quiet.hash, source())).receipts.length, 5)
  assert.deepEqual(asked, ['eth_getBlockByHash'])
})

suite('logs that are not all of the block’s are not taken: its receipts are', () => {
  const wrong: Record<string, (logs: Fields[]) => unknown> = {
    'no list': () => null,
    none: () => [],
    'the last one left out': (logs) => logs.slice(0, -1),
    'one left out, the rest counted anew': (logs) => logs.toSpliced(1, 1).map((log, index) => ({ ...log, logIndex: `0x${index.toString(16)}` })), // prettier-ignore
    'one twice': (logs) => [...logs, logs[0]],
    'one of another block': ([first, ...rest]) => [{ ...first, blockHash: `0x${'ab'.repeat(32)}` }, ...rest],
    'one of a block that is gone': ([first, ...rest]) => [{ ...first, removed: true }, ...rest],
    'one of a transaction that the block does not hold': ([first, ...rest]) => [
      { ...first, transactionHash: `0x${'ab'.repeat(32)}` },
      ...rest,
    ],
    'one under another transaction': ([first, ...rest]) => [
      { ...first, transactionIndex: rest.at(-1)!.transactionIndex, transactionHash: rest.at(-1)!.transactionHash },
      ...rest,
    ],
    'one of another token': ([first, ...rest]) => [{ ...first, address: addressOf(0xbad) }, ...rest],
    'one with another topic': ([first, ...rest]) => [
      { ...first, topics: (first!.topics as string[]).toReversed() },
      { ...rest[0], topics: [`0x${'00'.repeat(32)}`] },
      ...rest.slice(1),
    ],
  }
  for (const [name, change] of Object.entries(wrong)) {
    test(name, async () => {
      const { block, asked, node, rpc } = stage()
      const honest = await fetchBlock(rpc, block.hash, source({ hasBlockLogs: false }))
      asked.length = 0
      node.change = (method, answer) =>
        method === 'eth_getLogs' ? change(structuredClone(answer) as Fields[]) : answer
      const asking = source()
      assert.deepEqual((await fetchBlock(rpc, block.hash, asking)).receipts, honest.receipts)
      assert.equal(singly(asked), 5)
      // Only this block's answer was wrong: logs are requested again.
      assert.equal(asking.hasBlockLogs, undefined)
    })
  }

  test('a round number of them, at which nodes cut lists short without a word, whatever the filter says', async () => {
    const { block, asked, rpc } = stage(Array.from({ length: 250 }, (_, index) => moving(BigInt(index))))
    await fetchBlock(rpc, block.hash, source())
    assert.deepEqual([count(asked, 'eth_getLogs'), singly(asked)], [1, 250])
  })

  test('in any order they are', async () => {
    const { block, asked, node, rpc } = stage()
    const honest = await fetchBlock(rpc, block.hash, source())
    node.change = (method, answer) => (method === 'eth_getLogs' ? (answer as Fields[]).toReversed() : answer)
    assert.deepEqual((await fetchBlock(rpc, block.hash, source())).receipts, honest.receipts)
    assert.equal(singly(asked), 0)
  })
})

suite('a node', () => {
  const failing = (error: RpcError) => {
    const staged = stage()
    staged.node.change = (method, answer) => (method === 'eth_getLogs' ? error : answer)
    return staged
  }

  test('that has no eth_getLogs by a block’s hash is remembered', async () => {
    const { block, asked, rpc } = failing(new RpcError(-32601, 'method not found', undefined))
    const asking = source()
    assert.equal((await fetchBlock(rpc, block.hash, asking)).receipts.length, 5)
    assert.equal((await fetchBlock(rpc, block.hash, asking)).receipts.length, 5)
    assert.deepEqual([count(asked, 'eth_getLogs'), singly(asked)], [1, 10])
  })

  test('that has too many of them for one answer is asked for receipts of that block', async () => {
    const { block, asked, rpc } = failing(new RpcError(-32005, 'query returned more than 10000 results', undefined))
    await assert.rejects(fetchBlock(rpc, block.hash, source()), RpcError)
    const other = failing(new RpcError(-32000, 'query returned more than 10000 results', undefined))
    assert.equal((await fetchBlock(other.rpc, other.block.hash, source())).receipts.length, 5)
    assert.deepEqual([singly(asked), singly(other.asked)], [0, 5])
    const large = stage()
    const { batch } = large.rpc
    large.rpc.batch = (calls) =>
      calls.some(({ method }) => method === 'eth_getLogs') ? Promise.reject(new RpcTooLarge()) : batch(calls)
    assert.equal((await fetchBlock(large.rpc, large.block.hash, source())).receipts.length, 5)
  })

  test('that is busy, or does not know the block, is asked again later', async () => {
    for (const error of [
      new RpcError(-32000, 'too many requests', undefined),
      new RpcError(-32000, 'unknown block', undefined),
    ]) {
      // prettier-ignore
      const { block, asked, rpc } = failing(error)
      await assert.rejects(fetchBlock(rpc, block.hash, source()), (thrown) => thrown === error)
      assert.equal(singly(asked), 0)
    }
  })

  test('that answers two blocks under one hash contradicts itself', async () => {
    const { block, node, rpc } = stage()
    const given = await rpc.call('eth_getBlockByHash', [block.hash, false])
    node.change = (method, answer) =>
      method === 'eth_getBlockByHash' ? { ...(answer as Fields), timestamp: '0x1' } : answer
    await assert.rejects(fetchBlock(rpc, block.hash, source(), given), /contradicts itself/)
    node.change = (method, answer) => (method === 'eth_getBlockByHash' ? null : answer)
    await assert.rejects(fetchBlock(rpc, block.hash, source(), given), /does not know the block/)
  })
})

suite('what is ours', () => {
  test('is proven with every receipt of its block where the network’s blocks can be', async () => {
    const { block, asked, rpc } = stage()
    const fetched = await fetchBlock(rpc, block.hash, source())
    const { hash, answer } = block.transactions[1]!
    const { nonces, receipts, doubt } = await fetched.prove(claimed(hash))
    assert.deepEqual([doubt, nonces.get(hash), singly(asked)], [null, Number(answer.nonce), 5])
    assert.deepEqual([receipts.get(hash)!.status, receipts.get(hash)!.gasUsed], [false, 21_000])
  })

  const lies: Record<string, (receipt: Fields) => void> = {
    'another outcome': (receipt) => (receipt.status = receipt.status === '0x1' ? '0x0' : '0x1'),
    'another gas': (receipt) => (receipt.cumulativeGasUsed = '0x1'),
    'another sender': (receipt) => (receipt.from = addressOf(0xbad)),
    'another block': (receipt) => (receipt.blockHash = `0x${'ab'.repeat(32)}`),
    'another transaction': (receipt) => (receipt.transactionHash = `0x${'ab'.repeat(32)}`),
    'another amount in a log': (receipt) => {
      for (const log of receipt.logs as Fields[]) log.data = `0x${'07'.repeat(32)}`
    },
  }
  for (const [name, lie] of Object.entries(lies))
    test(`is refused where a receipt says ${name}`, async () => {
      const { block, node, rpc } = stage()
      const fetched = await fetchBlock(rpc, block.hash, source())
      node.change = (method, answer) => {
        if (method !== 'eth_getTransactionReceipt') return answer
        const receipt = structuredClone(answer) as Fields
        lie(receipt)
        return receipt
      }
      await assert.rejects(fetched.prove(claimed(block.transactions[2]!.hash)), InvalidResponse)
    })

  test('shows an amount that no filter names: where ours is in the block, the logs have to be those of the receipts', async () => {
    const { block, node, rpc } = stage()
    node.change = (method, answer) =>
      method === 'eth_getLogs' ? (answer as Fields[]).map((log) => ({ ...log, data: `0x${'07'.repeat(32)}` })) : answer
    const fetched = await fetchBlock(rpc, block.hash, source())
    await assert.rejects(fetched.prove(claimed(block.transactions[2]!.hash)), /other logs/)
  })

  suite('on a network whose blocks are not Ethereum’s', () => {
    /** Simulates a network whose header hashes differently, so only one receipt is requested. */
    function elsewhere() {
      const staged = stage()
      const dressed = (method: string, answer: unknown) =>
        method === 'eth_getBlockByHash' ? { ...(answer as Fields), extraData: '0x' } : answer
      staged.node.change = dressed
      return { ...staged, dressed }
    }

    test('costs one receipt each', async () => {
      const { block, asked, rpc } = elsewhere()
      const fetched = await fetchBlock(rpc, block.hash, source())
      const [first, second] = [block.transactions[1]!, block.transactions[4]!]
      const { nonces, receipts, doubt } = await fetched.prove(claimed(first.hash, second.hash))
      assert.match(doubt!, /another hash/)
      assert.deepEqual([...receipts.keys()], [first.hash, second.hash])
      assert.deepEqual([...receipts.values()].map(({ status }) => status), [false, true]) // prettier-ignore
      assert.deepEqual([nonces.get(second.hash), singly(asked)], [Number(second.answer.nonce), 2])
    })

    for (const [name, lie] of [
      ...Object.entries(lies).filter(([one]) => one !== 'another gas'),
      ['null', null] as const,
    ])
      test(`is refused where a receipt says ${name}`, async () => {
        const { block, node, rpc, dressed } = elsewhere()
        const fetched = await fetchBlock(rpc, block.hash, source())
        node.change = (method, answer) => {
          if (method !== 'eth_getTransactionReceipt') return dressed(method, answer)
          const receipt = structuredClone(answer) as Fields
          lie?.(receipt)
          return lie === null ? null : receipt
        }
        await assert.rejects(fetched.prove(claimed(block.transactions[2]!.hash)), InvalidResponse)
      })

    test('is refused for a while on one whose blocks could be proven', async () => {
      const { script, block, node, rpc, dressed } = elsewhere()
      const asking = source()
      node.change = (_method, answer) => answer
      const before = script.mine(...FIVE)
      await (await fetchBlock(rpc, before.hash, asking)).prove(claimed(before.transactions[0]!.hash))
      node.change = dressed
      const fetched = await fetchBlock(rpc, block.hash, asking)
      await assert.rejects(fetched.prove(claimed(block.transactions[2]!.hash)), InvalidResponse)
    })
  })
})
