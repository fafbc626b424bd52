-- applications: where a browser may be sent after signing out, besides redirect URIs and the front pages of origins; whether it is
-- the operator's own.
alter table applications add column post_logout_redirect_uris jsonb not null default '[]';
alter table applications add column is_first_party boolean not null default false;
