-- applications: which applications somebody signed in to, for /account.
create index application_users_account on application_users (account_id);
