-- networks: where Multicall3 is was stored and read by nobody (docs/decisions/0006-batches-not-multicalls.md)
alter table networks drop column multicall3;
