-- applications: what a network has otherwise than the settings say; null where FOLLOW_STRICT and FEE_CAP_GWEI hold.
alter table networks add column follow_strict text;
alter table networks add column fee_cap_gwei bigint;
