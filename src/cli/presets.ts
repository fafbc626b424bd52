/** Networks that can be added by name: ours, and the library's name of each, which knows chain id, coin and explorer. */
const presets = {
  ethereum: 'mainnet',
  sepolia: 'sepolia',
  base: 'base',
  'base-sepolia': 'baseSepolia',
  optimism: 'optimism',
  arbitrum: 'arbitrum',
  polygon: 'polygon',
  'polygon-amoy': 'polygonAmoy',
  bnb: 'bsc',
  avalanche: 'avalanche',
  gnosis: 'gnosis',
  linea: 'linea',
  scroll: 'scroll',
  zksync: 'zksync',
  celo: 'celo',
} as const

export type Preset = {
  name: string
  title: string
  chainId: number
  symbol: string
  coin: string
  decimals: number
  explorer: string
  multicall3: `0x${string}` | null
}

/** All presets. The library describes 700 networks and takes a moment to load, so only this asks for it. */
export async function readPresets(): Promise<Preset[]> {
  const chains = await import('viem/chains')
  return Object.entries(presets).map(([name, key]) => {
    const { id, name: title, nativeCurrency, blockExplorers, contracts } = chains[key]
    return {
      name,
      title,
      chainId: id,
      symbol: nativeCurrency.symbol,
      coin: nativeCurrency.name,
      decimals: nativeCurrency.decimals,
      explorer: blockExplorers.default.url,
      multicall3: contracts?.multicall3?.address ?? null,
    }
  })
}

export async function findPreset(name: string): Promise<Preset | null> {
  if (!Object.hasOwn(presets, name)) return null
  return (await readPresets()).find((preset) => preset.name === name)!
}
