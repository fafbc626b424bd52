-- applications: identity providers of their own, whose tokens an application exchanges (RFC 8693).
alter table applications add column issuers jsonb not null default '[]';

-- A provider name belongs to one issuer, one subject claim and the application that brought it, for ever: the rows
-- stay when the application no longer trusts the issuer.
create table application_providers (
  provider text primary key,
  issuer text not null,
  subject_claim text not null,
  client_id text not null,
  created_at timestamptz not null default now()
);
