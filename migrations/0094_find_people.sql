-- users: people in the order in which their accounts were made, and by how a name or an e-mail address begins, for operators.
create index accounts_created on accounts (created_at, account_id);
create index identities_username_begins on identities (lower(username) text_pattern_ops);
create index identities_email_begins on identities (lower(email) text_pattern_ops);
