-- applications: MAC of the authorization server over everything of an application that leads to a token: id of its key, a space, base64url.
alter table applications add column mac text;
-- oauth: the same over sessions, codes, refresh tokens, grants and interactions; what people allowed; visits to providers.
-- Null for rows from before, and for what is noted only so that it is not used twice.
alter table oauth_records add column mac text;
alter table consents add column mac text;
alter table sign_ins add column mac text;
