-- applications: contracts, `0x` and 40 lower-case digits, that the sponsor budget of an application pays for; null: any. Of a network: wei
-- that its sponsors may spend in a rolling day for all applications together, null: as much as those have; and below which balance a
-- sponsor counts as low, null: what a hundred top-ups cost.
alter table applications add column sponsor_contracts jsonb;
alter table networks
  add column sponsor_per_day numeric(78,0) check (sponsor_per_day >= 0),
  add column sponsor_low numeric(78,0) check (sponsor_low >= 0);
-- transactions: wei that sponsors paid on a network by the hour, for all applications.
create table gas_spent_on_network (
  chain_id int8 not null,
  hour timestamptz not null,
  wei numeric(78,0) not null,
  primary key (chain_id, hour)
) with (fillfactor = 70);
-- What was counted before this migration counts on.
insert into gas_spent_on_network (chain_id, hour, wei)
  select applications.chain_id, gas_spent.hour, sum(gas_spent.wei)
  from gas_spent join applications on applications.client_id = gas_spent.client_id
  where gas_spent.account_id = '00000000-0000-0000-0000-000000000000'
  group by applications.chain_id, gas_spent.hour;
-- sponsors: those that hold too little, and since when servers see it.
create table low_sponsors (
  chain_id int8 not null,
  account_id uuid not null,
  since timestamptz not null default now(),
  primary key (chain_id, account_id)
);
-- transactions: funds that go back from a sponsor to its operator, one for each grant of the signer's own user. Of one that was asked for
-- a server of the API sends the transaction; `amount` null: all that is there.
create table withdrawals (
  grant_id text primary key,
  chain_id int8 not null,
  sponsor_id uuid not null references accounts,
  target bytea not null,
  amount numeric(78,0),
  asked_at timestamptz not null default now(),
  -- its transaction, once that has bytes
  transaction_id text,
  -- why it was not sent; asked for once more it is tried once more
  refusal text
);
create index withdrawals_open on withdrawals (chain_id) where transaction_id is null and refusal is null;
