// tier: all, because it starts a service with sponsors
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BrowserProvider, Contract } from 'ethers'
import { createPublicClient, createWalletClient, custom, defineChain, parseAbi, type Address } from 'viem'
import { createProvider } from '../src/provider/index.ts'
import { sessionOf } from './session-of.ts'
import { world } from '../../../test/world.ts'

test('where a sponsor sends, several calls are one operation, and a transaction has its hash', async (t) => {
  const here = await world({ NETWORK_GAS: 'sponsor' })
  t.after(() => here.close())
  const { origin, chainId, contracts } = here.facts
  const session = sessionOf(here.alice, { isSignedIn: true })
  const provider = createProvider({ networks: { [chainId]: { origin, session } } })
  const transport = custom(provider)
  const chain = defineChain({ id: chainId, name: 'devnet', nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 }, rpcUrls: { default: { http: [] } } }) // prettier-ignore
  const wallet = createWalletClient({ chain, transport })
  const network = createPublicClient({ chain, transport, pollingInterval: 20 })
  const account = here.alice.address
  const mint = { address: contracts.erc20 as Address, abi: parseAbi(['function mint(address to, uint256 amount)', 'function balanceOf(address) view returns (uint256)']) } // prettier-ignore

  const hash = await wallet.writeContract({ ...mint, account, functionName: 'mint', args: [account, 5n] })
  assert.equal((await network.waitForTransactionReceipt({ hash })).status, 'success')
  assert.equal(await network.readContract({ ...mint, functionName: 'balanceOf', args: [account] }), 5n)

  // ethers sends its own estimate as the limit.
  const browser = new BrowserProvider(provider)
  browser.pollingInterval = 20
  const signer = await browser.getSigner()
  const token = new Contract(mint.address, ['function mint(address to, uint256 amount)'], signer)
  assert.equal((await (await token.getFunction('mint')(account, 0n)).wait()).status, 1)

  assert.deepEqual(await wallet.getCapabilities({ account, chainId }), { atomic: { status: 'supported' } })
  const call = { to: mint.address, abi: mint.abi, functionName: 'mint' } as const
  const { id } = await wallet.sendCalls({ account, forceAtomic: true, calls: [{ ...call, args: [account, 1n] as const }, { ...call, args: [account, 2n] as const }] }) // prettier-ignore
  const { status, atomic, receipts } = await wallet.waitForCallsStatus({ id, pollingInterval: 20 })
  assert.deepEqual([status, atomic, receipts!.length], ['success', true, 1])
  assert.equal(await network.readContract({ ...mint, functionName: 'balanceOf', args: [account] }), 8n)
  await assert.rejects(wallet.sendCalls({ account, calls: [{ ...call, args: [account, 1n] as const }, { to: mint.address, data: '0x12345678' }] })) // prettier-ignore
})
