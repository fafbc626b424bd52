-- waits: how often in a row a node refused the newest bytes of a write with an answer of its own, and when they are sent again.
alter table waits add column refusals int not null default 0;
alter table waits add column resend_at timestamptz;
-- operations: how many may travel together after nodes refused the transaction that carried them; 0: alone it was refused, too; null: any number.
alter table operations add column pack_limit int;
