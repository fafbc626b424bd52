-- signing-log: the newest signed head of the signer's ledger that this installation has seen. It is shown to the signer first of
-- all on every connection: one whose store is older, or took another way, refuses.
create table signing_log_head (
  only_row int primary key check (only_row = 1),
  origin text not null,
  size bigint not null,
  at timestamptz not null,
  note text not null
);
