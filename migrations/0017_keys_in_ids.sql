-- transactions: an idempotency key is in the id of its transaction (src/ids.ts), the hash of its request in its row; so
-- what the signer's ledger knows of an id it knows of the key, also when this database has lost both.
alter table transactions add column request_hash bytea;

-- Keys that were used before: the id that each would have had, and the transaction that has another. Nothing is added.
create table earlier_keys (key_id text primary key, transaction_id text not null);
insert into earlier_keys (key_id, transaction_id)
select 'tx_' || substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-8' || substr(h, 14, 3) || '-'
  || substr('89ab', ((get_byte(decode(h, 'hex'), 8) >> 4) & 3) + 1, 1) || substr(h, 18, 3) || '-' || substr(h, 21, 12),
  transaction_id
from (
  select transaction_id, encode(sha256(convert_to('chatelaine transaction', 'UTF8') || '\x00'::bytea
    || convert_to(account_id::text, 'UTF8') || '\x00'::bytea || convert_to(client_id, 'UTF8') || '\x00'::bytea
    || convert_to(route, 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8') || '\x00'::bytea || convert_to('0', 'UTF8')), 'hex') as h
  from idempotency_keys where transaction_id is not null
) as keys;
update transactions set request_hash = keys.request_hash from idempotency_keys keys where keys.transaction_id = transactions.id;
drop table idempotency_keys;

-- Through which record of the signer's ledger this database is known to hold what was signed. It goes back when the
-- database does: what the ledger has after it is then taken in again.
create table ledger_cursor (
  only_row int primary key check (only_row = 1),
  seq bigint not null,
  record text not null,
  updated_at timestamptz not null default now()
);
insert into ledger_cursor (only_row, seq, record) values (1, 0, repeat('0', 64));
