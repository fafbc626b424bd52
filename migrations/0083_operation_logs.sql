-- transactions: which logs of its transaction an operation made: those behind `after_log`, the dispatcher's word of the operation before it in
-- the same transaction (-1: it is the first), and before `event_log`, the dispatcher's word of itself. Null until that has been read.
alter table operations add column after_log int4, add column event_log int4;
