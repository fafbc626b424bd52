/**
 * chain: the served networks, each opened as a `Chain`.
 * Owns: the head that reads are pinned to, reads at its hash with answers shared, fees, code of addresses, explorer
 *   addresses.
 * Does not own: talking to nodes (`chain/rpc/`), following blocks in order (`follower/`), which networks exist
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
  /**
   * decimals of the native currency; read from the settings, never from the database, because amounts of money are
   * scaled by it
   */
  decimals: number
  /** the node's `finalized` tag, or a number of blocks */
  finality: 'finalized' | number
  /** maximum maxFeePerGas (or gasPrice) of any transaction, wei per gas */
  feeCapWei: bigint
  /** maximum tip that is accepted from a node, wei per gas; absent: any tip below the cap */
  tipCapWei?: bigint
  verification: Verification
  gas: GasChoice
  /** for gas mode `sponsor`: the address that determines which sponsors may send operations; lower-case */
  gasSpace?: Hex | null
  /** for gas mode `sponsor`: the code that accounts delegate to; absent: our own */
  delegate?: DelegateName
  /** for gas mode `sponsor`: contracts to which accounts send writes themselves, with top-ups; lower-case */
  topUpContracts?: ReadonlySet<Hex>
  explorer: Explorer
  clock: Clock
  rpc: Rpc
  /** absent if no WebSocket node is configured that announces new blocks */
  newHeads?: NewHeads
  head: Head
  /** facts that this module remembers about the network */
  memory: Memory
  /** facts that other modules remember about the network */
  state: State
  /** Gives a new account its first funds; on development chains only. */
  faucet: ((address: Hex) => Promise<void>) | null
  /** whether the network belongs to a development installation: it may lose any number of blocks, even final ones */
  isDevelopment?: boolean
  /** milliseconds for which the node's newest block must be below ours before ours counts as lost; default 5,000 */
  lostAfterMs?: number
}

/**
 * Returns whether this is the embedded chain, which this process started. It restarts from genesis when its state is
 * lost.
 */
export const isEmbedded = ({ faucet }: Pick<Chain, 'faucet'>): boolean => faucet !== null

/**
 * Returns whether a chain may lose any number of blocks: the embedded one after a crash, or one whose snapshot was
 * reverted.
 */
export const isDevelopment = ({ faucet, isDevelopment: isSo = false }: Chain): boolean => isEmbedded({ faucet }) || isSo

/**
 * How far a node's blocks are verified. `hash`: transactions and receipts against the block's hash. `bloom`: logs
 * against the header's Bloom filter, and everything in blocks with our transactions. `count`: only the number of
 * receipts, for networks without a filter or with logs outside of it. docs/decisions/0011
 */
export type Verification = 'hash' | 'bloom' | 'count'

/**
 * Payer of users' gas. `self`: the users. `topup`: the users, after a sponsor of the operator has sent them the gas
 * funds of a write. `sponsor`: a sponsor. It sends the calls that users signed.
 */
export type GasChoice = 'self' | 'topup' | 'sponsor'

/**
 * Returns who pays for the gas of a write: the network's setting, except for contracts that the operator named.
 * @param to  called address, in lower case
 */
export const gasChoiceOf = ({ gas, topUpContracts }: Pick<Chain, 'gas' | 'topUpContracts'>, to: Hex): GasChoice =>
  gas === 'sponsor' && topUpContracts?.has(to) === true ? 'topup' : gas

export type Explorer = {
  tx: (hash: Hex) => string
  address: (address: Hex) => string
  block: (number: number) => string
}

/** Returns the links of an explorer with the common layout: /tx/…, /address/…, /block/…. */
export const explorerAt = (base: string): Explorer => ({
  tx: (hash) => `${base}/tx/${hash}`,
  address: (address) => `${base}/address/${address}`,
  block: (number) => `${base}/block/${number}`,
})
