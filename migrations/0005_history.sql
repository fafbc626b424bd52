-- follower (blocks, cursors), history (transfers), tokens (tokens): the followed chain, the transfers that touch an
-- account of ours, what tokens say of themselves.
-- blocks: the newest stretch of the canonical chain, kept to find the common ancestor after a reorganisation.
create table blocks (
  chain_id bigint not null,
  number bigint not null,
  hash bytea not null,
  parent_hash bytea not null,
  mined_at timestamptz not null,
  base_fee bytea,
  primary key (chain_id, number)
);

-- One row per network: where the follower stands, and who holds it. An epoch fences off a holder that was paused.
create table cursors (
  chain_id bigint primary key,
  block_number bigint not null,
  block_hash bytea not null,
  finalized_number bigint not null,
  epoch bigint not null,
  lease_owner text,
  lease_until timestamptz,
  halted text,
  updated_at timestamptz not null default now()
);

-- One row per participating user: a page is one backward scan of the primary key.
-- direction: 0 in, 1 out, 2 self. token_type: 20, 721, 1155.
create table transfers (
  account_id uuid not null,
  chain_id bigint not null,
  block_number bigint not null,
  log_index int not null,
  batch_index int not null,
  direction smallint not null,
  token_type smallint not null,
  token bytea not null,
  sender bytea not null,
  recipient bytea not null,
  token_id bytea,
  value bytea not null,
  hash bytea not null,
  block_hash bytea not null,
  mined_at timestamptz not null,
  is_spam boolean not null,
  primary key (account_id, chain_id, block_number, log_index, batch_index, direction)
);
create index transfers_block on transfers (chain_id, block_number);

-- state: NEW, KNOWN, FAILED. NEW and FAILED ones are asked at retry_at, which is null for KNOWN ones.
create table tokens (
  chain_id bigint not null,
  address bytea not null,
  token_type smallint not null,
  symbol text not null,
  name text not null,
  decimals int not null,
  state text not null,
  attempts int not null,
  retry_at timestamptz,
  updated_at timestamptz not null default now(),
  primary key (chain_id, address)
);
create index tokens_due on tokens (chain_id, retry_at);
