-- transactions: the queue of an account, and what its open writes reserve. Bytes that are not to be given to a node yet, because too many
-- lower nonces of the account are open, have its sender and nonce here until they are; broadcast_at says when they were put
-- back. By lane, and only these: nobody else pays for the index.
-- Both at once, before anything: a program of before holds rows of the one while it asks for the other.
lock table transactions, attempts in access exclusive mode;
alter table attempts add column queued_sender bytea;
alter table attempts add column queued_nonce bigint;
create index attempts_queued on attempts (chain_id, queued_sender, queued_nonce) where queued_nonce is not null;
-- Wei that an open write may yet take from its account: value and gas at the price of its newest bytes; gas alone of a cancel.
-- A number, not 32 bytes, because the statement that binds adds them up. Null of what was bound before: it reserves nothing.
alter table transactions add column reserved numeric;
