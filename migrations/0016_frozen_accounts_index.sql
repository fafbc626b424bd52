-- users: which accounts are frozen is read every few seconds by every process, and of millions few are.
create index accounts_frozen on accounts (frozen_at) where frozen_at is not null;
