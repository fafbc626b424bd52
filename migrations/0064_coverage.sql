-- history: from which block on the transfers of an account are all here. The history knows every account that was stored before it
-- looked at a block: what it notes of itself now and then tells it for all accounts, and coverage for those that were looked up.
-- Every few minutes: all blocks above block_number were looked at later than this.
create table history_marks (
  chain_id bigint not null,
  at timestamptz not null,
  block_number bigint not null,
  primary key (chain_id, at)
);
insert into history_marks (chain_id, at, block_number)
select chain_id, clock_timestamp(), block_number from history_cursors;

-- Of accounts whose past was looked up, where that is complete.
create table coverage (
  account_id uuid not null,
  chain_id bigint not null,
  covered_from bigint not null,
  updated_at timestamptz not null default now(),
  primary key (account_id, chain_id)
);
-- Behind this block the history knew the accounts of a backfill already; null for those that were begun before this was noted.
alter table backfills add column target_block bigint;
