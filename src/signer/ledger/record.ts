import { hash } from 'node:crypto'
import { canonical } from '../canonical.ts'
import type { SignedAttempt } from '../rules/judge.ts'
import { encodeRestored, type Restored } from './restored.ts'
import type { FeeFields } from '../transaction.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

/** A key that a person asked for, did not get after all, or got (exports.ts). */
type ExportKind = 'export-request' | 'export-cancel' | 'export'

/** What an account signs for sponsors to send (operation-ledger.ts): the second takes a nonce of the account. */
type OperationKind = 'operation' | 'authorization'

/** The rule of what a sponsor sends with operations in it: no token is shown for it, and of its kinds no other is without. */
export const OUTER = 'sponsored-operations'

/** A row of the ledger as it lies in the store. `at` is milliseconds since 1970; wei and gas are decimal digits. */
export type LedgerRow = {
  seq: number
  at: number
  kind: 'account' | 'restore' | ExportKind | SignRequest['kind'] | OperationKind
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
  /** what was shown for it, as JSON */
  evidence: string | null
  /** which policy decided, and what of its limits this took */
  policy: string | null
  spent: string | null
  record: Uint8Array
  /** of the record's hash, by the signer's own key (macs.ts) */
  mac: Uint8Array
}

/** A signature that the ledger holds, with its bytes. */
export type LedgerAttempt = SignedAttempt & {
  /** number of the record, and when it was written; 0 before it is */
  seq: number
  at: number
  /** someone agreed to what it costs (`isAgreed`) */
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

/** Whether someone agreed to what it costs: a token or a grant was shown, or it is the first that carries operations, whose gas their users signed. */
export const isAgreed = ({ tokenId, rule, kind }: { tokenId: string | null; rule: string; kind: string }): boolean =>
  tokenId !== null || (rule === OUTER && kind === 'send')

/** What is to be recorded. */
export type NewEntry = {
  at: number
  userId: string
  address: Buffer
  rule: string
  evidence?: string | null
  /** texts of the policy engine, which alone reads them; hashed as they are */
  policy?: string | null
  spent?: string | null
} & (
  | { kind: 'account' }
  | { kind: 'restore'; restored: Restored }
  | { kind: ExportKind; tokenId: string | null }
  /** who agrees to what it costs, by which token; null: nobody */
  | (SignedRecord & { clientId: string | null; tokenId: string | null })
)

/** What is recorded of a signature itself. */
export type SignedRecord = { rule: string } & (
  | {
      kind: SignRequest['kind']
      held: Omit<LedgerAttempt, 'seq' | 'at' | 'isAgreed' | 'userId' | 'clientId'>
      /** records of the operations that it is the first to carry at its nonce */
      carries?: readonly number[] | undefined
    }
  | { kind: OperationKind; signed: SignedForSponsors }
)

/** An operation, whose `effect` is its id, or an authorization, whose `effect` is the address of the code; `hash` is what was signed. */
type SignedForSponsors = {
  chainId: number
  /** of an authorization only */
  nonce: number | null
  intentId: string
  effect: Buffer
  gas: bigint | null
  hash: Buffer
  raw: Buffer
  requestHash: Buffer | null
}

/** What comes before the first record. */
export const GENESIS = Buffer.alloc(32)

/** All that a record's hash covers, in this order. */
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

/** The hash of a record: of the record before it, and of every field. */
export function recordOf(previous: Uint8Array, row: Omit<LedgerRow, 'record' | 'mac'>): Buffer {
  const fields = COLUMNS.map((column) => row[column])
  return hash('sha256', canonical('chatelaine ledger 1', previous, ...fields), 'buffer')
}

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
