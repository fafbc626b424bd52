-- follower: what the results of blocks are read from at the nodes of a network: `block receipts`, `logs` or `receipts`, one for each
-- transaction; null before anybody has followed it.
alter table cursors add column read_from text;
