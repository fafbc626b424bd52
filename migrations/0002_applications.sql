-- applications: networks, the registry of applications, and who signed in to which.
-- RPC addresses are configuration, not data: they may hold keys.
create table networks (
  chain_id bigint primary key,
  name text not null unique,
  genesis_hash bytea not null,
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
