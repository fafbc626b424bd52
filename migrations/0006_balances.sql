-- history (transfers): which tokens an account has ever met, in the order of their addresses, for its balances, and
-- the transfers of one token.
create index transfers_token on transfers (account_id, chain_id, token, token_type);
