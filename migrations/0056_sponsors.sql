-- sponsors: accounts of the operator that send people what a write of theirs costs, on networks whose gas is `topup`. An account of this
-- kind may pay on several networks, under one name.
create table sponsors (
  account_id uuid not null references accounts,
  chain_id int8 not null,
  name text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, chain_id),
  unique (chain_id, name)
);
-- applications: who pays for gas on a network: `self` or `topup`.
alter table networks add column gas text not null default 'self';
