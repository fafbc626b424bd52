-- applications: the first block of a network whose transfers are looked up by themselves; null: as BACKFILL_FROM_BLOCK says.
alter table networks add column backfill_from bigint check (backfill_from >= 0);
