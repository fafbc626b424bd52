import { hash } from 'node:crypto'
import { canonical } from '../canonical.ts'
import type { SignedAttempt } from '../rules/judge.ts'
import { encodeRestored, type Restored } from './restored.ts'
import type { FeeFields } from '../transaction.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

/** A key export that was requested, cancelled or completed (exports.ts). */
type ExportKind = 'export-request' | 'export-cancel' | 'export'

/**
 * Content that an account signs and sponsors send (operation-ledger.ts); an authorization uses a nonce of the account.
 */
type OperationKind = 'operation' | 'authorization'

/** A signed message or typed data (message-ledger.ts); it uses no nonce. */
type MessageKind = 'message'

/** The rule in the records of sponsor transactions that include operations, and of their cancellations. */
export const OUTER = 'sponsored-operations'

/** A row of the ledger in the store. `at` is milliseconds since 1970; wei and gas are decimal digits. */
export type LedgerRow = {
  seq: number
  at: number
  kind: 'account' | 'restore' | ExportKind | SignRequest['kind'] | OperationKind | MessageKind
  user_id: string
  address: Uint8Array
  chain_id: number | null
  nonce: number | null
  intent_id: string | null
  effect: Uint8Array | null
  fee_type: FeeFields['type'] | null
  max_fee: string | null
  priority_fee: string | null
  gas: string | null
  hash: Uint8Array | null
  raw: Uint8Array | null
  rule: string
  client_id: string | null
  token_id: string | null
  request_hash: Uint8Array | null
  /** evidence of the request, as JSON */
  evidence: string | null
  /** the policy that decided, and the charges to its limits */
  policy: string | null
  spent: string | null
  record: Uint8Array
  /** HMAC of the record's hash by the signer's own key (macs.ts) */
  mac: Uint8Array
}

/** A signature in the ledger, with its bytes. */
export type LedgerAttempt = SignedAttempt & {
  /** number and time of the record; 0 before it is written */
  seq: number
  at: number
  /** whether someone agreed to the cost (`isAgreed`) */
  isAgreed: boolean
  userId: string
  clientId: string | null
  requestHash: Buffer | null
  chainId: number
  address: Buffer
  nonce: number
  raw: Buffer
  hash: Buffer
  rule: string
}

/**
 * Returns whether someone agreed to the cost. Either the request had a token or grant, or it is the first attempt of a
 * sponsor transaction, whose gas the users signed.
 */
export const isAgreed = ({ tokenId, rule, kind }: { tokenId: string | null; rule: string; kind: string }): boolean =>
  tokenId !== null || (rule === OUTER && kind === 'send')

/** A record to append. */
export type NewEntry = {
  at: number
  userId: string
  address: Buffer
  rule: string
  evidence?: string | null
  /** texts that only the policy engine reads; hashed as they are */
  policy?: string | null
  spent?: string | null
} & (
  | { kind: 'account' }
  | { kind: 'restore'; restored: Restored }
  | { kind: ExportKind; tokenId: string | null }
  /** the application and token that agree to the cost; null: nobody agreed */
  | (SignedRecord & { clientId: string | null; tokenId: string | null })
)

/** The part of a record that describes the signature itself. */
export type SignedRecord = { rule: string } & (
  | {
      kind: SignRequest['kind']
      held: Omit<LedgerAttempt, 'seq' | 'at' | 'isAgreed' | 'userId' | 'clientId'>
      /** record numbers of the operations that its nonce is the first to include */
      carries?: readonly number[] | undefined
    }
  | { kind: OperationKind | MessageKind; signed: SignedContent }
)

/**
 * Signed content other than transactions; `hash` is the signed digest. `effect` of an operation is its id, of an
 * authorization the address of the code, and of a message the digest.
 */
type SignedContent = {
  chainId: number
  /** null for an operation or a message */
  nonce: number | null
  intentId: string
  effect: Buffer
  gas: bigint | null
  hash: Buffer
  raw: Buffer
  requestHash: Buffer | null
}

/** The hash that precedes the first record. */
export const GENESIS = Buffer.alloc(32)

/** The columns that a record's hash covers, in this order. */
export const COLUMNS = [
  'seq',
  'at',
  'kind',
  'user_id',
  'address',
  'chain_id',
  'nonce',
  'intent_id',
  'effect',
  'fee_type',
  'max_fee',
  'priority_fee',
  'gas',
  'hash',
  'raw',
  'rule',
  'client_id',
  'token_id',
  'request_hash',
  'evidence',
  'policy',
  'spent',
] as const satisfies (keyof LedgerRow)[]

/** Hashes a record: every field and the hash of the record before it. */
export function recordOf(previous: Uint8Array, row: Omit<LedgerRow, 'record' | 'mac'>): Buffer {
  const fields = COLUMNS.map((column) => row[column])
  return hash('sha256', canonical('chatelaine ledger 1', previous, ...fields), 'buffer')
}

/** Converts an entry to a row of the ledger, without its hash and MAC. */
export function toRow(seq: number, entry: NewEntry): Omit<LedgerRow, 'record' | 'mac'> {
  const { at, kind, userId, address, rule, evidence = null, policy = null, spent = null } = entry
  const common = { seq, at, kind, user_id: userId, address, rule, evidence, policy, spent }
  if (entry.kind === 'account') return { ...common, ...NOTHING_SIGNED }
  if (entry.kind === 'restore') return { ...common, ...NOTHING_SIGNED, raw: encodeRestored(entry.restored) }
  if ('signed' in entry) {
    const { chainId, nonce, intentId, effect, gas, hash: signedHash, raw, requestHash } = entry.signed
    const ids = { chain_id: chainId, nonce, intent_id: intentId, client_id: entry.clientId, token_id: entry.tokenId }
    const bytes = { effect, hash: signedHash, raw, request_hash: requestHash, gas: gas?.toString() ?? null }
    return { ...common, ...NOTHING_SIGNED, ...ids, ...bytes }
  }
  if (!('held' in entry)) return { ...common, ...NOTHING_SIGNED, token_id: entry.tokenId }
  const { held, clientId, tokenId } = entry
  return {
    ...common,
    chain_id: held.chainId,
    nonce: held.nonce,
    intent_id: held.intentId,
    effect: held.effect,
    fee_type: held.feeType,
    max_fee: held.max.toString(),
    priority_fee: held.priority.toString(),
    gas: held.gas.toString(),
    hash: held.hash,
    raw: held.raw,
    client_id: clientId,
    token_id: tokenId,
    request_hash: held.requestHash,
  }
}

const NOTHING_SIGNED = {
  chain_id: null,
  nonce: null,
  intent_id: null,
  effect: null,
  fee_type: null,
  max_fee: null,
  priority_fee: null,
  gas: null,
  hash: null,
  raw: null,
  client_id: null,
  token_id: null,
  request_hash: null,
} satisfies Partial<LedgerRow>
