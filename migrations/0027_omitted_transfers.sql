-- history (transfers): how many more transfers of the same token, block and kind were left out after this one.
alter table transfers add column omitted int not null default 0;
