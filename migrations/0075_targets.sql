-- transactions: what an account has called or paid, by address: whether a person ever dealt with a token or with somebody decides
-- what is spam in their history.
create index transactions_target on transactions (account_id, chain_id, target);
