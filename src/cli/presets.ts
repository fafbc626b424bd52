import type { NetworkFacts } from '../applications/network-facts.ts'

/**
 * Block verification of networks for which the common setting would be wrong.
 * `bloomAt`: blocks have their own kinds of headers or receipts (deposits, messages, system transactions), whose hashes
 * cannot be computed as Ethereum's.
 * `countAt`: in addition, Bloom filters omit logs or are empty. Polygon's state syncs do that (l2beat #10113), and
 * zkSync depending on node and block (zksync-era #4580, across-protocol/relayer #1789). With `bloom`, the follower
 * would stop at the first such block.
 */
const bloomAt = { blockVerification: 'bloom' } as const
const countAt = { blockVerification: 'count' } as const

/** blocks: Polygon has had reorganisations of 157 blocks and late milestones; 256 blocks take 9 minutes */
const POLYGON_FINALITY = 256

/**
 * Networks that can be added by name. `key`: name in the library, which has chain id, currency and explorer. `blockMs`:
 * approximate milliseconds between blocks. Fees need no preset: a network whose headers have a base fee uses EIP-1559,
 * others the gas price.
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
  /** approximate milliseconds between blocks */
  blockMs: number
}

/** Reads all presets. The library describes 700 networks and loads slowly, so it is loaded here only. */
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

/** Returns the preset with this name; null if there is none. */
export async function findPreset(name: string): Promise<NetworkPreset | null> {
  if (!Object.hasOwn(presets, name)) return null
  return (await readPresets()).find((preset) => preset.name === name)!
}
