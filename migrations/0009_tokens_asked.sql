-- tokens: the block at which a token was asked; null when it was not. A reorganisation below it takes the answer back.
alter table tokens add column asked_block bigint;
