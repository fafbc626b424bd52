import { createHardhatRuntimeEnvironment } from 'hardhat/hre'
import { fileURLToPath } from 'node:url'
import { startNode } from '../nodes/real-node.ts'

/** An EVM that mines what it is sent at once, and can be put back. */
export type Evm = {
  rpc<T>(method: string, ...params: unknown[]): Promise<T>
  close(): Promise<void>
}

/**
 * Foundry’s node on the forks of today, and Hardhat’s EDR on the first fork with type 4. Both execute by revm, as far as we know: they show
 * that gas and the rules around it differ by fork and by node, not that two executions agree.
 */
export const evms = { anvil: openAnvil, edr: openEdr } as const

async function openAnvil(): Promise<Evm> {
  const node = await startNode('anvil')
  return { rpc: (method, ...params) => node.rpc(method, ...params), close: () => node.stop() }
}

export async function openEdr(): Promise<Evm> {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const networks = { here: { type: 'edr-simulated', hardfork: 'prague', chainId: 31_338, gas: 'auto' } } as const
  const hre = await createHardhatRuntimeEnvironment({ networks }, {}, root)
  const { provider, close } = await hre.network.connect('here')
  return {
    rpc: async <T>(method: string, ...params: unknown[]) => (await provider.request({ method, params })) as T,
    close,
  }
}
