-- users: an account that the operator froze; its tokens move nothing.
alter table accounts add column frozen_at timestamptz;
