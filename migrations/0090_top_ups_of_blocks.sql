
-- transactions: which top-ups a reorganisation has to be settled again.
create index top_ups_settled on top_ups (chain_id, block_number) where settled_at is not null and block_number is not null;
