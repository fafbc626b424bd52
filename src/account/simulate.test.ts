import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { encodeAbiParameters, encodeFunctionData, parseAbiItem, parseAbiParameters, toEventSelector } from 'viem'
import { world, type World } from '../../test/world.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { simulateCalls } from './simulate.ts'

let here: World
let chain: Chain
let contracts: Record<'erc20' | 'erc721' | 'erc1155', Hex>
before(async () => {
  here = await world()
  chain = here.app.chains.get(31_337)!
  contracts = here.facts.contracts as typeof contracts
})
after(() => here.close())

const call = (to: Hex, signature: string, args: unknown[]) => ({
  ...{ to, value: '0' },
  data: encodeFunctionData({ abi: [parseAbiItem(`function ${signature}` as string)], args } as never),
})

test('calls together change what they change one after the other: native currency, tokens and collectibles, in and out', async () => {
  const { alice, bob } = here
  const { erc20, erc721 } = contracts
  const simulated = await simulateCalls(chain, alice, [
    call(erc20, 'mint(address,uint256)', [alice.address, 500n]),
    call(erc20, 'transfer(address,uint256)', [bob.address, 120n]),
    call(erc721, 'mint(address,uint256)', [alice.address, 77n]),
    { to: bob.address, value: '1000', data: '0x' },
    // What comes back is no change.
    { to: alice.address, value: '5', data: '0x' },
  ])
  assert.deepEqual(simulated, {
    isReverted: false,
    omitted: 0,
    changes: [
      { token: null, item: null, amount: -1_000n },
      { token: erc20.toLowerCase(), item: null, amount: 380n },
      { token: erc721.toLowerCase(), item: 77n, amount: 1n },
    ],
  })
})

test('a call that reverts is said to, and one after it changes nothing', async () => {
  const { alice, bob } = here
  const calls = [
    call(contracts.erc20, 'transfer(address,uint256)', [bob.address, 10n ** 30n]),
    { to: bob.address, value: '1', data: '0x' as const },
  ]
  assert.deepEqual(await simulateCalls(chain, alice, calls), { isReverted: true, changes: [], omitted: 0 })
})

test('a node that does not simulate, or answers nonsense, gives no estimate', async () => {
  const pay = [{ to: here.bob.address, value: '1', data: '0x' as const }]
  for (const answer of [
    null,
    [],
    [{ calls: {} }],
    [{ calls: [{ status: '0x1', logs: [{ address: 1 }] }] }],
    [{ calls: [{ status: 'x' }] }],
  ]) {
    // prettier-ignore
    const bad = { ...chain, rpc: { ...chain.rpc, call: async () => answer as never } }
    assert.equal(await simulateCalls(bad, here.alice, pay), null, JSON.stringify(answer))
  }
  assert.equal(await simulateCalls(undefined, here.alice, pay), null)
})

/** Simulates calls at a node that answers with these logs. */
const at = (logs: object[][], status = '0x1') => {
  const answer = [{ calls: logs.map((some) => ({ status, logs: some })) }]
  const node = { ...chain, rpc: { ...chain.rpc, call: async () => answer as never } }
  return simulateCalls(node, here.alice, logs.map(() => ({ to: here.bob.address as Hex, value: '0', data: '0x' as const }))) // prettier-ignore
}
const word = (value: bigint | string): Hex => `0x${BigInt(value).toString(16).padStart(64, '0')}`
const NATIVE = '0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee'
const TRANSFER = toEventSelector('Transfer(address,address,uint256)')
const transfer = (token: string, from: string, to: string, value: bigint) => ({ address: token, topics: [TRANSFER, word(from), word(to)], data: word(value) }) // prettier-ignore
const deposit = (token: string, to: string, value: bigint) => ({ address: token, topics: [toEventSelector('Deposit(address,uint256)'), word(to)], data: word(value) }) // prettier-ignore

test('invented gains hide no loss, and native currency comes first', async () => {
  const { address: me } = here.alice
  const fakes = Array.from({ length: 60 }, (_, index) => transfer(`0x${(0xf000 + index).toString(16).padStart(40, '0')}`, '0x0', me, 5n)) // prettier-ignore
  const { changes, omitted } = (await at([[...fakes, transfer(contracts.erc20, me, here.bob.address, 7n), transfer(NATIVE, me, here.bob.address, 9n)]]))! // prettier-ignore
  assert.deepEqual(changes.slice(0, 3).map(({ token, amount }) => [token, amount]), [[null, -9n], [contracts.erc20.toLowerCase(), -7n], ['0x000000000000000000000000000000000000f000', 5n]]) // prettier-ignore
  assert.deepEqual([changes.length, omitted], [20, 42])
})

test('a deposit counts if native currency goes in for it, and once if it is logged as a transfer as well', async () => {
  const { address: me } = here.alice
  const weth = `0x${'0'.repeat(37)}abc`
  const tokens = async (logs: object[]) => (await at([logs]))!.changes.filter(({ token }) => token !== null).map(({ amount }) => amount) // prettier-ignore
  const paid = transfer(NATIVE, me, weth, 100n)
  assert.deepEqual(await tokens([paid, deposit(weth, me, 100n)]), [100n])
  assert.deepEqual(await tokens([deposit(weth, me, 100n)]), [])
  assert.deepEqual(await tokens([paid, deposit(weth, me, 100n), transfer(weth, '0x0', me, 100n)]), [100n])
})

test('what is not read as a whole gives no estimate', async () => {
  const { address: me } = here.alice
  const ids = Array.from({ length: 1_001 }, (_, id) => BigInt(id))
  const values = ids.map((id) => (id === 1_000n ? 1n : 0n))
  const batch = { address: contracts.erc1155, topics: [toEventSelector('TransferBatch(address,address,address,uint256[],uint256[])'), word(me), word(me), word(here.bob.address)], data: encodeAbiParameters(parseAbiParameters('uint256[], uint256[]'), [ids, values]) } // prettier-ignore
  const range = { address: contracts.erc721, topics: [toEventSelector('ConsecutiveTransfer(uint256,uint256,address,address)'), word(5n), word('0x0'), word(me)], data: word(9n) } // prettier-ignore
  const pay = transfer(NATIVE, me, here.bob.address, 1n)
  for (const logs of [[batch], [range], [{ ...pay, data: '0xzz' }], Array.from({ length: 10_001 }, () => pay)])
    assert.equal(await at([logs]), null)
  assert.equal(await at([[pay]], '0x2'), null)
  const short = { ...chain, rpc: { ...chain.rpc, call: async () => [{ calls: [] }] as never } }
  assert.equal(await simulateCalls(short, here.alice, [{ to: here.bob.address as Hex, value: '1', data: '0x' }]), null)
})
