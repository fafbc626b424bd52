-- transactions: an operator has looked and asks for a stopped account to go on; the keeper of its network does it.
alter table stopped_lanes add column resume_asked_at timestamptz;
