import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidResponse, RpcTooLarge } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { addressOf, scriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { fetchPast, fetchWhole, isTooMuch, TooMuch } from './past-logs.ts'

// A node with invalid answers about final blocks: they are requested again, and never treated as empty.

const [OURS, OTHER, TOKEN] = [signerAt(1), signerAt(2), addressOf(0x70)]

/** Creates one block with a transfer and a transfer of zero. */
function chainWithTransfers() {
  const script = scriptedChain()
  const transfer = (value: bigint) => ({
    ...{ type: 'ERC20' as const, token: TOKEN, from: OURS, to: OTHER },
    items: [{ id: null, value }],
  })
  script.mine({ from: OURS, transfers: [transfer(5n), transfer(0n)] })
  return script
}

type Change = (method: string, answer: never) => unknown

function ask(change: Change) {
  const { rpc } = chainWithTransfers().chain
  const wrong = {
    ...rpc,
    batch: async (calls: { method: string; params: unknown[] }[]) =>
      (await rpc.batch(calls)).map((answer, index) => change(calls[index]!.method, answer as never)),
  }
  return fetchPast(wrong, { from: 1, to: 1, addresses: [OURS] })
}

const logsAs =
  (change: (log: Record<string, unknown>, index: number) => object): Change =>
  (method, answer) =>
    method === 'eth_getLogs' ? (answer as Record<string, unknown>[]).map(change) : answer

test('a node that tells the truth is read', async () => {
  const found = await ask((_method, answer) => answer)
  assert.deepEqual(
    found.map(({ value, sentBy }) => [value, sentBy]),
    [
      [5n, OURS],
      [0n, OURS],
    ],
  )
})

test('logs of other blocks than those asked for are not read, though the chain has them', async () => {
  for (const [from, to] of [
    [1, 1],
    [2, 2],
  ] as const)
    // prettier-ignore
    await assert.rejects(
      () => {
        const script = chainWithTransfers()
        script.mine({ from: OURS, transfers: [{ type: 'ERC20', token: TOKEN, from: OURS, to: OTHER, items: [{ id: null, value: 7n }] }] }) // prettier-ignore
        const { rpc } = script.chain
        const every = { fromBlock: '0x0', toBlock: '0x2' }
        const wide = {
          ...rpc,
          batch: (calls: { method: string; params: unknown[] }[]) =>
            rpc.batch(calls.map(({ method, params }) => ({ method, params: method === 'eth_getLogs' ? [{ ...(params[0] as object), ...every }] : params }))), // prettier-ignore
        }
        return fetchPast(wide, { from, to, addresses: [OURS] })
      },
      { name: 'InvalidResponse', message: 'a log lies outside the range' },
      String(from),
    )
})

let blocksAsked = 0
const nonsense: [string, Change][] = [
  ...[5, true, {}, 'no', []].map((answer): [string, Change] => [
    `${JSON.stringify(answer)} for the last block, and no logs`,
    (method, right) => (method === 'eth_getLogs' ? [] : method === 'eth_getBlockByNumber' ? answer : right),
  ]),
  [
    'another block for the last one, and no logs',
    (method, right) =>
      method === 'eth_getLogs'
        ? []
        : method === 'eth_getBlockByNumber'
          ? { ...(right as object), number: '0x0' }
          : right,
  ],
  ['two logs at one place', logsAs((log) => ({ ...log, logIndex: '0x0' }))],
  ['a short hash of a transaction', logsAs((log) => ({ ...log, transactionHash: '0x1' }))],
  ['a block number of 80 digits', logsAs((log) => ({ ...log, blockNumber: `0x${'0'.repeat(79)}1` }))],
  [
    'another transaction than the one asked for',
    (method, right) =>
      method === 'eth_getTransactionByHash' ? { ...(right as object), hash: `0x${'ab'.repeat(32)}` } : right,
  ],
  [
    'a block that logs stand in, unknown',
    (method, right) => {
      const isOne = method === 'eth_getBlockByNumber' && ++blocksAsked % 2 === 0
      return isOne ? null : right
    },
  ],
  ['a log of another chain', logsAs((log) => ({ ...log, blockHash: `0x${'ab'.repeat(32)}` }))],
  [
    'a log at a place that native currency has',
    logsAs((log, index) => (index === 0 ? { ...log, logIndex: '0x3b9aca00' } : log)),
  ],
  ['a log that was removed', logsAs((log) => ({ ...log, removed: true }))],
  ['a log below the range', logsAs((log) => ({ ...log, blockNumber: '0x0' }))],
  ['a log above the range', logsAs((log) => ({ ...log, blockNumber: '0x2' }))],
  ['null for a list of logs', (method, right) => (method === 'eth_getLogs' ? null : right)],
  ['null for the last block', (method, right) => (method === 'eth_getBlockByNumber' ? null : right)],
  [
    'a sender that is no address',
    (method, right) => (method === 'eth_getTransactionByHash' ? { ...(right as object), from: '0x1' } : right),
  ],
]

for (const [what, change] of nonsense) {
  test(`${what} is no answer`, async () => {
    await assert.rejects(ask(change), InvalidResponse)
  })
}

const coin = (from: Hex, to: Hex, value = 1n): ScriptedTransfer => ({
  ...{ type: 'ERC20', token: TOKEN, from, to },
  items: [{ id: null, value }],
})
const item = (from: Hex, to: Hex, ...ids: bigint[]): ScriptedTransfer => ({
  ...{ type: 'ERC1155', token: TOKEN, from, to },
  items: ids.map((id) => ({ id, value: 1n })),
})
const piece = (from: Hex, to: Hex): ScriptedTransfer => ({
  ...{ type: 'ERC721', token: TOKEN, from, to },
  items: [{ id: 9n, value: 1n }],
})

test('every kind of transfer, sent and received, is found once and in its place, and those of others are not', async () => {
  const script = scriptedChain()
  const third = addressOf(0xa3)
  script.mine()
  script.mine(
    { from: OTHER, transfers: [coin(OURS, OTHER), coin(OTHER, OURS), coin(OTHER, third), piece(OURS, OTHER)] },
    {
      from: OTHER,
      transfers: [piece(OTHER, OURS), item(OURS, OTHER, 1n), item(OTHER, OURS, 2n), item(third, OTHER, 3n)],
    },
  )
  const { number, hash, timestamp, transactions } = script.mine({
    from: OTHER,
    transfers: [item(OTHER, OURS, 4n, 5n), item(OURS, OTHER, 6n, 7n), coin(OURS, OURS)],
  })
  script.mine({ from: OTHER, transfers: [coin(OURS, OTHER)] })
  const found = await fetchPast(script.chain.rpc, { from: 2, to: 3, addresses: [OURS] })
  const places = found.map(({ block, logIndex, batchIndex }) => `${block.number}.${logIndex}.${batchIndex}`)
  assert.deepEqual(places.toSorted(), [
    '2.0.0',
    '2.1.0',
    '2.3.0',
    '2.4.0',
    '2.5.0',
    '2.6.0',
    '3.0.0',
    '3.0.1',
    '3.1.0',
    '3.1.1',
    '3.2.0',
  ])
  const last = found[places.indexOf('3.2.0')]!
  assert.deepEqual(
    [last.block.hash, last.block.number, last.block.timestamp, last.hash, last.sentBy],
    [hash, number, timestamp, transactions[0]!.hash, null],
  )
  const between = await fetchPast(script.chain.rpc, { from: 2, to: 3, addresses: [OURS, OTHER, third] })
  assert.equal(between.length, 13, 'what is in the lists of both sides is one transfer')
  const whole = await fetchWhole(script.chain.rpc, 3, { hasBlockReceipts: true, verification: 'hash' })
  assert.equal(whole.length, 5)
})

test('a block that the node lacks is not read whole', async () => {
  const { rpc } = chainWithTransfers().chain
  await assert.rejects(fetchWhole(rpc, 7, { hasBlockReceipts: true, verification: 'hash' }), InvalidResponse)
})

test('senders are asked fifty at a time, each once, and only of what moved nothing', async () => {
  const script = scriptedChain()
  const senders = Array.from({ length: 101 }, (_, index) => addressOf(0x1000 + index))
  script.mine(...senders.map((from) => ({ from, transfers: [coin(OURS, OTHER, 0n), coin(OURS, OTHER, 0n)] })), {
    from: OURS,
    transfers: [coin(OURS, OTHER, 5n)],
  })
  const sizes: number[] = []
  const { rpc } = script.chain
  const counting = {
    ...rpc,
    batch: (calls: { method: string; params: unknown[] }[]) => {
      if (calls[0]!.method === 'eth_getTransactionByHash') sizes.push(calls.length)
      return rpc.batch(calls)
    },
  }
  const found = await fetchPast(counting, { from: 1, to: 1, addresses: [OURS] })
  assert.deepEqual(sizes, [50, 50, 1])
  const expected = [...senders.flatMap((sender) => [sender, sender]), null]
  assert.deepEqual(
    found.map(({ sentBy }) => sentBy),
    expected,
  )
  // If one of the last fifty blocks is unknown, the whole answer is null.
  const failing = { ...rpc, batch: async (calls: Parameters<typeof rpc.batch>[0]) => (await rpc.batch(calls)).map((answer) => (calls.length === 1 ? new RpcError(-32000, 'pruned', undefined) : answer)) } // prettier-ignore
  await assert.rejects(fetchPast(failing, { from: 1, to: 1, addresses: [OURS] }), RpcError)
})

test('a list that ends at a multiple of five hundred may be cut short, any other is whole', async () => {
  for (const [logs, isWhole] of [
    [499, true],
    [500, false],
    [501, true],
    [1_000, false],
  ] as const) {
    const script = scriptedChain()
    script.mine({ from: OTHER, transfers: Array.from({ length: logs }, () => coin(OTHER, OURS)) })
    const asked = fetchPast(script.chain.rpc, { from: 1, to: 1, addresses: [OURS] })
    if (isWhole) assert.equal((await asked).length, logs)
    else await assert.rejects(asked, TooMuch)
  }
})

test('a node that limits requests in a time is waited for; any other refusal means less at once', async () => {
  const refusing = (error: RpcError) => ask((method, answer) => (method === 'eth_getLogs' ? error : answer))
  const hurried = [
    ...['rate limit', 'Rate-Limited', 'ratelimit', 'Too Many Requests', 'out of compute units', 'over capacity'],
    ...['request throttled', 'no credits left'],
  ]
  for (const text of hurried) {
    const error = new RpcError(-32005, text, undefined)
    await assert.rejects(refusing(error), (thrown) => thrown === error, text)
  }
  const coded = new RpcError(429, 'no', undefined)
  await assert.rejects(refusing(coded), (thrown) => thrown === coded)
  for (const text of ['query returned more than 10000 results', 'block range is too large', 'timeout']) {
    const error = new RpcError(-32005, text, undefined)
    await assert.rejects(refusing(error), (thrown) => thrown instanceof TooMuch && thrown.cause === error, text)
  }
})

test('less at once may help against limits, long answers and time-outs, and against nothing else', () => {
  assert.ok(isTooMuch(new TooMuch()))
  assert.ok(isTooMuch(new RpcTooLarge()))
  assert.ok(isTooMuch(new RpcUnavailable('slow', { timedOut: true })))
  assert.ok(!isTooMuch(new RpcUnavailable('away', { timedOut: false })))
  assert.ok(!isTooMuch(new InvalidResponse('nonsense')))
})
