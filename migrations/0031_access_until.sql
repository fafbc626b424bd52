-- oauth: until when an access token of a grant may live. A revocation is remembered until then, whatever the settings
-- have become since.
alter table oauth_records add column access_until timestamptz;
