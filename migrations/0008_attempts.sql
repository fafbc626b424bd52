-- transactions: the attempts that nobody has sent yet, or that are to be sent again at once, without a look at all
-- that are under way.
create index attempts_unsent on attempts (chain_id, broadcast_at);
