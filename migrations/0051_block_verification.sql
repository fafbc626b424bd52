-- networks: how blocks are checked, by what is checked: the hash, the Bloom filter, or the count of receipts alone.
alter table networks rename column follow_strict to block_verification;
update networks set block_verification = case block_verification when 'on' then 'hash' when 'off' then 'bloom' when 'lax' then 'count' end
  where block_verification is not null;
