-- transactions: writes that wait longer than they should: when a keeper looks at each next, and what stands in its way.
-- A row comes when a keeper first looks at a nonce, never on the way of a write, and goes when the nonce is settled. Only
-- the key is indexed, so what changes stays on its page.
create table waits (
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  -- the attempt that was looked at: one that came since is looked at anew
  hash bytea,
  -- no keeper looks before; null: at once. Who moves it has the look. Doubled each time that nothing came of it
  due_at timestamptz,
  pause_seconds int not null default 0,
  -- what stands in its way, for people; null: nothing that is known
  trouble text,
  detail text,
  since timestamptz,
  -- when the operator was told
  alarmed_at timestamptz,
  primary key (chain_id, sender, nonce)
) with (fillfactor = 70);
