-- users: accounts and the identities people sign in with.
create table accounts (
  account_id uuid primary key,
  user_id text not null unique,
  address bytea not null unique,
  created_at timestamptz not null default now()
);

-- One row per (provider, the provider's immutable subject). Names, pictures and e-mail are what the provider said last;
-- nothing is ever matched by them. signed_in_at is null for an account made before its owner came.
create table identities (
  provider text not null,
  subject text not null,
  account_id uuid not null,
  username text not null,
  image_src text,
  email text,
  email_verified boolean,
  created_at timestamptz not null default now(),
  signed_in_at timestamptz,
  primary key (provider, subject)
);
create index identities_account on identities (account_id);
