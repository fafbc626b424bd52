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

/** Of a column of JSON that holds a list of texts, what is one: anything may have been written there. */
export const textsIn = (value: unknown): string[] => (Array.isArray(value) ? value.filter(isText) : [])

/** Whether it is that list, and nothing else is in it. */
export const areTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)

const isText = (one: unknown): one is string => typeof one === 'string'

/** Likewise of quotas. */
export const quotasIn = (value: unknown): Quota[] =>
  Array.isArray(value) ? value.filter((one: unknown): one is Quota => isQuota((one ?? {}) as Partial<Quota>)) : []

const isQuota = ({ counts, limit, per }: Partial<Record<keyof Quota, unknown>>): boolean =>
  (counts === 'reads' || counts === 'writes') &&
  (per === 'hour' || per === 'day' || per === 'month') &&
  Number.isSafeInteger(limit)
