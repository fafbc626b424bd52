import type { Texts } from './en.ts'

/** The display name of a network: the currency of a test network is worth nothing. */
type NamedNetwork = { family: string; test?: string }

/**
 * Display names by chain id. Source: chainlist.org, and each project's documentation; other networks have their own
 * name.
 */
const KNOWN = new Map<number, NamedNetwork>([
  [1, { family: 'Ethereum' }],
  [10, { family: 'OP Mainnet' }],
  [56, { family: 'BNB Smart Chain' }],
  [97, { family: 'BNB Smart Chain', test: '' }],
  [100, { family: 'Gnosis' }],
  [137, { family: 'Polygon' }],
  [300, { family: 'ZKsync', test: 'Sepolia' }],
  [324, { family: 'ZKsync' }],
  [1_337, { family: 'Ethereum', test: '' }],
  [8_453, { family: 'Base' }],
  [10_200, { family: 'Gnosis', test: 'Chiado' }],
  [17_000, { family: 'Ethereum', test: 'Holesky' }],
  [31_337, { family: 'Ethereum', test: '' }],
  [42_161, { family: 'Arbitrum' }],
  [43_113, { family: 'Avalanche', test: 'Fuji' }],
  [43_114, { family: 'Avalanche' }],
  [59_141, { family: 'Linea', test: 'Sepolia' }],
  [59_144, { family: 'Linea' }],
  [80_002, { family: 'Polygon', test: 'Amoy' }],
  [84_532, { family: 'Base', test: 'Sepolia' }],
  [421_614, { family: 'Arbitrum', test: 'Sepolia' }],
  [534_351, { family: 'Scroll', test: 'Sepolia' }],
  [534_352, { family: 'Scroll' }],
  [560_048, { family: 'Ethereum', test: 'Hoodi' }],
  [11_155_111, { family: 'Ethereum', test: 'Sepolia' }],
  [11_155_420, { family: 'OP', test: 'Sepolia' }],
])

/** Returns the display name of a network: “Ethereum test network” for `devnet`. */
export function networkTitle({ networks }: Texts, { chainId, name }: { chainId: number; name: string | null }): string {
  const known = KNOWN.get(chainId)
  if (known === undefined) return name === null ? networks.unknown(String(chainId)) : networks.main(name)
  const { family, test } = known
  if (test === undefined) return networks.main(family)
  return test === '' ? networks.test(family) : networks.testNamed(family, test)
}

/** Returns whether the currency of a network is known to be worth nothing. */
export const isTestNetwork = (chainId: number): boolean => KNOWN.get(chainId)?.test !== undefined
