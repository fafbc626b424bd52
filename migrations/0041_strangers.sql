-- transfers: for whom a sender had an account made before its owner came, of the last day: at most twenty rows a sender.
create table strangers (
  sender_id uuid not null,
  user_id text not null,
  made_at timestamptz not null default now(),
  primary key (sender_id, user_id)
);
