-- applications: access tokens bound to a key, always (RFC 9449).
alter table applications add column needs_dpop boolean not null default false;
-- consents: what was allowed to programs that hold a key, by its thumbprint, each with when it was allowed last.
alter table consents add column keys jsonb not null default '{}';
