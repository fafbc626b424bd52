import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { countAll } from './chain-counts.ts'
import { StartError } from '../refusal.ts'

type Call = { id: number; method: string; params: string[] }
type Answer = (calls: Call[]) => unknown

let answer: Answer
const server = createServer(async (request, response) => {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  response.end(JSON.stringify(answer(JSON.parse(Buffer.concat(parts).toString()) as Call[])))
})
before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
after(() => server.close())

const ACCOUNT = 'ab'.repeat(20)
const count = () => countAll(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, [ACCOUNT])
const right = ({ id, method, params }: Call) => ({
  id,
  result: method === 'eth_chainId' ? '0x1' : params[1] === 'latest' ? '0x5' : '0x7',
})

test('the higher of the two counts is the floor', async () => {
  answer = (calls) => calls.map(right)
  assert.deepEqual(await count(), { chainId: 1, floors: [{ address: ACCOUNT, chainId: 1, nonce: 7 }] })
})

const onCounts =
  (wrong: Answer): Answer =>
  (calls) =>
    calls[0]!.method === 'eth_chainId' ? calls.map(right) : wrong(calls)

const nonsense: [string, Answer][] = [
  ['nothing', () => null],
  ['an empty batch', () => []],
  ['null in the batch', onCounts((calls) => calls.map(() => null))],
  ['an answer too few', onCounts((calls) => calls.slice(1).map(right))],
  ['two answers to one call', onCounts((calls) => [...calls.map(right), { id: 1, result: '0x0' }])],
  ['the ids as texts', onCounts((calls) => calls.map(right).map((one) => ({ ...one, id: String(one.id) })))],
  ...[null, '', '0x', 5, '0x20000000000000', '-0x1', {}].map((result): [string, Answer] => [
    `${JSON.stringify(result)} for a count`,
    onCounts((calls) => calls.map(right).map((one) => ({ ...one, result }))),
  ]),
]
for (const [what, wrong] of nonsense) {
  test(`${what} is no floor`, async () => {
    answer = wrong
    await assert.rejects(count(), StartError)
  })
}
