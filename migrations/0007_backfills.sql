-- history: how far the transfers of accounts that existed before were looked up, group by group of accounts.
-- members is the SHA-256 of the group's account ids: a group of others starts anew. next_block is the first block not done.
create table backfills (
  chain_id bigint not null,
  from_block bigint not null,
  members bytea not null,
  accounts int not null,
  next_block bigint not null,
  updated_at timestamptz not null default now(),
  primary key (chain_id, from_block, members)
);
