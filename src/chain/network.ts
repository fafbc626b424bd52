import type { Hex } from '../ids.ts'
import type { Head } from './head.ts'
import type { NewHeads } from './new-heads.ts'
import type { Rpc } from './rpc.ts'

/** One EVM network that this installation serves. `name` is lower-case; history shows it in upper case. */
export type Chain = {
  chainId: number
  name: string
  symbol: string
  coin: string
  decimals: number
  /** the node's `finalized` tag, or a number of blocks */
  finality: 'finalized' | number
  /** highest maxFeePerGas (or gasPrice) ever offered, wei per gas */
  feeCapWei: bigint
  strictness: Strictness
  /** Multicall3 on this network, if it is deployed */
  multicall3: Hex | null
  explorer: Explorer
  rpc: Rpc
  /** absent where no node was named that tells of its new blocks */
  newHeads?: NewHeads
  head: Head
  /** Gives a new account its first coins, on development chains only. */
  faucet: ((address: Hex) => Promise<void>) | null
}

/**
 * How far a node's blocks are believed: `on` checks receipts against the block's hash; `off` their logs against its
 * Bloom filter; `lax`, for networks that have none or leave logs out of it, counts receipts only.
 */
export type Strictness = 'on' | 'off' | 'lax'

export type Explorer = {
  tx: (hash: Hex) => string
  address: (address: Hex) => string
  block: (number: number) => string
}

/** Links of an explorer that follows the common layout: /tx/…, /address/…, /block/…. */
export const explorerAt = (base: string): Explorer => ({
  tx: (hash) => `${base}/tx/${hash}`,
  address: (address) => `${base}/address/${address}`,
  block: (number) => `${base}/block/${number}`,
})
