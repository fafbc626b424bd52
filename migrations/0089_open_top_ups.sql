-- transactions: top-ups that no request has settled yet, which the keeper looks for once a minute.
create index top_ups_open on top_ups (chain_id, created_at) where settled_at is null;
