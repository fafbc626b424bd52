-- users: when the key of an account left by its person's export, and when it was brought. Such an account's nonces may be used
-- elsewhere, so a foreign transaction stops nothing there.
alter table accounts add column exported_at timestamptz;
alter table accounts add column imported_at timestamptz;
