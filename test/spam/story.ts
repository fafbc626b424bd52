import type { Hex } from '../../src/ids.ts'
import type { TokenType } from '../../src/tokens/record.ts'

/** A token as a case names it. */
export type CaseToken = { address: Hex; type: TokenType; symbol: string; name: string; decimals: number }

/**
 * A transfer as a case tells it. `by`: who initiated its transaction by our own record: the person, a sponsor for them, or
 * somebody else, of whom there is no record. `value` in the smallest unit, decimal.
 */
export type CaseTransfer = {
  token: string
  direction: 'IN' | 'OUT' | 'SELF'
  other: Hex
  value: string
  by: 'person' | 'sponsor' | 'others'
}

/** One transfer with what came before it, and what people say that it is. */
export type SpamCase = {
  id: number
  /** rules are tuned by the first half and judged by the second */
  half: 'tune' | 'judge'
  pattern: string
  isSpam: boolean
  why: string
  network: keyof typeof NETWORKS
  /** the key was exported or imported: other programs may have used it */
  isElsewhere?: true
  /** transfers from before may be missing */
  isUncovered?: true
  tokens: CaseToken[]
  /** addresses that the person's own writes went to, without a transfer: approvals, calls */
  writes: Hex[]
  before: CaseTransfer[]
  judged: CaseTransfer
}

const coin = (address: Hex, symbol: string, name: string, decimals: number): CaseToken => ({
  ...{ address, type: 'ERC20', symbol, name, decimals },
})

/** What the operator of each network lists, and its own currency. */
export const NETWORKS = {
  ethereum: {
    chainId: 1,
    native: { symbol: 'ETH', name: 'Ether' },
    known: [
      coin('0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48', 'USDC', 'USD Coin', 6),
      coin('0xdac17f958d2ee523a2206206994597c13d831ec7', 'USDT', 'Tether USD', 6),
      coin('0x6b175474e89094c44da98b954eedeac495271d0f', 'DAI', 'Dai Stablecoin', 18),
      coin('0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2', 'WETH', 'Wrapped Ether', 18),
      coin('0x2260fac5e5542a773aa44fbcfedf7c193bc2c599', 'WBTC', 'Wrapped BTC', 8),
      coin('0x514910771af9ca656af840dff83e8264ecf986ca', 'LINK', 'ChainLink Token', 18),
      coin('0x1f9840a85d5af5bf1d1762f925bdaddc4201f984', 'UNI', 'Uniswap', 18),
    ],
  },
  polygon: {
    chainId: 137,
    native: { symbol: 'POL', name: 'Polygon Ecosystem Token' },
    known: [
      coin('0x3c499c542cef5e3811e1192ce70d8cc03d5c3359', 'USDC', 'USD Coin', 6),
      coin('0xc2132d05d31c914a87c6611c10748aeb04b58e8f', 'USD₮0', 'USDT0', 6),
      coin('0x7ceb23fd6bc0add59e62ac25578270cff1b9f619', 'WETH', 'Wrapped Ether', 18),
    ],
  },
  /** an operator who lists nothing */
  unlisted: { chainId: 8453, native: { symbol: 'ETH', name: 'Ether' }, known: [] },
} as const satisfies Record<string, { chainId: number; native: { symbol: string; name: string }; known: CaseToken[] }>
