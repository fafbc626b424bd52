import type { Hex } from '../ids.ts'

/** URLs of a block explorer's pages, with {hash}, {address} and {number} as placeholders. */
export type ExplorerTemplates = { tx: string; address: string; block: string }
/** Maximum number of requests of a kind that an application may make per hour, day or calendar month, UTC. */
export type Quota = { counts: 'reads' | 'writes'; limit: number; per: 'hour' | 'day' | 'month' }
/**
 * Content of an approval: a message as `messageText` gives it, or calls with wei in decimal digits. It holds
 * everything that the page shows and the digest covers.
 */
export type ApprovalContent =
  | { message: { kind: 'text' | 'bytes' | 'typedData'; content: string } }
  | { calls: { to: Hex; value: string; data: Hex }[] }
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
/** An account that delegates in a sponsor's transaction. */
export type OuterAuthorization = { from: Hex; nonce: number }
/** Kinds of rows of `facts`; `src/events/describe.ts` reads their data. */
export type FactKind =
  | 'write'
  | 'transfer'
  | 'user'
  | 'consent'
  | 'revoked'
  | 'approval'
  | 'signature'
  | 'account'
  | 'lane'
  | 'denial'
  | 'low_balance'
  | 'webhook'
/** Why a webhook is disabled: its endpoint answered 410, failed for days, or its secret cannot be decrypted. */
export type WebhookEnd = 'gone' | 'failing' | 'secret'
/** Why an event is sent to a webhook. */
export type DeliveryKind = 'event' | 'retry' | 'probe' | 'replay' | 'test' | 'redelivery'
export type Transition = { state: TransactionState; at: string; hash?: Hex; blockNumber?: number }

/** Returns the texts of a JSON list, and skips anything else that may have been written there. */
export const textsIn = (value: unknown): string[] => (Array.isArray(value) ? value.filter(isText) : [])

/** Returns whether a value is a list of texts only. */
export const areTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)

const isText = (one: unknown): one is string => typeof one === 'string'

/** Returns the valid quotas of a JSON list. */
export const quotasIn = (value: unknown): Quota[] =>
  Array.isArray(value) ? value.filter((one: unknown): one is Quota => isQuota((one ?? {}) as Partial<Quota>)) : []

const isQuota = ({ counts, limit, per }: Partial<Record<keyof Quota, unknown>>): boolean =>
  (counts === 'reads' || counts === 'writes') &&
  (per === 'hour' || per === 'day' || per === 'month') &&
  Number.isSafeInteger(limit)
