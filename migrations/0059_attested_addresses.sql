-- users: what the signer's identity signed of each address (Ed25519, 64 bytes; docs/signing-log.md); null until it was asked for.
alter table accounts add column attestation bytea;
create index accounts_not_attested on accounts (account_id) where attestation is null;
-- users: how far the accounts that were there before were attested, and by which identity. Afterwards none may lack it.
create table accounts_attested (
  only_row int primary key check (only_row = 1),
  origin text not null,
  through uuid not null,
  is_done boolean not null
);
-- signing-log: the verifier key of the identity that signed the head, for the time that the signer is away.
alter table signing_log_head add column key text;
