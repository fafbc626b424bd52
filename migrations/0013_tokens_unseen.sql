-- tokens: token_type 0 is a token that somebody asked for by its address and that no transfer has shown yet. Those
-- were taken for ERC-20 before, and failed to tell their decimals when they were not: they are asked again.
update tokens set token_type = 0, state = 'NEW', attempts = 0, retry_at = now(), asked_block = null
where state = 'FAILED' and token_type = 20;
