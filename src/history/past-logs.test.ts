import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BadAnswer } from '../chain/failures.ts'
import { addressOf, scriptedChain } from '../../test/scripted-chain.ts'
import { fetchPast } from './past-logs.ts'

// A node that answers nonsense about final blocks: what it says is asked for again, never taken as "nothing there".

const [OURS, OTHER, TOKEN] = [addressOf(0xa1), addressOf(0xa2), addressOf(0x70)]

/** One block with a transfer and one of nothing. */
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
    'a sender that is no address',
    (method, right) => (method === 'eth_getTransactionByHash' ? { ...(right as object), from: '0x1' } : right),
  ],
]

for (const [what, change] of nonsense) {
  test(`${what} is no answer`, async () => {
    await assert.rejects(ask(change), BadAnswer)
  })
}
