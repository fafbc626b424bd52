-- history: what is known of transfers of native currency, a row for each network. They are in transfers, with token_type 1, and can not be
-- looked up by address: what was not looked at when its block was stored stays unknown.
create table native_coverage (
  chain_id bigint primary key,
  -- from this block on every value of a transaction, fee, withdrawal and reward is there, up to to_block, and since when accounts are looked for in them
  from_block bigint not null,
  from_at timestamptz not null,
  -- the same of internal transfers; null where neither logs nor traces tell of them
  internal_from_block bigint,
  internal_from_at timestamptz,
  -- the last block that was looked at: what follows another one begins anew
  to_block bigint not null,
  to_hash bytea,
  updated_at timestamptz not null default now()
);
alter table native_coverage set (fillfactor = 50);
