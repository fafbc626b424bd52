import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import fc from 'fast-check'
import { AppError } from '../errors.ts'
import { currentFees } from './current-fees.ts'
import { noteFloor } from './fee-floor.ts'
import { highestPrice, nextFee, offer, type Fees } from './fees.ts'
import type { Hex } from '../ids.ts'
import type { Chain } from './network.ts'
import { RpcError } from './rpc/rpc.ts'
import { openedHead } from '../../test/opened.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

const GWEI = 10n ** 9n
const capReached = (error: unknown) => error instanceof AppError && error.code === 'fee_cap_reached'

test('an offer is twice the base fee and the tip, within the cap', () => {
  assert.deepEqual(offer({ baseFee: 10n, tip: 3n, cap: 100n }), {
    type: 'eip1559',
    maxFeePerGas: 23n,
    maxPriorityFeePerGas: 3n,
  })
  assert.deepEqual(offer({ baseFee: 10n, tip: 3n, cap: 15n }), {
    type: 'eip1559',
    maxFeePerGas: 15n,
    maxPriorityFeePerGas: 3n,
  })
  assert.throws(() => offer({ baseFee: 10n, tip: 3n, cap: 12n }), capReached)
  assert.deepEqual(offer({ baseFee: null, tip: 7n, cap: 7n }), { type: 'legacy', gasPrice: 7n })
})

/** Returns whether every node accepts a replacement: each field is higher, and at least 10 % higher. */
function outbids(next: Fees, previous: Fees): boolean {
  if (next.type === 'legacy' || previous.type === 'legacy')
    return highestPrice(next) * 10n >= highestPrice(previous) * 11n
  return (
    next.maxFeePerGas > previous.maxFeePerGas &&
    next.maxPriorityFeePerGas > previous.maxPriorityFeePerGas &&
    next.maxFeePerGas * 10n >= previous.maxFeePerGas * 11n &&
    next.maxPriorityFeePerGas * 10n >= previous.maxPriorityFeePerGas * 11n
  )
}

const eip1559 = fc
  .tuple(fc.bigInt(0n, 10n ** 14n), fc.bigInt(0n, 10n ** 14n))
  .map(([a, b]): Fees => ({ type: 'eip1559', maxFeePerGas: a > b ? a : b, maxPriorityFeePerGas: a > b ? b : a }))
const legacy = fc.bigInt(0n, 10n ** 14n).map((gasPrice): Fees => ({ type: 'legacy', gasPrice }))

test('a raised fee outbids the previous one in both fields, follows the market, and never passes the cap', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.tuple(eip1559, eip1559), fc.tuple(legacy, legacy)),
      fc.bigInt(1n, 10n ** 14n),
      ([previous, market], cap) => {
        let next: Fees
        try {
          next = nextFee(previous, market, cap)
        } catch (error) {
          assert.ok(capReached(error))
          assert.ok(highestPrice(previous) * 9n > cap * 8n - 16n, 'refused although there was room')
          return
        }
        assert.ok(highestPrice(next) <= cap)
        assert.ok(outbids(next, previous))
        assert.ok(highestPrice(next) >= (highestPrice(market) < cap ? highestPrice(market) : cap))
        if (next.type === 'eip1559') assert.ok(next.maxPriorityFeePerGas <= next.maxFeePerGas)
      },
    ),
    { numRuns: 2_000 },
  )
})

function fakeChain(baseFee: bigint | null, answers: Record<string, string | Error>): { chain: Chain; asked: string[] } {
  const opened = openedHead(stoppedClock())
  const { head } = opened
  head.set({ number: 1, hash: '0x01', parentHash: '0x00', timestamp: 0, baseFee })
  const asked: string[] = []
  const call = async (method: string) => {
    asked.push(method)
    const answer = answers[method]
    if (answer instanceof Error) throw answer
    return answer
  }
  return { chain: { ...opened, feeCapWei: 1_000n * GWEI, rpc: { call } } as unknown as Chain, asked }
}

