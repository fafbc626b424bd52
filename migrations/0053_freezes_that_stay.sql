-- users: when an account was unfrozen; applications: when one was resumed. The signer keeps what was frozen until a list says, with
-- a time after the freeze, that it is no longer: a database from before the freeze says nothing.
alter table accounts add column unfrozen_at timestamptz;
alter table applications add column resumed_at timestamptz;
