-- transactions: mere payments by who received them, for the list of coins on the account page.
create index transactions_payments on transactions (chain_id, target, created_at, id) where length(data) = 0;
