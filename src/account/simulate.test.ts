import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { encodeFunctionData, parseAbiItem } from 'viem'
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
      { token: erc20.toLowerCase(), item: null, amount: 380n },
      { token: erc721.toLowerCase(), item: 77n, amount: 1n },
      { token: null, item: null, amount: -1_000n },
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
