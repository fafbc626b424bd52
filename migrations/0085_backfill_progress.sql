-- history: how far the past of a network is, for operators: accounts that wait for theirs, those of them whose history was read, and those
-- that have it, as the last look counted them and each group that is through changed them; null before the first look.
alter table backfill_work
  add column waiting bigint,
  add column asked bigint,
  add column covered bigint,
  add column counted_at timestamptz,
  -- at which it goes now, and when the last account would have its past at that
  add column blocks_per_second double precision,
  add column done_at timestamptz;
-- Who asked last is next.
create index backfill_wishes_latest on backfill_wishes (chain_id, asked_at);