test('the tip is asked once per block, however many want to know', async () => {
  const { chain, asked } = fakeChain(10n, { eth_maxPriorityFeePerGas: '0x3' })
  await Promise.all([currentFees(chain), currentFees(chain)])
  assert.deepEqual(await currentFees(chain), { type: 'eip1559', maxFeePerGas: 23n, maxPriorityFeePerGas: 3n })
  assert.equal(asked.length, 1)
  chain.head.set({ number: 2, hash: '0x02', parentHash: '0x01', timestamp: 0, baseFee: 20n })
  assert.equal(highestPrice(await currentFees(chain)), 43n)
  assert.equal(asked.length, 2)
})

test('a failure is not remembered for the block', async () => {
  const answers: Record<string, string | Error> = { eth_maxPriorityFeePerGas: new Error('away') }
  const { chain } = fakeChain(10n, answers)
  await assert.rejects(currentFees(chain), /away/)
  answers.eth_maxPriorityFeePerGas = '0x1'
  assert.equal(highestPrice(await currentFees(chain)), 21n)
})

test('a tip is believed up to its cap, whether the node names it or its gas price does: more is never paid above the real base fee', async () => {
  const dear: Record<string, unknown>[] = [{ eth_maxPriorityFeePerGas: '0x30' }, { eth_gasPrice: '0x3a' }]
  for (const answers of dear) {
    const { chain } = nodeWith(answers)
    assert.deepEqual(await currentFees({ ...chain, tipCapWei: 5n }), { type: 'eip1559', maxFeePerGas: 25n, maxPriorityFeePerGas: 5n }) // prettier-ignore
    // The cap of the whole price applies in addition.
    await assert.rejects(currentFees({ ...nodeWith(answers).chain, tipCapWei: 95n, feeCapWei: 50n }), capReached)
  }
  const { chain } = nodeWith({ eth_maxPriorityFeePerGas: '0x5' })
  assert.deepEqual(await currentFees({ ...chain, tipCapWei: 5n }), { type: 'eip1559', maxFeePerGas: 25n, maxPriorityFeePerGas: 5n }) // prettier-ignore
})

test('a network without base fees is asked for its gas price', async () => {
  const { chain, asked } = fakeChain(null, { eth_gasPrice: '0x5' })
  assert.deepEqual(await currentFees(chain), { type: 'legacy', gasPrice: 5n })
  assert.deepEqual(asked, ['eth_gasPrice'])
})

/** A node with a base fee of 10 and these methods. */
function nodeWith(answers: Record<string, unknown>) {
  const asked: string[] = []
  const call = async (method: string) => {
    asked.push(method)
    const answer = answers[method]
    if (answer instanceof Error) throw answer
    if (answer === undefined) throw new RpcError(-32601, `the method ${method} does not exist`, undefined)
    return answer
  }
  const opened = openedHead()
  const { head } = opened
  const batch = (calls: { method: string }[]) =>
    Promise.all(calls.map(({ method }) => call(method).catch((error: unknown) => error)))
  const hashOf = (number: number): Hex => `0x${String(number).padStart(64, '0')}`
  const mine = (number: number) =>
    head.set({ number, hash: hashOf(number), parentHash: '0x', timestamp: 0, baseFee: 10n })
  mine(1)
  const block = { number: '0x1', hash: hashOf(1), parentHash: hashOf(0), timestamp: '0x1', baseFeePerGas: '0xa' }
  answers.eth_getBlockByNumber ??= block
  return { chain: { ...opened, rpc: { call, batch }, feeCapWei: 100n } as unknown as Chain, asked, mine, block }
}

test('a node that suggests no tip is asked for its gas price: what that has above the base fee is the tip', async () => {
  const { chain, asked, mine } = nodeWith({ eth_gasPrice: '0xd' })
  assert.deepEqual(await currentFees(chain), { type: 'eip1559', maxFeePerGas: 23n, maxPriorityFeePerGas: 3n })
  mine(2)
  await currentFees(chain)
  const fallback = ['eth_gasPrice', 'eth_getBlockByNumber']
  assert.deepEqual(asked, ['eth_maxPriorityFeePerGas', ...fallback, ...fallback])
  const low = nodeWith({ eth_gasPrice: '0x9' })
  assert.deepEqual(await currentFees(low.chain), { type: 'eip1559', maxFeePerGas: 20n, maxPriorityFeePerGas: 0n })
})

