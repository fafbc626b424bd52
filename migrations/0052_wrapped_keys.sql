-- users: the keys of accounts as the signer keeps them, a second time, before an address is told. A key opens with its data
-- key, and that with the signer's master key (KEK), which the server never has.
create table wrapped_data_keys (
  id bytea primary key,
  epoch int not null,
  provider text not null,
  wrapped bytea not null,
  created_at timestamptz not null,
  maced_from int8
);
create table wrapped_keys (
  user_id text primary key,
  address bytea not null,
  version int not null,
  data_key_id bytea not null,
  wrapped bytea not null,
  iv bytea not null,
  tag bytea not null
);
create index wrapped_keys_data_key on wrapped_keys (data_key_id);
-- How far the signer's keys were copied that were there before; generation: as the signer counts what it wraps anew.
create table wrapped_keys_copied (
  only_row int primary key check (only_row = 1),
  generation int8 not null,
  through int8 not null
);
insert into wrapped_keys_copied values (1, 0, 0);
