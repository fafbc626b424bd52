-- operator: what operators did, one row an action, each covering the one before it; rows are only added.
-- before and after are the JSON text of what changed, as it was hashed.
create table operator_actions (
  seq bigint primary key,
  at timestamptz not null,
  actor text not null,
  via text not null check (via in ('api', 'command')),
  action text not null,
  target text not null,
  before text,
  after text,
  record bytea not null check (length(record) = 32)
);

-- One row, whose lock puts actions in order.
create table operator_head (
  id int primary key check (id = 1),
  seq bigint not null,
  record bytea not null check (length(record) = 32)
);
