/**
 * chain: the networks that are served, each opened as a `Chain`.
 * Owns: the head that reads are pinned to, reads at its hash with answers shared, fees, code of addresses, explorer
 *   addresses.
 * Does not own: talking to nodes (`chain/rpc/`), following blocks in order (`follower/`), which networks there are
 *   (`applications/`).
 * Start with `open.ts` (how one is opened), then `reads.ts`.
 */

import type { DelegateName, Hex } from '../ids.ts'
import type { State } from '../state.ts'
import type { Head } from './head.ts'
import type { Memory } from './memory.ts'
import type { NewHeads } from './rpc/new-heads.ts'
import type { Rpc } from './rpc/rpc.ts'
import type { Clock } from '../clock.ts'

/** One EVM network that this installation serves. `name` is lower-case; history shows it in upper case. */
export type Chain = {
  chainId: number
  name: string
  symbol: string
  coin: string
  /** of the native currency: from the settings, never from the database, since amounts of money are scaled by it */
  decimals: number
  /** the node's `finalized` tag, or a number of blocks */
  finality: 'finalized' | number
  /** highest maxFeePerGas (or gasPrice) ever offered, wei per gas */
  feeCapWei: bigint
  /** highest tip that is believed of a node, wei per gas; absent: any below the cap */
  tipCapWei?: bigint
  verification: Verification
  gas: GasChoice
  /** where gas is `sponsor`: the address that says which sponsors may send operations; lower-case */
  gasSpace?: Hex | null
  /** where gas is `sponsor`: what accounts delegate to; absent: our own code */
  delegate?: DelegateName
  /** where gas is `sponsor`: contracts whose writes accounts send themselves, and are topped up for; lower-case */
  topUpContracts?: ReadonlySet<Hex>
  explorer: Explorer
  clock: Clock
  rpc: Rpc
  /** absent where no node was named that tells of its new blocks */
  newHeads?: NewHeads
  head: Head
  /** what this unit has learned of it */
  memory: Memory
  /** what the slices above remember of it */
  state: State
  /** Gives a new account its first funds, on development chains only. */
  faucet: ((address: Hex) => Promise<void>) | null
  /** of a development installation: it may lose any number of blocks, final ones too */
  isDevelopment?: boolean
  /** milliseconds for which the node's newest block stays below ours before it counts as lost; default 5,000 */
  lostAfterMs?: number
}

/** Our own chain, which this process started and which begins anew when its state is lost. */
export const isEmbedded = ({ faucet }: Pick<Chain, 'faucet'>): boolean => faucet !== null

/** True on a chain that may lose any number of blocks: our own after a crash, or someone's snapshot that was reverted. */
export const isDevelopment = ({ faucet, isDevelopment: isSo = false }: Chain): boolean => isEmbedded({ faucet }) || isSo

/**
 * How far a node's blocks are believed: `hash` checks transactions and receipts against the block's hash; `bloom` the logs
 * against its Bloom filter, and all of it in blocks with transactions of ours; `count`, for networks that have no filter
 * or leave logs out of it, counts receipts only. docs/decisions/0011
 */
export type Verification = 'hash' | 'bloom' | 'count'

/**
 * Who pays for the gas of people: `self`, they do; `topup`, a sponsor of the operator first sends them what their write needs; `sponsor`, one sends
 * what they signed, and pays for that.
 */
export type GasChoice = 'self' | 'topup' | 'sponsor'

/**
 * Who pays for the gas of a write: as its network says, but for contracts that its operator named.
 * @param to  what it calls, in lower case
 */
export const gasChoiceOf = ({ gas, topUpContracts }: Pick<Chain, 'gas' | 'topUpContracts'>, to: Hex): GasChoice =>
  gas === 'sponsor' && topUpContracts?.has(to) === true ? 'topup' : gas

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
