-- applications: contracts whose writes accounts send themselves, and are topped up for, where gas is `sponsor`: a list of addresses, lower-case; null: none.
alter table networks add column top_up_contracts jsonb;