test('fees begin at what a pool named as the least within the cap, each for ten minutes; a base fee that it named holds for that block', async () => {
  const { chain, mine } = nodeWith({ eth_maxPriorityFeePerGas: '0x3' })
  const clock = stoppedClock()
  Object.assign(chain, { clock })
  const fees = async () => {
    const { maxFeePerGas, maxPriorityFeePerGas } = (await currentFees(chain)) as Extract<Fees, { type: 'eip1559' }>
    return [maxFeePerGas, maxPriorityFeePerGas]
  }
  assert.deepEqual(await fees(), [23n, 3n])
  noteFloor(chain, { tip: 25n })
  assert.deepEqual(await fees(), [45n, 25n], 'in the same block')
  noteFloor(chain, { baseFee: 30n })
  assert.deepEqual(await fees(), [85n, 25n])
  mine(2)
  assert.deepEqual(await fees(), [45n, 25n])
  noteFloor(chain, { tip: 4n, price: 60n })
  assert.deepEqual(await fees(), [60n, 25n])
  // A single node's statement does not stop the network.
  noteFloor(chain, { tip: 101n, price: 101n, baseFee: 101n })
  assert.deepEqual(await fees(), [60n, 25n])
  await clock.advance(300_000)
  noteFloor(chain, { price: 60n })
  await clock.advance(300_001)
  mine(3)
  assert.deepEqual(await fees(), [60n, 3n], 'a tip that is named no more is believed no longer because a price is')
  await clock.advance(300_000)
  mine(4)
  assert.deepEqual(await fees(), [23n, 3n])
  const legacy = fakeChain(null, { eth_gasPrice: '0x5' })
  noteFloor(legacy.chain, { price: 9n })
  assert.deepEqual(await currentFees(legacy.chain), { type: 'legacy', gasPrice: 9n })
})

test('a gas price is compared with the base fee of its own moment, not with the one of our head', async () => {
  const dear = nodeWith({ eth_gasPrice: '0x47' })
  dear.block.baseFeePerGas = '0x40'
  assert.deepEqual(await currentFees(dear.chain), { type: 'eip1559', maxFeePerGas: 27n, maxPriorityFeePerGas: 7n })
  const cheap = nodeWith({ eth_gasPrice: '0x5' })
  cheap.block.baseFeePerGas = '0x1'
  assert.deepEqual(await currentFees(cheap.chain), { type: 'eip1559', maxFeePerGas: 24n, maxPriorityFeePerGas: 4n })
})

test('a node in trouble is not one that suggests no tip: nothing is made of its gas price', async () => {
  const answers: Record<string, unknown> = {
    eth_maxPriorityFeePerGas: new RpcError(-32603, 'internal error', undefined),
    eth_gasPrice: '0x40',
  }
  const { chain, asked } = nodeWith(answers)
  await assert.rejects(currentFees(chain), /internal error/)
  assert.deepEqual(asked, ['eth_maxPriorityFeePerGas'])
  answers.eth_maxPriorityFeePerGas = '0x3'
  assert.deepEqual(await currentFees(chain), { type: 'eip1559', maxFeePerGas: 23n, maxPriorityFeePerGas: 3n })
  const lame = nodeWith({ eth_gasPrice: new RpcError(-32603, 'internal error', undefined) })
  await assert.rejects(currentFees(lame.chain), /internal error/)
})

test('a tip made of a gas price is bounded by the cap; a node that is rate-limited is not asked twice', async () => {
  await assert.rejects(currentFees(nodeWith({ eth_gasPrice: '0xff' }).chain), capReached)
  const limited = nodeWith({
    eth_maxPriorityFeePerGas: new RpcError(-32005, 'limit exceeded', undefined),
    eth_gasPrice: '0xd',
  })
  await assert.rejects(currentFees(limited.chain), RpcError)
  assert.deepEqual(limited.asked, ['eth_maxPriorityFeePerGas'])
})
