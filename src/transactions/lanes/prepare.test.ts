import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { encodeErrorResult } from 'viem'
import { fakeChain, type Says } from '../../../test/fake-chain.ts'
import { parseAbi } from '../../abi/parse.ts'
import type { App } from '../../app.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { gasStrategy } from './gas.ts'
import type { Intent } from '../intent.ts'
import { prepareFromAccount } from './prepare.ts'

/** Cost and refusals of a write, with a node whose responses the test defines. */
const FROM: Hex = `0x${'a1'.repeat(20)}`
const TO: Hex = `0x${'b2'.repeat(20)}`
const { function: fn } = parseAbi('add(uint256)')
const call: Intent = { to: TO, data: '0xc0ffee', value: 3n, abi: '', fn, errors: [] }
/** 2 × base fee of 10 and a tip of 2, wei per gas */
const PRICE = 22n
const hex = (value: bigint): Hex => `0x${value.toString(16)}`
/** cost of `call` for an estimate of 40,000 */
const COST = 3n + 60_000n * PRICE

function network(says: Record<string, Says> = {}) {
  const fake = fakeChain({
    eth_estimateGas: () => hex(40_000n),
    eth_getBalance: () => hex(10n ** 18n),
    eth_maxPriorityFeePerGas: () => '0x2',
    eth_getCode: () => '0x60',
    ...says,
  })
  fake.mine(1)
  return fake
}
const refused = (code: ErrorCode) => (error: unknown) => error instanceof AppError && error.code === code
const reverted = (reason = 'no') =>
  new RpcError(3, 'execution reverted', encodeErrorResult({ abi: [{ type: 'error', name: 'Error', inputs: [{ type: 'string', name: '' }] }], args: [reason] })) // prettier-ignore

test('the limit is a quarter and 10,000 above the estimate, at most what a network takes, and never below the estimate', async () => {
  for (const [estimate, limit] of [
    [21_000n, 36_250n],
    [40_000n, 60_000n],
    [13_413_772n, 16_777_215n],
    [13_413_773n, 16_777_216n],
    [13_413_774n, 16_777_216n],
    [16_777_216n, 16_777_216n],
    [16_777_217n, 16_777_217n],
  ] as const) {
    const { chain } = network({ eth_estimateGas: () => hex(estimate) })
    assert.deepEqual(await prepareFromAccount(chain, FROM, call), {
      terms: { gas: limit, fees: { type: 'eip1559', maxFeePerGas: PRICE, maxPriorityFeePerGas: 2n } },
      budget: { available: 10n ** 18n, paidBelow: 0 },
      fund: null,
    })
  }
})

test('a function that uses more gas when it has more is given what it uses then: an inner call ran out of gas unseen; it is looked at once', async () => {
  const used = (gas: bigint) => [{ calls: [{ status: '0x1', gasUsed: hex(gas) }] }]
  type Simulated = { blockStateCalls: [{ calls: [{ gas: string; data: Hex }] }] }
  const callIn = (asked: unknown) => (asked as Simulated).blockStateCalls[0].calls[0]
  const simulated = ([asked]: unknown[]) => {
    const { gas, data } = callIn(asked)
    // It continues after its inner call fails, which has too little gas below 240,000.
    return used(data === '0xc0ffee' && BigInt(gas) >= 240_000n ? 200_000n : 40_000n)
  }
  const { chain, asked } = network({ eth_simulateV1: simulated })
  assert.equal((await prepareFromAccount(chain, FROM, call)).terms.gas, (266_666n * 5n) / 4n + 10_000n)
  assert.deepEqual(asked('eth_simulateV1').map(([one]) => BigInt(callIn(one).gas)), [60_000n, 16_777_216n]) // prettier-ignore
  const even: Intent = { ...call, data: '0xdeadbeef' }
  for (const _ of [1, 2]) assert.equal((await prepareFromAccount(chain, FROM, even)).terms.gas, 60_000n)
  assert.equal(asked('eth_simulateV1').length, 4)
  // A caller's own limit, and a plain transfer, are not changed.
  await prepareFromAccount(chain, FROM, { ...call, gas: 70_000n })
  await prepareFromAccount(chain, FROM, { ...call, data: '0x' })
  assert.equal(asked('eth_simulateV1').length, 4)
  // Responses without a usable result change nothing.
  for (const says of [
    () => null,
    () => [{ calls: [{ status: '0x0', gasUsed: '0x1' }] }],
    () => [{}],
    () => new RpcError(-32000, 'no', undefined),
  ])
    // prettier-ignore
    assert.equal((await prepareFromAccount(network({ eth_simulateV1: says }).chain, FROM, call)).terms.gas, 60_000n)
  const without = network()
  for (const _ of [1, 2]) await prepareFromAccount(without.chain, FROM, call)
  assert.equal(without.asked('eth_simulateV1').length, 2, 'one that lacks it is not asked again')
})

test('what is simulated is the call itself, by its sender, at the newest block', async () => {
  const { chain, asked } = network()
  await prepareFromAccount(chain, FROM, call)
  assert.deepEqual(asked('eth_estimateGas'), [[{ from: FROM, to: TO, data: '0xc0ffee', value: '0x3' }, 'latest']])
  assert.deepEqual(asked('eth_getBalance'), [[FROM, 'latest']])
  assert.deepEqual(asked('eth_getCode'), [[TO, 'latest']])
})

test('a call needs code at its address, a transfer of coins does not', async () => {
  const { chain, asked } = network({ eth_getCode: () => '0x' })
  await assert.rejects(prepareFromAccount(chain, FROM, call), (error: unknown) => {
    assert.ok(refused('no_contract')(error))
    assert.deepEqual([(error as AppError).errors![0]!.pointer, (error as AppError).errors![0]!.code], ['/address', 'no_code']) // prettier-ignore
    return true
  })
  assert.equal((await prepareFromAccount(chain, FROM, { ...call, fn: null, data: '0x' })).terms.gas, 60_000n)
  assert.equal(asked('eth_getCode').length, 1)
})

