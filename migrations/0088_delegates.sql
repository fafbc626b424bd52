-- transactions: what code accounts of a network delegate to where gas is `sponsor`, by name, and for which each operation is signed:
-- its dispatcher is the one that is made for that code, and its id is used up there and nowhere else.
alter table networks add column delegate text not null default 'chatelaine';
alter table operations add column delegate text not null default 'chatelaine';
