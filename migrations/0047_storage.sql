-- transactions: what is kept of a write, and for how long. Bytes of a final write go after a week (src/transactions/sweep.ts); what
-- finds open writes and unsent bytes holds those only, and is gone from with them.
-- Both at once, before anything: a program of before holds rows of the one while it asks for the other.
lock table transactions, attempts in access exclusive mode;
-- null: dropped. The signer's ledger has them for good.
alter table attempts alter column raw drop not null;
-- Through which final write of each network, in the order of block and id, bytes were dropped.
create table swept (
  chain_id bigint primary key,
  block_number bigint not null,
  id text not null
) with (fillfactor = 50);
drop index transactions_open;
create index transactions_open on transactions (chain_id, sender, nonce) where state in ('BOUND', 'SUBMITTED', 'VACANT');
-- The id was there for an order that the few writes of one millisecond need no index for.
drop index transactions_account;
create index transactions_account on transactions (account_id, chain_id, created_at);
drop index attempts_unsent;
create index attempts_unsent on attempts (chain_id) where broadcast_at is null;
-- A write leaves three dead versions of its row within minutes, in whatever size of table: vacuum comes by what has died, soon.
alter table transactions set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000);
alter table attempts set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000);
-- One row a network, written with every block.
alter table cursors set (fillfactor = 50);
alter table ledger_cursor set (fillfactor = 50);
