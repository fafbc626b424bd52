-- users: since when every sign-in of before counts for nothing.
alter table accounts add column signed_out_at timestamptz;
