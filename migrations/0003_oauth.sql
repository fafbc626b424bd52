-- oauth: what the authorization server remembers. Ids that are secrets (codes, refresh tokens) are stored as SHA-256.
create table oauth_records (
  kind text not null,
  id_hash bytea not null,
  grant_id text,
  uid text,
  user_id text,
  client_id text,
  payload jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  consumed_at timestamptz,
  primary key (kind, id_hash)
);
create index oauth_records_grant on oauth_records (grant_id);
create index oauth_records_uid on oauth_records (kind, uid);
create index oauth_records_user on oauth_records (user_id, kind);
create index oauth_records_expiry on oauth_records (expires_at);

-- Access tokens are not stored; a revoked grant is remembered until its last access token has expired.
create table revoked_grants (
  grant_id text primary key,
  revoked_at timestamptz not null default now(),
  forget_at timestamptz not null
);
create index revoked_grants_time on revoked_grants (revoked_at);

-- What a person allowed an application, once for all their sign-ins to it.
create table consents (
  account_id uuid not null,
  client_id text not null,
  permissions jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (account_id, client_id)
);

-- A provider name belongs to one issuer for ever.
create table provider_issuers (
  provider text primary key,
  issuer text not null,
  created_at timestamptz not null default now()
);

-- One row per visit to an identity provider, from the redirect there to the answer.
create table sign_ins (
  state_hash bytea primary key,
  interaction_uid text not null,
  provider text not null,
  nonce text not null,
  code_verifier text not null,
  browser_hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  consumed_at timestamptz
);
create index sign_ins_expiry on sign_ins (expires_at);
