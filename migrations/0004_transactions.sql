-- transactions: intents bound to a nonce, the signed bytes of every attempt, idempotency keys, stopped accounts.
-- The binding of a nonce is the row itself: unique (chain_id, sender, nonce). There is no counter to drift.
-- state: BOUND (no bytes yet, its caller was told nothing), VACANT (refused before any signature: the next write takes
-- the nonce over), SUBMITTED, MINED, FINALIZED, REVERTED, FAILED, REPLACED, CANCELLED. No row is ever deleted.
-- max_fee and max_priority_fee are the terms of the first signature, so that whoever finishes an intent asks the signer
-- for the same bytes; max_priority_fee is null on networks with legacy fees. claims counts who asked the signer for them; 0: the signer's ledger gave the nonce to something that this database has lost.
create table transactions (
  id text primary key,
  account_id uuid not null,
  client_id text not null,
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  target bytea not null,
  value bytea not null,
  data bytea not null,
  gas_limit bigint not null,
  max_fee bytea not null,
  max_priority_fee bytea,
  claims int not null default 1,
  abi text not null,
  state text not null,
  hash bytea,
  block_number bigint,
  block_hash bytea,
  gas_used bigint,
  effective_gas_price bytea,
  succeeded boolean,
  revert jsonb,
  is_cancel boolean not null default false,
  is_final boolean not null default false,
  transitions jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (chain_id, sender, nonce)
);
create index transactions_account on transactions (account_id, chain_id, created_at, id);
create index transactions_open on transactions (chain_id, state, sender, nonce);
create index transactions_block on transactions (chain_id, is_final, block_number);

create table attempts (
  chain_id bigint not null,
  hash bytea not null,
  transaction_id text not null,
  raw bytea not null,
  gas_limit bigint not null,
  max_fee bytea not null,
  max_priority_fee bytea,
  is_cancel boolean not null default false,
  -- the head when it was signed: three blocks later its fee may be raised
  created_block bigint,
  created_at timestamptz not null default now(),
  -- when somebody last took it on to send these bytes; null: send them now
  broadcast_at timestamptz,
  primary key (chain_id, hash)
);
create index attempts_transaction on attempts (transaction_id);

create table idempotency_keys (
  account_id uuid not null,
  client_id text not null,
  route text not null,
  key text not null,
  request_hash bytea not null,
  transaction_id text,
  response jsonb,
  created_at timestamptz not null default now(),
  primary key (account_id, client_id, route, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
create index idempotency_keys_transaction on idempotency_keys (transaction_id);

-- Accounts of which a nonce was used by a transaction that this service did not make: no new write until an operator
-- has looked and deleted the row.
create table stopped_lanes (
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  hash bytea,
  reason text not null,
  created_at timestamptz not null default now(),
  primary key (chain_id, sender)
);
