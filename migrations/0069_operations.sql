-- transactions: what people had signed for a sponsor to send, one row for each intent. Ids are of the same space as those of `transactions`;
-- (network, space, sequence) is the id in the dispatcher, which is used up at most once. state: as of `transactions`; BOUND: nothing carries it
-- yet, its caller was told nothing. No row is ever deleted but one that the signer refused before any signature.
create table operations (
  id text primary key,
  account_id uuid not null references accounts,
  client_id text not null,
  chain_id int8 not null,
  sender bytea not null,
  space bytea not null,
  sequence int8 not null,
  -- as the dispatcher takes them: how many, and of each recipient, value and data
  calls bytea not null,
  gas_limit int8 not null,
  -- the last second in which it can be done, since 1970
  deadline int8 not null,
  -- the nonce of the account by which it delegates in the same transaction; null: it did before
  authorization_nonce int8,
  claims int not null default 1,
  abi text not null,
  request_hash bytea,
  state text not null,
  is_cancel boolean not null default false,
  -- the transaction that carries it, or in which it was settled; all of them are in `carried`
  outer_id text,
  block_number int8,
  block_hash bytea,
  is_final boolean not null default false,
  -- what the dispatcher said of why it failed
  reason bytea,
  revert jsonb,
  -- wei that it takes of budgets, in this hour: at most, until it is settled
  charged numeric(78,0) not null,
  hour timestamptz not null,
  -- `charged` is what it cost, by the receipts of what carried it
  is_counted boolean not null default false,
  transitions jsonb not null default '[]',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
) with (fillfactor = 80);
create unique index operations_sequence on operations (chain_id, space, sequence);
create index operations_account on operations (account_id, chain_id, created_at, id);
create index operations_open on operations (chain_id, state, updated_at) where state in ('BOUND', 'SUBMITTED');
create index operations_block on operations (chain_id, block_number) where not is_final and block_number is not null;
create index operations_uncounted on operations (chain_id, updated_at) where not is_counted and state not in ('BOUND', 'SUBMITTED');
create index operations_delegating on operations (chain_id, sender) where authorization_nonce is not null;
-- transactions: which transactions of sponsors carried an operation, or cancelled it.
create table carried (
  operation_id text not null,
  transaction_id text not null,
  primary key (operation_id, transaction_id)
);
create index carried_transaction on carried (transaction_id);
-- transactions: where the next block of numbers of a space begins; a process takes 256 at a time.
create table operation_sequences (
  chain_id int8 not null,
  space bytea not null,
  next int8 not null,
  primary key (chain_id, space)
);
-- Accounts that delegate in a transaction of a sponsor, with the nonce of each; null: it is no transaction of a sponsor that carries operations.
alter table transactions add column authorizations jsonb;
-- applications: the address that says which sponsors may send operations, where gas is `sponsor`; 20 bytes.
alter table networks add column gas_space bytea;
