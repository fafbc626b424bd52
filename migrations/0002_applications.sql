-- applications: networks, the registry of applications, and who signed in to which.
-- The addresses of nodes are not data: they may hold keys, and live in NETWORKS_FILE.
create table networks (
  chain_id bigint primary key,
  name text not null unique,
  genesis_hash bytea not null,
  symbol text not null default 'ETH',
  coin text not null default 'Ether',
  decimals int not null default 18,
  -- { tx, address, block }: templates with {hash}, {address}, {number}; null where this service shows its own pages
  explorer jsonb,
  -- `finalized` (the node's tag) or a number of blocks
  finality text not null default 'finalized',
  multicall3 bytea,
  created_at timestamptz not null default now()
);

create table applications (
  client_id text primary key,
  name text not null,
  chain_id bigint not null,
  kind text not null,
  redirect_uris jsonb not null,
  permissions jsonb not null,
  allowed_origins jsonb not null,
  secret_hashes jsonb not null,
  logo_uri text,
  created_at timestamptz not null default now(),
  suspended_at timestamptz
);

create table application_users (
  client_id text not null,
  account_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (client_id, account_id)
);
