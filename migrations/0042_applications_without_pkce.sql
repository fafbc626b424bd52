-- applications: a confidential application whose library knows no PKCE sends a nonce instead (OAuth 2.1 §7.5.1).
alter table applications add column needs_pkce boolean not null default true;
