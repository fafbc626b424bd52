import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import type { Chain } from '../../chain/network.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { systemClock } from '../../clock.ts'
import { quantityOf, type DelegateName, type Hex } from '../../ids.ts'
import { openState } from '../../state.ts'
import { cancelOuterGas } from './cancel-gas.ts'
import { delegatedCode } from '../sponsors/delegation.ts'
import type { Operation } from '../operation.ts'
import { MAX_GAS } from './limits.ts'
import { AUTHORIZATION, outerGas } from './operation-gas.ts'
import { OuterReverts, outerGasOf, withAuthorizations } from './outer-gas.ts'

const ACCOUNT: Hex = `0x${'0a'.repeat(20)}`
const operationOf = (authorizationNonce: number | null = null, delegate: DelegateName = 'chatelaine'): Operation => ({
  ...{
    id: 'tx_1',
    accountId: '',
    clientId: '',
    chainId: 1,
    from: ACCOUNT,
    delegate,
    space: `0x${'0b'.repeat(20)}`,
    sequence: 1,
  },
  calls: [{ to: Buffer.alloc(20), value: 0n, data: Buffer.alloc(68) }],
  ...{ gas: 60_000n, deadline: 1, authorizationNonce, requestHash: null, reference: null },
})
const least = (nonce: number | null = null) => outerGas([operationOf(nonce)])
const reverted = new RpcError(3, 'execution reverted', '0x')

/** Returns a network whose node has this estimate, and records its requests in order. */
function network(estimate: bigint) {
  const asked: { method: string; params: unknown[] }[] = []
  const node = { estimate: estimate as bigint | Error, run: '0x' as string | Error }
  const call = async (method: string, params: unknown[]) => {
    asked.push({ method, params })
    const answer = method === 'eth_call' ? node.run : node.estimate
    if (answer instanceof Error) throw answer
    return typeof answer === 'bigint' ? quantityOf(answer) : answer
  }
  const chain = { rpc: { call }, state: openState(), clock: systemClock } as unknown as Chain
  const gasOf = ({ nonce = null, isRepacked = false }: { nonce?: number | null; isRepacked?: boolean } = {}) =>
    outerGasOf(chain, { from: ACCOUNT, to: ACCOUNT, data: '0x01', operations: [operationOf(nonce)], isRepacked })
  return { node, gasOf, methods: () => asked.splice(0).map(({ method }) => method), asked }
}

test('a network for which the reckoned gas is enough is asked once, and those after it have as much as was reckoned', async () => {
  const { gasOf, methods } = network(100_000n)
  assert.equal(await gasOf(), least())
  assert.equal(await gasOf(), least())
  assert.deepEqual(methods(), ['eth_estimateGas'])
})

test('a network that takes more is asked for each transaction, and has what it says and a tenth', async () => {
  const { gasOf, methods, node } = network(1_000_000n)
  assert.equal(await gasOf(), 1_100_000n)
  node.estimate = 2_000_000n
  assert.equal(await gasOf(), 2_200_000n)
  assert.deepEqual(methods(), ['eth_estimateGas', 'eth_estimateGas'])
})

test('where someone delegates, or was in a transaction before, it is run with that gas first', async () => {
  const { gasOf, methods, asked, node } = network(100_000n)
  await gasOf()
  methods()
  assert.equal(await gasOf({ nonce: 7 }), least(7))
  assert.deepEqual(asked[0]?.params, [
    { from: ACCOUNT, to: ACCOUNT, data: '0x01', gas: quantityOf(least(7)) },
    'latest',
    { [ACCOUNT]: { code: delegatedCode('chatelaine') } },
  ])
  assert.equal(await gasOf({ isRepacked: true }), least())
  assert.deepEqual(methods(), ['eth_call', 'eth_call'])
  // The transaction fails with that gas, so the node is asked for an estimate.
  Object.assign(node, { run: reverted, estimate: 500_000n })
  assert.equal(await gasOf({ isRepacked: true }), 550_000n)
  assert.deepEqual(methods(), ['eth_call', 'eth_estimateGas'])
  // The cached result no longer counts.
  assert.equal(await gasOf(), 550_000n)
  assert.deepEqual(methods(), ['eth_estimateGas'])
})

test('one that would be reverted whole is said to be, and a node that is away is not taken for that', async () => {
  const { gasOf, node } = network(1n)
  node.estimate = reverted
  await assert.rejects(gasOf(), OuterReverts)
  node.estimate = new Error('away')
  await assert.rejects(gasOf(), /away/)
})

test('each word of the bitmap that the numbers of a transaction are in is reckoned, once', () => {
  const gasOf = (...sequences: number[]) => outerGas(sequences.map((sequence) => ({ ...operationOf(), sequence })))
  // EIP-2929 and EIP-2200: a storage slot that is cold and was never written.
  assert.equal(gasOf(255, 256) - gasOf(254, 255), 22_100n)
  assert.equal(gasOf(0, 256, 512, 513) - gasOf(0, 1, 2, 3), 2n * 22_100n)
})

test('an authorization that is carried once more has its gas, one that its operation counts has it once, and no transaction has more than a network takes', () => {
  const other: Hex = `0x${'0c'.repeat(20)}`
  const authorizations = [ACCOUNT, other].map((from) => ({ from, nonce: 7 }))
  assert.equal(withAuthorizations(100n, authorizations, [operationOf(7)]), 100n + AUTHORIZATION)
  assert.equal(withAuthorizations(100n, authorizations, [operationOf()]), 100n + 2n * AUTHORIZATION)
  assert.equal(withAuthorizations(100n, [], [operationOf(7)]), 100n)
  assert.equal(withAuthorizations(MAX_GAS - 1n, authorizations, [operationOf()]), MAX_GAS)
})

test('a cancel has the gas of what is delegated in it, which no node was asked about, also where a network says more', async () => {
  let estimate = 1_000_000n
  const chain = { rpc: { call: async () => quantityOf(estimate) }, gasSpace: ACCOUNT } as unknown as Chain
  const gasOf = (many: number) =>
    cancelOuterGas(chain, { from: ACCOUNT, to: ACCOUNT, authorizations: Array.from({ length: many }, () => ({ from: ACCOUNT, nonce: 7 })) }, [1]) // prettier-ignore
  assert.deepEqual([await gasOf(0), await gasOf(2)], [1_250_000n, 1_250_000n + 2n * AUTHORIZATION])
  estimate = 21_000n
  assert.equal(await gasOf(2), (await gasOf(0)) + 2n * AUTHORIZATION)
})

test('what a network said of transactions for one code it has not said of those for another, which take more', async () => {
  const asked: string[] = []
  const call = async (method: string) => (asked.push(method), quantityOf(100_000n))
  const chain = { rpc: { call }, state: openState(), clock: systemClock } as unknown as Chain
  const gasOf = (delegate: DelegateName) =>
    outerGasOf(chain, { from: ACCOUNT, to: ACCOUNT, data: '0x01', operations: [operationOf(null, delegate)], isRepacked: false }) // prettier-ignore
  const ours = await gasOf('chatelaine')
  await gasOf('chatelaine')
  assert.deepEqual(asked.splice(0), ['eth_estimateGas'])
  assert.ok((await gasOf('calibur')) > ours)
  await gasOf('calibur')
  assert.deepEqual(asked, ['eth_estimateGas'])
})
