-- transactions: coins that a sponsor sent a person, or is to send, by (network, account, ordinal); the idempotency key of its transaction is
-- made of these. One that is not settled is finished before the next begins.
create table top_ups (
  chain_id int8 not null,
  account_id uuid not null references accounts,
  ordinal int not null,
  sponsor_id uuid not null references accounts,
  client_id text not null,
  -- what the person gets
  wei numeric(78,0) not null,
  -- what it takes of budgets: with the highest fee until it is settled, then with the one that was paid
  charged numeric(78,0) not null,
  hour timestamptz not null,
  created_at timestamptz not null default now(),
  settled_at timestamptz,
  -- the block that it was mined in; null where it never was
  block_number int8,
  primary key (chain_id, account_id, ordinal)
);
-- transactions: wei that sponsors paid for writes of an application by the hour: by person, and for all of them under the zero uuid.
create table gas_spent (
  client_id text not null,
  account_id uuid not null,
  hour timestamptz not null,
  wei numeric(78,0) not null,
  primary key (client_id, account_id, hour)
) with (fillfactor = 70);
