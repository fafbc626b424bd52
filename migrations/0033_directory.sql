-- users: people of an application by their name.
create index identities_username on identities (username);
-- applications: the people of one, the newest first.
create index application_users_newest on application_users (client_id, created_at, account_id);
