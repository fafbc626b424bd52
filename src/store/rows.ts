import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { DelegateName, Hex } from '../ids.ts'
import type { MessageClass, Summary } from '../messages/classify.ts'
import type { Message } from '../messages/message.ts'
import type {
  ApprovalContent,
  DeliveryKind,
  ExplorerTemplates,
  FactKind,
  Quota,
  TransactionState,
  OuterAuthorization,
  Transition,
  WebhookEnd,
} from './column-values.ts'

// Row types of the tables that `migrations/` creates. bytea is a Uint8Array on both databases (a Buffer on PostgreSQL).
// int8 is a number, checked to be a safe integer. uint256 is 32 bytes, big-endian.
type Bytes = Uint8Array
type Time = ColumnType<Date, Date | string, Date | string>
type MaybeTime = ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
type DefaultTime = ColumnType<Date, Date | string | undefined, Date | string>
type MaybeNumber = ColumnType<number | null, number | null | undefined, number | null>
type JsonColumn<T> = JSONColumnType<T & (object | null)>

export type Database = {
  migrations: { number: number; name: string; sha256: string; applied_at: DefaultTime }
  accounts: {
    account_id: string
    user_id: string
    address: Bytes
    created_at: DefaultTime
    frozen_at: MaybeTime
    unfrozen_at: MaybeTime
    signed_out_at: MaybeTime
    exported_at: MaybeTime
    imported_at: MaybeTime
    attestation: ColumnType<Bytes | null, Bytes | null | undefined, Bytes | null>
    is_key_new: Generated<boolean>
    elsewhere: ColumnType<string | null, string | null | undefined, string | null>
  }
  accounts_attested: { only_row: number; origin: string }
  identities: {
    provider: string
    subject: string
    account_id: string
    username: string
    image_src: string | null
    email: string | null
    email_verified: boolean | null
    created_at: DefaultTime
    signed_in_at: MaybeTime
    seal: ColumnType<string | null, string | null | undefined, string | null>
  }
  wrapped_data_keys: {
    id: Bytes
    epoch: number
    provider: string
    wrapped: Bytes
    created_at: Time
  }
  wrapped_keys: {
    user_id: string
    address: Bytes
    version: number
    data_key_id: Bytes
    wrapped: Bytes
    iv: Bytes
    tag: Bytes
  }
  wrapped_keys_copied: { only_row: number; generation: number; through: number }
  networks: {
    chain_id: number
    name: string
    genesis_hash: Bytes
    symbol: Generated<string>
    coin: Generated<string>
    explorer: ColumnType<ExplorerTemplates | null, string | null | undefined, string | null>
    finality: Generated<string>
    block_verification: ColumnType<string | null, string | null | undefined, string | null>
    fee_cap_gwei: MaybeNumber
    gas: Generated<string>
    created_at: DefaultTime
    delegate: Generated<DelegateName>
    gas_space: ColumnType<Bytes | null, Bytes | null | undefined, Bytes | null>
    top_up_contracts: ColumnType<Hex[] | null, string | null | undefined, string | null>
    sponsor_per_day: ColumnType<string | null, string | null | undefined, string | null>
    sponsor_low: ColumnType<string | null, string | null | undefined, string | null>
    pages_per_user: ColumnType<string | null, string | null | undefined, string | null>
    pages_per_day: ColumnType<string | null, string | null | undefined, string | null>
    backfill_from: MaybeNumber
  }
  signatures: {
    id: string
    account_id: string
    client_id: string
    chain_id: number
    request_hash: Bytes | null
    reference: ColumnType<string | null, string | null | undefined, string | null>
    kind: Message['kind']
    content: string
    hash: Bytes
    class: MessageClass
    summary: JsonColumn<Summary>
    rule: ColumnType<string | null, string | null | undefined, string | null>
    signature: ColumnType<Bytes | null, Bytes | null | undefined, Bytes | null>
    created_at: DefaultTime
    signed_at: MaybeTime
  }
  approvals: {
    id: string
    intent_id: string
    account_id: string
    client_id: string
    chain_id: number
    content: JsonColumn<ApprovalContent>
    request_hash: Bytes | null
    rule: string
    asked_from: string | null
    state: 'waiting' | 'approved' | 'denied' | 'expired'
    token: ColumnType<string | null, string | null | undefined, string | null>
    created_at: DefaultTime
    expires_at: Time
    decided_at: MaybeTime
  }
  sponsors: { account_id: string; chain_id: number; name: string; created_at: DefaultTime }
  low_sponsors: { chain_id: number; account_id: string; since: DefaultTime }
  withdrawals: {
    grant_id: string
    chain_id: number
    sponsor_id: string
    target: Bytes
    amount: string | null
    asked_at: DefaultTime
    transaction_id: ColumnType<string | null, string | null | undefined, string | null>
    refusal: ColumnType<string | null, string | null | undefined, string | null>
  }
  top_ups: {
    chain_id: number
    account_id: string
    ordinal: number
    sponsor_id: string
    client_id: string
    /** decimal digits, wei; `charged` has the same form */
    wei: string
    charged: string
    hour: Time
    created_at: DefaultTime
    settled_at: MaybeTime
    block_number: MaybeNumber
  }
  gas_spent: { client_id: string; account_id: string; chain_id: number; hour: Time; wei: string }
  gas_spent_on_network: { chain_id: number; hour: Time; wei: string }
  applications: {
    client_id: string
    name: string
    chain_id: number
    kind: 'public' | 'confidential'
    redirect_uris: JsonColumn<string[]>
    permissions: JsonColumn<string[]>
    allowed_origins: JsonColumn<string[]>
    secret_hashes: JsonColumn<string[]>
    logo_uri: string | null
    needs_pkce: ColumnType<boolean, boolean | undefined, boolean>
    needs_dpop: ColumnType<boolean, boolean | undefined, boolean>
    created_at: DefaultTime
    suspended_at: MaybeTime
    resumed_at: MaybeTime
    issuers: ColumnType<Record<string, unknown>[], string | undefined, string>
    quotas: ColumnType<Quota[], string | undefined, string>
    weight: Generated<number>
    sponsor_per_user: ColumnType<string | null, string | null | undefined, string | null>
    sponsor_per_application: ColumnType<string | null, string | null | undefined, string | null>
    seal: ColumnType<string | null, string | null | undefined, string | null>
    sponsor_contracts: ColumnType<Hex[] | null, string | null | undefined, string | null>
    post_logout_redirect_uris: ColumnType<string[], string | undefined, string>
    is_first_party: ColumnType<boolean, boolean | undefined, boolean>
  }
  application_usage: {
    client_id: string
    counts: Quota['counts']
    per: Quota['per']
    starts_at: Date
    used: number
    granted: number
  }
  application_providers: {
    provider: string
    issuer: string
    subject_claim: string
    jwks_uri: string | null
    client_id: string
    created_at: DefaultTime
  }
  application_users: { client_id: string; account_id: string; created_at: DefaultTime }
  oauth_records: {
    kind: string
    id_hash: Bytes
    grant_id: string | null
    uid: string | null
    user_id: string | null
    client_id: string | null
    payload: JsonColumn<Record<string, unknown>>
    created_at: DefaultTime
    expires_at: Time | null
    consumed_at: MaybeTime
    access_until: MaybeTime
    seal: ColumnType<string | null, string | null | undefined, string | null>
  }
  revoked_grants: { grant_id: string; revoked_at: DefaultTime; forget_at: Time }
  consents: {
    account_id: string
    client_id: string
    permissions: JsonColumn<string[]>
    keys: ColumnType<Record<string, { permissions: string[]; at: string }>, string | undefined, string>
    ways: ColumnType<string[], string | undefined, string>
    created_at: DefaultTime
    updated_at: DefaultTime
    seal: ColumnType<string | null, string | null | undefined, string | null>
  }
  provider_issuers: { provider: string; issuer: string; created_at: DefaultTime }
  sign_ins: {
    state_hash: Bytes
    interaction_uid: string
    provider: string
    nonce: string
    code_verifier: string
    browser_hash: Bytes
    request: string | null
    created_at: DefaultTime
    expires_at: Time
    consumed_at: MaybeTime
    seal: ColumnType<string | null, string | null | undefined, string | null>
  }
  transactions: {
    id: string
    account_id: string
    client_id: string
    chain_id: number
    sender: Bytes
    nonce: number
    target: Bytes
    value: Bytes
    data: Bytes
    gas_limit: number
    max_fee: Bytes
    max_priority_fee: Bytes | null
    claims: Generated<number>
    abi: string
    request_hash: Bytes | null
    reference: ColumnType<string | null, string | null | undefined, string | null>
    state: TransactionState
    /** decimal digits, wei */
    reserved: string | null
    hash: Bytes | null
    block_number: number | null
    block_hash: Bytes | null
    gas_used: number | null
    effective_gas_price: Bytes | null
    succeeded: boolean | null
    revert: JsonColumn<Record<string, unknown>> | null
    is_cancel: Generated<boolean>
    is_final: Generated<boolean>
    transitions: JsonColumn<Transition[]>
    created_at: DefaultTime
    updated_at: DefaultTime
    /** in a transaction that includes operations: the accounts that delegate in it */
    authorizations: JsonColumn<OuterAuthorization[]> | null
  }
  strangers: { sender_id: string; user_id: string; made_at: DefaultTime }
  operations: {
    id: string
    account_id: string
    client_id: string
    chain_id: number
    sender: Bytes
    delegate: Generated<DelegateName>
    space: Bytes
    sequence: number
    calls: Bytes
    gas_limit: number
    deadline: number
    authorization_nonce: number | null
    claims: Generated<number>
    abi: string
    request_hash: Bytes | null
    reference: ColumnType<string | null, string | null | undefined, string | null>
    state: TransactionState
    is_cancel: Generated<boolean>
    outer_id: string | null
    block_number: number | null
    block_hash: Bytes | null
    is_final: Generated<boolean>
    reason: Bytes | null
    after_log: number | null
    event_log: number | null
    revert: JsonColumn<Record<string, unknown>> | null
    /** decimal digits */
    charged: string
    hour: Time
    is_counted: Generated<boolean>
    pack_limit: number | null
    transitions: JsonColumn<Transition[]>
    created_at: DefaultTime
    updated_at: DefaultTime
  }
  carried: { operation_id: string; transaction_id: string }
  operation_sequences: { chain_id: number; space: Bytes; next: number }
  attempts: {
    chain_id: number
    hash: Bytes
    transaction_id: string
    /** null: dropped one week after finality; the signer's ledger still has the bytes */
    raw: Bytes | null
    gas_limit: number
    max_fee: Bytes
    max_priority_fee: Bytes | null
    is_cancel: Generated<boolean>
    created_block: number | null
    created_at: DefaultTime
    broadcast_at: MaybeTime
    queued_sender: Bytes | null
    queued_nonce: number | null
  }
  swept: { chain_id: number; block_number: number; id: string }
  ledger_cursor: { only_row: number; seq: number; record: string; updated_at: DefaultTime }
  signing_log_head: {
    only_row: number
    origin: string
    size: number
    at: Time
    note: string
    key: ColumnType<string | null, string | null | undefined, string | null>
  }
  stopped_lanes: {
    chain_id: number
    sender: Bytes
    nonce: number
    hash: Bytes | null
    reason: string
    created_at: DefaultTime
    resume_asked_at: MaybeTime
  }
  waits: {
    chain_id: number
    sender: Bytes
    nonce: number
    hash: Bytes | null
    due_at: MaybeTime
    pause_seconds: Generated<number>
    trouble: string | null
    detail: string | null
    since: MaybeTime
    alarmed_at: MaybeTime
    refusals: Generated<number>
    resend_at: MaybeTime
  }
  blocks: { chain_id: number; number: number; hash: Bytes; parent_hash: Bytes; mined_at: Time; base_fee: Bytes | null }
  cursors: {
    chain_id: number
    block_number: number
    block_hash: Bytes
    finalized_number: number
    epoch: number
    lease_owner: string | null
    lease_until: Time | null
    halted: string | null
    blocked_by: Generated<string | null>
    updated_at: DefaultTime
    read_from: string | null
  }
  // prettier-ignore
  history_cursors: { chain_id: number; block_number: number; block_hash: Bytes; epoch: number; lease_owner: string | null; updated_at: DefaultTime }
  history_marks: { chain_id: number; at: Time; block_number: number }
  coverage: { account_id: string; chain_id: number; covered_from: number; updated_at: DefaultTime }
  native_coverage: {
    chain_id: number
    from_block: number
    from_at: Time
    internal_from_block: number | null
    internal_from_at: Time | null
    to_block: number
    to_hash: Bytes | null
    updated_at: DefaultTime
  }
  transfers: {
    account_id: string
    chain_id: number
    block_number: number
    log_index: number
    batch_index: number
    direction: number
    token_type: number
    token: Bytes
    sender: Bytes
    recipient: Bytes
    token_id: Bytes | null
    value: Bytes
    hash: Bytes
    block_hash: Bytes
    mined_at: Time
    is_spam: boolean
    omitted: Generated<number>
  }
  tokens: {
    chain_id: number
    address: Bytes
    symbol: string
    name: string
    decimals: number
    state: 'NEW' | 'KNOWN' | 'FAILED'
    attempts: number
    retry_at: Time | null
    asked_block: number | null
    updated_at: DefaultTime
    is_fungible: Generated<boolean>
    is_collection: Generated<boolean>
    is_wrapper: Generated<boolean>
    logs_amounts: Generated<boolean>
    logs_ids: Generated<boolean>
    logs_deposits: Generated<boolean>
  }
  operator_actions: {
    seq: number
    at: Time
    actor: string
    via: 'api' | 'command' | 'console'
    action: string
    target: string
    before: string | null
    after: string | null
    record: Bytes
  }
  requested_changes: {
    transaction_id: string
    chain_id: number
    change: 'cancel' | 'speed-up'
    hash: Bytes
    asked_at: DefaultTime
    claimed_at: MaybeTime
    done_at: MaybeTime
    refusal: ColumnType<string | null, string | null | undefined, string | null>
  }
  operator_head: { id: number; seq: number; record: Bytes }
  operators: {
    user_id: string
    role: 'owner' | 'operator' | 'support' | 'viewer'
    created_at: DefaultTime
    seal: ColumnType<string | null, string | null | undefined, string | null>
  }
  facts: {
    seq: Generated<number>
    kind: FactKind
    chain_id: number | null
    account_id: string | null
    client_id: string | null
    subject: string
    data: JsonColumn<Record<string, unknown>>
    at: DefaultTime
  }
  sequencer: { only_row: number }
  feeds: { client_id: string; seq: number; trimmed: Generated<number> }
  events: {
    client_id: string
    seq: number
    id: string
    type: string
    subject: string
    account_id: string | null
    chain_id: number | null
    is_own: boolean
    data: JsonColumn<Record<string, unknown>>
    at: Time
  }
  denials: {
    client_id: string
    account_id: string
    rule: string
    chain_id: number
    hour: Time
    request: 'write' | 'signature'
    reference: string | null
    detail: string
    count: number
    since: number
  }
  low_balances: {
    client_id: string
    account_id: string
    kind: 'rejected' | 'waiting'
    chain_id: number
    nonce: number
    transaction_id: string | null
    needed: string | null
    available: string | null
    at: DefaultTime
  }
  final_transfers: { chain_id: number; block_number: number }
  retracted_blocks: { chain_id: number; hash: Bytes; times: number; updated_at: DefaultTime }
  webhooks: {
    id: string
    client_id: string
    url: string
    types: JsonColumn<string[]>
    secret: string
    old_secret: string | null
    old_secret_ends_at: MaybeTime
    disabled_at: MaybeTime
    disabled_reason: WebhookEnd | null
    cursor: number
    epoch: Generated<number>
    lease_ends_at: MaybeTime
    failures: Generated<number>
    failing_since: MaybeTime
    probe_at: MaybeTime
    is_full: Generated<boolean>
    delivered: Generated<number>
    last_success_at: MaybeTime
    last_failure_at: MaybeTime
    last_failure: string | null
    created_at: DefaultTime
  }
  webhook_retries: {
    webhook_id: string
    seq: number
    subject: string
    attempts: number
    due_at: MaybeTime
    is_dead: Generated<boolean>
    created_at: DefaultTime
  }
  webhook_deliveries: {
    id: string
    webhook_id: string
    kind: DeliveryKind
    event_id: string
    seq: MaybeNumber
    type: string
    attempt: number
    status: number | null
    error: string | null
    answer: string | null
    duration_ms: number | null
    created_at: DefaultTime
    done_at: MaybeTime
  }
  webhook_replays: {
    webhook_id: string
    cursor: number
    until_seq: number
    failures: Generated<number>
    due_at: DefaultTime
    delivered: Generated<number>
    created_at: DefaultTime
  }
  activity: { kind: 'write' | 'read' | 'sign-in'; at: Time; count: number }
  backfill_work: {
    chain_id: number
    epoch: number
    lease_owner: string | null
    lease_until: Time | null
    account_ids: string[] | null
    from_block: number | null
    target_block: number | null
    next_block: number | null
    blocked_by: string | null
    updated_at: DefaultTime
    waiting: MaybeNumber
    covered: MaybeNumber
    counted_at: MaybeTime
    blocks_per_second: MaybeNumber
    done_at: MaybeTime
  }
}
