-- consents: where answers went and which secrets the application had when it was allowed something.
alter table consents add column ways jsonb not null default '[]';
