import assert from 'node:assert/strict'
import { verifyMessage } from 'ethers'
import { custom, defineChain } from 'viem'
import { createSiweMessage } from 'viem/siwe'
import type { World } from '../../../test/world.ts'
import { createProvider } from '../src/provider/index.ts'
import { chatelaine } from '../src/wagmi/index.ts'
import { sessionOf } from './session-of.ts'

export type Wagmi = typeof import('@wagmi/core')

const OTHER = 31_338
export const chainOf = (id: number) =>
  defineChain({ id, name: `test ${id}`, nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 }, rpcUrls: { default: { http: [] } } }) // prettier-ignore

/** Connects, reloads, sends, signs, switches and disconnects with a wagmi of any version, as its users do. */
export async function useWagmi(wagmi: Wagmi, here: World): Promise<void> {
  const { connect, createConfig, createStorage, disconnect, getAccount, reconnect, sendTransaction, signMessage, switchChain, waitForTransactionReceipt } = wagmi // prettier-ignore
  const kept = new Map<string, string>()
  const storage = createStorage({
    storage: {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => void kept.set(key, value),
      removeItem: (key) => void kept.delete(key),
    },
  })
  const session = sessionOf(here.alice)
  const other = sessionOf(here.alice)
  const load = () => {
    const { origin, chainId } = here.facts
    const provider = createProvider({
      networks: { [chainId]: { origin, session }, [OTHER]: { origin, session: other } },
    })
    const [one, two] = [chainOf(here.facts.chainId), chainOf(OTHER)]
    return createConfig({
      chains: [one, two],
      connectors: [chatelaine({ provider, rdns: 'example.wallet' })],
      transports: { [one.id]: custom(provider), [two.id]: custom(provider) },
      storage,
      pollingInterval: 20,
    })
  }
  const config = load()
  const { accounts } = await connect(config, { connector: config.connectors[0]! })
  assert.deepEqual([accounts, config.connectors[0]!.rdns], [[here.alice.address], 'example.wallet'])

  // What a reload keeps: the session, and the storage of wagmi.
  const reloaded = load()
  assert.equal((await reconnect(reloaded)).length, 1)
  assert.deepEqual([getAccount(reloaded).address, session.signIns], [here.alice.address, 1])
  const hash = await sendTransaction(reloaded, { to: here.bob.address, value: 9n })
  assert.equal((await waitForTransactionReceipt(reloaded, { hash, pollingInterval: 20 })).status, 'success')
  const message = createSiweMessage({ address: here.alice.address, chainId: here.facts.chainId, domain: 'localhost', uri: 'http://localhost/', nonce: '8f0c7e1e2f1b8c55', version: '1', issuedAt: new Date() }) // prettier-ignore
  assert.equal(verifyMessage(message, await signMessage(reloaded, { message })), here.alice.address)
  await switchChain(reloaded, { chainId: OTHER })
  assert.deepEqual([getAccount(reloaded).chainId, getAccount(reloaded).isConnected, other.signIns], [OTHER, true, 1])
  await disconnect(reloaded)
  assert.deepEqual([getAccount(reloaded).isConnected, session.state.status, other.state.status], [false, 'signed-out', 'signed-out']) // prettier-ignore
  assert.deepEqual(await reconnect(load()), [])
}
