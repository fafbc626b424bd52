-- tokens: what a contract is, by its own word, and which forms of logs were seen of it. A log has the form of one token standard, and says
-- nothing of the contract: one contract may be several. All are asked again; `retry_at` is set for KNOWN ones too.
alter table tokens
  drop column token_type,
  add column is_fungible boolean not null default false,
  add column is_collection boolean not null default false,
  add column is_wrapper boolean not null default false,
  add column logs_amounts boolean not null default false,
  add column logs_ids boolean not null default false,
  add column logs_deposits boolean not null default false;
update tokens set state = 'NEW', attempts = 0, retry_at = now();
-- Of tokens whose forms were not noted when they were seen.
update tokens set logs_amounts = seen.logs_amounts, logs_ids = seen.logs_ids
from (
  select chain_id, token, bool_or(token_type = 20) as logs_amounts, bool_or(token_type = 721) as logs_ids from transfers group by chain_id, token
) as seen
where seen.chain_id = tokens.chain_id and seen.token = tokens.address;
-- The few tokens whose transfers are not what their logs look like.
create index tokens_unlike_logs on tokens (chain_id, address) where
  ((is_fungible and not is_collection and logs_ids) or (is_collection and not is_fungible and logs_amounts)) or (is_wrapper and logs_deposits);
