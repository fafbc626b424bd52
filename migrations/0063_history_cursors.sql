-- follower: how far the transfers of each network are stored. Its cursor is no longer that of the blocks, so that what transactions
-- became does not wait for transfers. Who follows a network holds it; the epoch fences off a holder that was paused.
create table history_cursors (
  chain_id bigint primary key,
  block_number bigint not null,
  block_hash bytea not null,
  epoch bigint not null,
  lease_owner text,
  updated_at timestamptz not null default now()
);
-- Like cursors: one row a network, written with every block.
alter table history_cursors set (fillfactor = 50);
-- Until now both were stored together.
insert into history_cursors (chain_id, block_number, block_hash, epoch, lease_owner)
select chain_id, block_number, block_hash, 0, null from cursors;
