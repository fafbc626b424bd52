import type { NetworkFacts } from '../applications/network-facts.ts'

/**
 * How far what the nodes of a network say can be checked, where the setting for all networks must not decide it.
 * `bloomAt`: headers or receipts of their own (deposits, messages, system transactions), which do not hash as Ethereum's.
 * `countAt`: besides, Bloom filters that leave logs out or are empty: those of Polygon's state syncs (l2beat #10113), and
 * zkSync's by node and block (zksync-era #4580, across-protocol/relayer #1789). Under `bloom` the follower stops at the first.
 */
const bloomAt = { blockVerification: 'bloom' } as const
const countAt = { blockVerification: 'count' } as const

/** blocks: Polygon had reorganisations of 157, and its milestones have been late; 256 are nine minutes */
const POLYGON_FINALITY = 256

/**
 * Networks that can be added by name: ours, and the library's name of each, which knows chain id, native currency and explorer.
 * `blockMs`: milliseconds between blocks, about. What fees look like is known from each network's headers: with a base fee
 * EIP-1559, without one the gas price.
 */
const presets = {
  ethereum: { key: 'mainnet', blockMs: 12_000 },
  sepolia: { key: 'sepolia', blockMs: 12_000 },
  base: { key: 'base', blockMs: 2_000, ...bloomAt },
  'base-sepolia': { key: 'baseSepolia', blockMs: 2_000, ...bloomAt },
  optimism: { key: 'optimism', blockMs: 2_000, ...bloomAt },
  arbitrum: { key: 'arbitrum', blockMs: 250, ...bloomAt },
  polygon: { key: 'polygon', blockMs: 2_000, ...countAt, finality: POLYGON_FINALITY },
  'polygon-amoy': { key: 'polygonAmoy', blockMs: 2_000, ...countAt, finality: POLYGON_FINALITY },
  bnb: { key: 'bsc', blockMs: 750, ...bloomAt },
  avalanche: { key: 'avalanche', blockMs: 1_700, ...bloomAt },
  gnosis: { key: 'gnosis', blockMs: 5_000 },
  linea: { key: 'linea', blockMs: 2_000, ...bloomAt },
  scroll: { key: 'scroll', blockMs: 3_000, ...bloomAt },
  zksync: { key: 'zksync', blockMs: 200, ...countAt },
  celo: { key: 'celo', blockMs: 1_000, ...bloomAt },
} as const satisfies Record<string, { key: string; blockMs: number } & Partial<Rules>>

type Rules = Pick<NetworkFacts, 'finality' | 'blockVerification'>

export type NetworkPreset = Rules & {
  name: string
  title: string
  chainId: number
  symbol: string
  coin: string
  explorer: string
  /** milliseconds between blocks, about */
  blockMs: number
}

/** All presets. The library describes 700 networks and takes a moment to load, so only this asks for it. */
export async function readPresets(): Promise<NetworkPreset[]> {
  const chains = await import('viem/chains')
  return Object.entries(presets).map(([name, { key, blockMs, ...rules }]) => {
    const { id, name: title, nativeCurrency, blockExplorers } = chains[key]
    return {
      name,
      title,
      chainId: id,
      symbol: nativeCurrency.symbol,
      coin: nativeCurrency.name,
      explorer: blockExplorers.default.url,
      blockMs,
      finality: 'finalized' as const,
      blockVerification: null,
      ...rules,
    }
  })
}

export async function findPreset(name: string): Promise<NetworkPreset | null> {
  if (!Object.hasOwn(presets, name)) return null
  return (await readPresets()).find((preset) => preset.name === name)!
}
