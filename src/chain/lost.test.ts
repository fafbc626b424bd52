import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../test/kit/until.ts'
import type { Hex } from '../ids.ts'
import { newestBlock } from './latest-block.ts'
import { hasLost } from './lost.ts'
import type { Chain } from './network.ts'
import { openedHead } from '../../test/opened.ts'

const hashOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`
const header = (number: number) => ({
  number: `0x${number.toString(16)}`,
  hash: hashOf(number),
  parentHash: hashOf(number - 1),
  timestamp: '0x1',
})

/** A network whose node has one newest block, and knows blocks up to another number by hash. */
function place(settings: Partial<Chain>) {
  const node = { newest: 10, knows: 10, asked: [] as string[] }
  const call = async (method: string, [what]: unknown[]) => {
    node.asked.push(method)
    if (method === 'eth_getBlockByNumber') return header(node.newest)
    return Number(what) <= node.knows ? header(Number(what)) : null
  }
  const chain = {
    faucet: null,
    ...openedHead(),
    rpc: { call },
    ...settings,
  } as unknown as Chain
  return { node, chain }
}
const ours = { number: 10, hash: hashOf(10) }

test('a lower head is lag, until it has stayed for a while and our block is unknown', async () => {
  const { node, chain } = place({ lostAfterMs: 30 })
  node.newest = node.knows = 7
  assert.equal(await hasLost(chain, ours, { number: 7 }), false)
  assert.deepEqual(node.asked, [], 'nothing is asked before it has stayed')
  await until('it counts as lost', () => hasLost(chain, ours, { number: 7 }))
  assert.equal(await hasLost(chain, ours, { number: 10 }), false)
  assert.equal(await hasLost(chain, ours, { number: 7 }), false, 'the time begins anew')
})

test('a node that still knows our block lags, however long', async () => {
  const { node, chain } = place({ lostAfterMs: 0 })
  node.newest = 7
  assert.equal(await hasLost(chain, ours, { number: 7 }), false)
  assert.deepEqual(node.asked, ['eth_getBlockByHash'])
})

test('in development a snapshot that was reverted moves reads back at once', async () => {
  const { node, chain } = place({ isDevelopment: true })
  assert.equal((await newestBlock(chain)).number, 10)
  node.newest = node.knows = 7
  assert.equal((await newestBlock(chain)).number, 7)
  assert.equal(chain.head.current()?.number, 7)
})

test('elsewhere reads stay at what was shown before, and that head grows old', async () => {
  const { node, chain } = place({})
  assert.equal((await newestBlock(chain)).number, 10)
  node.newest = node.knows = 7
  assert.equal((await newestBlock(chain, { maxAgeMs: 0 })).number, 10)
  const age = chain.head.ageMs()
  await until('time has passed', () => chain.head.ageMs() > age)
  assert.equal((await newestBlock(chain, { maxAgeMs: 0 })).number, 10)
  assert.ok(chain.head.ageMs() > age, 'a lower head confirms nothing')
})
