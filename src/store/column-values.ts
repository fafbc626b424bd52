import type { Hex } from '../ids.ts'

/** Addresses of an explorer's pages, with {hash}, {address} and {number} where the value goes. */
export type ExplorerTemplates = { tx: string; address: string; block: string }
/** How many requests of a kind an application may make in an hour, a day or a calendar month, UTC. */
export type Quota = { counts: 'reads' | 'writes'; limit: number; per: 'hour' | 'day' | 'month' }
export type TransactionState =
  | 'BOUND'
  | 'VACANT'
  | 'SUBMITTED'
  | 'MINED'
  | 'FINALIZED'
  | 'REVERTED'
  | 'FAILED'
  | 'REPLACED'
  | 'CANCELLED'
/** An account that delegates in a transaction of a sponsor. */
export type OuterAuthorization = { from: Hex; nonce: number }
export type Transition = { state: TransactionState; at: string; hash?: Hex; blockNumber?: number }
