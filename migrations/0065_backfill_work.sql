-- history: what is backfilled by itself, a row for each network that has an account without its past. Who holds it fills the past of one group
-- of accounts; who takes it over continues with the same group. The epoch fences off a holder that was paused.
create table backfill_work (
  chain_id bigint primary key,
  epoch bigint not null,
  lease_owner text,
  lease_until timestamptz,
  account_ids uuid[],
  from_block bigint,
  target_block bigint,
  next_block bigint,
  blocked_by text,
  updated_at timestamptz not null default now()
);
-- users: the signer made the key for this row, so that no one knew the address before created_at. False where it does not say so.
alter table accounts add column is_key_new boolean not null default false;
-- Accounts whose history was read while a part of it was not here: they are filled first. Until they are.
create table backfill_wishes (
  chain_id bigint not null,
  account_id uuid not null,
  asked_at timestamptz not null default now(),
  primary key (chain_id, account_id)
);
