-- cursors: why the follower cannot take the block behind `block_number`, in our own words; null as soon as it does. `halted` is for good.
alter table cursors add column blocked_by text;
