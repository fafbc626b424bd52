-- history: one index for each way to ask for a page, so that none of them reads past what it shows.
-- token_type * 8 + direction * 2 + is_spam is the kind of a transfer: a page reads the newest of each kind that it
-- shows. Within a kind the order is that of the primary key, less the direction: an account has one row of a transfer.
drop index transfers_token;
create index transfers_kind on transfers (account_id, chain_id, (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);
create index transfers_token on transfers (account_id, chain_id, token, (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);
create index transfers_counterparty on transfers (account_id, chain_id, (case when direction = 0 then sender else recipient end), (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);