test('coins for value and the whole limit are enough to the last wei, and one less is refused with what is missing', async () => {
  let balance = COST
  const { chain, asked } = network({ eth_getBalance: () => hex(balance) })
  assert.equal((await prepareFromAccount(chain, FROM, call)).terms.gas, 60_000n)
  assert.equal(asked('eth_getBalance').length, 1)
  const poor = network({ eth_getBalance: () => hex(balance) })
  balance = COST - 1n
  await assert.rejects(prepareFromAccount(poor.chain, FROM, call), (error: unknown) => {
    assert.ok(refused('insufficient_funds')(error))
    const { address, needed, available } = (error as AppError).funds!
    assert.deepEqual([address.toLowerCase(), needed, available], [FROM, String(COST), String(COST - 1n)])
    return true
  })
  assert.equal(poor.asked('eth_getBalance').length, 2, 'asked again before anybody is refused')
  // The balance is sufficient when it is read again.
  let times = 0
  const richer = network({ eth_getBalance: () => hex(times++ === 0 ? 0n : COST) })
  assert.equal((await prepareFromAccount(richer.chain, FROM, call)).terms.gas, 60_000n)
})

test('a node that will not estimate for want of coins says at least what the value is above', async () => {
  const says = () => new RpcError(-32000, 'insufficient funds for gas * price + value', undefined)
  const { chain } = network({ eth_estimateGas: says, eth_getBalance: () => '0x2' })
  await assert.rejects(prepareFromAccount(chain, FROM, call), (error: unknown) => {
    assert.ok(refused('insufficient_funds')(error))
    assert.deepEqual([(error as AppError).funds!.needed, (error as AppError).funds!.available], ['4', '2'])
    return true
  })
})

test('on a development chain who is short is given coins once, and refused when that was not enough', async () => {
  for (const given of [COST, 1n]) {
    let balance = 0n
    let times = 0
    const { chain } = network({ eth_getBalance: () => hex(balance), eth_getTransactionCount: () => '0x0' })
    const app = {} as App
    const caller = { address: FROM } as Caller
    chain.faucet = async (address) => {
      assert.equal(address, FROM)
      times++
      balance += given
    }
    const prepare = () => gasStrategy(chain).prepare({ app, chain, caller, intent: call })
    if (given === COST) assert.equal((await prepare()).terms.gas, 60_000n)
    else await assert.rejects(prepare(), refused('insufficient_funds'))
    assert.equal(times, 1)
  }
})

test('what an account has is asked once a block, and again where the node did not say or no block is known', async () => {
  let says: unknown = hex(10n ** 18n)
  const { chain, asked, mine } = network({ eth_getBalance: () => says })
  const count = () => asked('eth_getBalance').length
  const other: Hex = `0x${'a2'.repeat(20)}`
  await prepareFromAccount(chain, FROM, call)
  await prepareFromAccount(chain, FROM, call)
  assert.equal(count(), 1)
  await prepareFromAccount(chain, other, call)
  assert.equal(count(), 2)
  mine(2)
  says = new RpcUnavailable('away', { timedOut: false })
  await assert.rejects(prepareFromAccount(chain, FROM, call), refused('chain_unavailable'))
  assert.equal(count(), 3)
  says = hex(10n ** 18n)
  await prepareFromAccount(chain, FROM, call)
  assert.equal(count(), 4)
  const headless = fakeChain({
    ...{ eth_estimateGas: () => hex(40_000n), eth_getBalance: () => says, eth_getCode: () => '0x60' },
    ...{ eth_maxPriorityFeePerGas: () => '0x2' },
    eth_getBlockByNumber: () => ({ number: '0x1', hash: `0x${'01'.repeat(32)}`, parentHash: `0x${'00'.repeat(32)}`, timestamp: '0x1', baseFeePerGas: '0xa' }), // prettier-ignore
  })
  for (let time = 1; time < 3; time++) {
    await prepareFromAccount(headless.chain, FROM, call)
    assert.equal(headless.asked('eth_getBalance').length, time)
  }
})

test('a call that reverts at the newest block is tried on the pending state, where an earlier write may have happened', async () => {
  const { chain, asked } = network({ eth_estimateGas: ([, at]) => (at === 'pending' ? hex(50_000n) : reverted()) })
  assert.equal((await prepareFromAccount(chain, FROM, call)).terms.gas, 72_500n)
  assert.deepEqual(
    asked('eth_estimateGas').map(([, at]) => at),
    ['latest', 'pending'],
  )
  const both = network({ eth_estimateGas: ([, at]) => reverted(at === 'pending' ? 'later' : 'first') })
  await assert.rejects(
    prepareFromAccount(both.chain, FROM, call),
    (error: unknown) => refused('execution_reverted')(error) && (error as AppError).revert?.reason === 'first',
  )
  // Errors other than reverts cause no second estimate.
  const away = network({ eth_estimateGas: () => new RpcUnavailable('slow', { timedOut: true }) })
  await assert.rejects(prepareFromAccount(away.chain, FROM, call), refused('chain_timeout'))
  assert.equal(away.asked('eth_estimateGas').length, 1)
})

test('nothing is concluded while the node does not say balance, price or code', async () => {
  for (const method of ['eth_getBalance', 'eth_maxPriorityFeePerGas', 'eth_getCode']) {
    const { chain } = network({ [method]: () => new RpcUnavailable('slow', { timedOut: true }) })
    await assert.rejects(prepareFromAccount(chain, FROM, call), refused('chain_timeout'), method)
  }
})
