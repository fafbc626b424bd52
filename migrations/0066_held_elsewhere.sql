-- users: what the signer's identity signed of an account whose key is elsewhere, too (docs/signing-log.md), as JSON: a signer that was
-- restored from before is told by it. null: of none such, or not read from the signer yet.
alter table accounts add column elsewhere text;
create index accounts_elsewhere on accounts (account_id) where elsewhere is not null;
