-- applications: how much each may use in a time (`{counts, limit, per}`), and its weight when not all can be served.
alter table applications add column quotas jsonb not null default '[]';
alter table applications add column weight int not null default 1;
-- http: what was leased of each quota in its hour, day or month, one row for all of them; written once per lease.
create table application_usage (
  client_id text not null,
  counts text not null,
  per text not null,
  starts_at timestamptz not null,
  used bigint not null,
  -- what the last lease was given
  granted bigint not null,
  primary key (client_id, counts, per)
) with (fillfactor = 50);
