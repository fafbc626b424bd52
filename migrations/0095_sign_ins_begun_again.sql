-- oauth: the authorization request that a visit to a provider serves, as a query. Null where the visit links an identity.
alter table sign_ins add column request text;
