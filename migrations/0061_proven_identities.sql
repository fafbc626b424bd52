-- users: the authorization server's signature of a linked identity, which only it can make: id of its key, a space, base64url. Null for the
-- identity that an account was made for, whose id is the account's, and for those that were linked before and nobody has proven yet.
alter table identities add column proof text;
create index identities_with_proof on identities (provider, subject) where proof is not null;
