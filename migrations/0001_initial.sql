-- Tables by subject: the first comment of a group names the folder of src that writes them. An address is 20 bytes, a hash 32. An amount of the
-- chain is 32 bytes, big-endian; wei that the database adds up are numeric. Statements end with a semicolon at the end of a line;
-- function bodies are between $$.

------------------------------------------------------------------------------------------------------------------------------------------
-- users: accounts, the identities that users sign in with, copies of the signer's keys.

create table accounts (
  account_id uuid primary key,
  user_id text not null unique,
  address bytea not null unique,
  created_at timestamptz not null default now(),
  -- the signer made the key for this row: nobody knew the address before created_at
  is_key_new boolean not null default false,
  -- what the signer's identity signed of the address: Ed25519, 64 bytes (docs/reference/signing-log.md). null: someone took it away
  attestation bytea,
  -- the operator froze the account: its tokens move nothing
  frozen_at timestamptz,
  -- The signer keeps a freeze until a list of the server lifts it with a time after the freeze: a database from before the freeze lifts nothing.
  unfrozen_at timestamptz,
  -- sign-ins up to this time are void
  signed_out_at timestamptz,
  -- when the user exported the key, and when it was imported. The nonces of such an account may be used elsewhere, so a foreign transaction
  -- does not stop the account.
  exported_at timestamptz,
  imported_at timestamptz,
  -- what the signer's identity signed of an account whose key is elsewhere, too, as JSON: shown to a signer that was restored from an older
  -- copy. null: the key is not elsewhere, or the signer was not asked yet
  elsewhere text
);
-- operators list users in the order in which their accounts were made
create index accounts_created on accounts (created_at, account_id);
-- Every process reads the frozen accounts every few seconds: of millions few are.
create index accounts_frozen on accounts (frozen_at) where frozen_at is not null;
create index accounts_elsewhere on accounts (account_id) where elsewhere is not null;
create index accounts_not_attested on accounts (account_id) where attestation is null;

-- The identity of the signer that has attested all accounts. Until it is the present one, the signer is asked for each that lacks its word; afterwards
-- a bounded number of times.
create table accounts_attested (
  only_row int primary key check (only_row = 1),
  origin text not null
);

-- One row for each provider and subject, which the provider never changes. Names, pictures and e-mail addresses are what the provider said
-- last: nothing is matched by them. A linked identity leads to an account that was made for another one.
create table identities (
  provider text not null,
  subject text not null,
  account_id uuid not null,
  username text not null,
  image_src text,
  email text,
  email_verified boolean,
  created_at timestamptz not null default now(),
  -- null: the account was made before its user signed in
  signed_in_at timestamptz,
  -- as applications.seal, a signature: the identity was linked. null: the account was made for it, whose id is the account's
  seal text,
  primary key (provider, subject)
);
create index identities_account on identities (account_id);
create index identities_username on identities (username);
-- operators find users by how a name or an e-mail address begins
create index identities_username_begins on identities (lower(username) text_pattern_ops);
create index identities_email_begins on identities (lower(email) text_pattern_ops);

-- The keys of accounts as the signer wraps them, a second time, stored before an address is told. A key opens with its data key, and that with
-- the signer's master key (KEK), which the server never has.
create table wrapped_data_keys (
  id bytea primary key,
  epoch int not null,
  provider text not null,
  wrapped bytea not null,
  created_at timestamptz not null
);

create table wrapped_keys (
  user_id text primary key,
  address bytea not null,
  version int not null,
  data_key_id bytea not null,
  wrapped bytea not null,
  iv bytea not null,
  tag bytea not null
);
create index wrapped_keys_data_key on wrapped_keys (data_key_id);

-- How far the signer's keys were copied; generation: the signer counts how often it wrapped all of them again.
create table wrapped_keys_copied (
  only_row int primary key check (only_row = 1),
  generation bigint not null,
  through bigint not null
);
insert into wrapped_keys_copied values (1, 0, 0);

------------------------------------------------------------------------------------------------------------------------------------------
-- applications: networks, the registry of applications, and who signed in to which.

-- URLs of nodes are not data: they may hold keys, and are in NETWORKS_FILE.
create table networks (
  chain_id bigint primary key,
  name text not null unique,
  genesis_hash bytea not null,
  symbol text not null default 'ETH',
  coin text not null default 'Ether',
  -- { tx, address, block }: templates with {hash}, {address}, {number}. null: this service shows pages of its own
  explorer jsonb,
  -- `finalized` (the node's tag) or a number of blocks
  finality text not null default 'finalized',
  -- `hash`, `bloom` or `count`. null: as BLOCK_VERIFICATION says
  block_verification text,
  -- null: as FEE_CAP_GWEI says
  fee_cap_gwei bigint,
  -- the first block from which past transfers are looked up. null: as BACKFILL_FROM_BLOCK says
  backfill_from bigint check (backfill_from >= 0),
  -- who pays for gas: `self`, `topup` or `sponsor`
  gas text not null default 'self',
  -- Where gas is `sponsor`: what code accounts delegate to, by name; the address that says which sponsors may send operations; and contracts
  -- whose writes accounts send themselves and are topped up for, lower-case, null: none.
  delegate text not null default 'chatelaine',
  gas_space bytea,
  top_up_contracts jsonb,
  -- wei that sponsors may spend in a rolling day for all applications. null: as much as those have
  sponsor_per_day numeric(78,0) check (sponsor_per_day >= 0),
  -- the balance below which a sponsor counts as low. null: what a hundred top-ups cost
  sponsor_low numeric(78,0) check (sponsor_low >= 0),
  -- Wei that sponsors may pay in a rolling day for transfers from the account pages, for one user and for all: both or neither;
  -- null: nothing
  pages_per_user numeric(78,0) check (pages_per_user >= 0),
  pages_per_day numeric(78,0) check (pages_per_day >= 0),
  created_at timestamptz not null default now(),
  constraint networks_pages check ((pages_per_user is null) = (pages_per_day is null))
);

create table applications (
  client_id text primary key,
  name text not null,
  chain_id bigint not null,
  kind text not null,
  logo_uri text,
  redirect_uris jsonb not null,
  -- where a browser may be sent after signing out, besides redirect URIs and the front pages of origins
  post_logout_redirect_uris jsonb not null default '[]',
  permissions jsonb not null,
  allowed_origins jsonb not null,
  secret_hashes jsonb not null,
  -- the operator's own
  is_first_party boolean not null default false,
  -- false: a confidential application whose library knows no PKCE sends a nonce instead (OAuth 2.1 §7.5.1)
  needs_pkce boolean not null default true,
  -- access tokens are always bound to a key (RFC 9449)
  needs_dpop boolean not null default false,
  -- identity providers of its own, whose tokens it exchanges (RFC 8693)
  issuers jsonb not null default '[]',
  -- how much it may use in a time ({counts, limit, per}), and its weight when not all can be served
  quotas jsonb not null default '[]',
  weight int not null default 1,
  -- Wei that sponsors may pay for its writes in a rolling day, for one user and for all: both or neither; null: nothing. And the contracts
  -- that they pay for, `0x` and 40 lower-case digits; null: any.
  sponsor_per_user numeric(78,0) check (sponsor_per_user >= 0),
  sponsor_per_application numeric(78,0) check (sponsor_per_application >= 0),
  sponsor_contracts jsonb,
  created_at timestamptz not null default now(),
  suspended_at timestamptz,
  -- as accounts.unfrozen_at
  resumed_at timestamptz,
  -- What only the authorization server can make, over every field that leads to a token (src/store/seal.ts): key id, a space, base64url of a MAC.
  seal text,
  constraint applications_sponsor check ((sponsor_per_user is null) = (sponsor_per_application is null))
);

-- A provider name belongs to one issuer, one subject claim and the application that brought it: the row stays when the application no longer
-- trusts the issuer.
create table application_providers (
  provider text primary key,
  issuer text not null,
  subject_claim text not null,
  -- where the issuer's keys are. null: by discovery
  jwks_uri text,
  client_id text not null,
  created_at timestamptz not null default now()
);

create table application_users (
  client_id text not null,
  account_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (client_id, account_id)
);
-- /account lists the applications that a user signed in to
create index application_users_account on application_users (account_id);
create index application_users_newest on application_users (client_id, created_at, account_id);

-- http: what was leased of each quota in its hour, day or month. One row for all of them, written once a lease.
create table application_usage (
  client_id text not null,
  counts text not null,
  per text not null,
  starts_at timestamptz not null,
  used bigint not null,
  -- size of the last lease
  granted bigint not null,
  primary key (client_id, counts, per)
) with (fillfactor = 50);

------------------------------------------------------------------------------------------------------------------------------------------
-- oauth: what the authorization server remembers. Secrets (codes, refresh tokens, sessions) are stored as SHA-256. seal: as
-- applications.seal; null where the row only prevents a second use.

create table oauth_records (
  kind text not null,
  id_hash bytea not null,
  grant_id text,
  uid text,
  user_id text,
  client_id text,
  payload jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  consumed_at timestamptz,
  -- Until when an access token of the grant may live: a revocation is remembered until then, whatever the settings have become.
  access_until timestamptz,
  seal text,
  primary key (kind, id_hash)
);
create index oauth_records_grant on oauth_records (grant_id);
create index oauth_records_uid on oauth_records (kind, uid);
create index oauth_records_user on oauth_records (user_id, kind);
create index oauth_records_expiry on oauth_records (expires_at);

-- Access tokens are not stored: a revoked grant is remembered until its last access token has expired.
create table revoked_grants (
  grant_id text primary key,
  revoked_at timestamptz not null default now(),
  forget_at timestamptz not null
);
create index revoked_grants_time on revoked_grants (revoked_at);

-- What a user allowed an application, once for all sign-ins to it.
create table consents (
  account_id uuid not null,
  client_id text not null,
  permissions jsonb not null,
  -- what was allowed to programs that hold a key, by its thumbprint, each with when it was allowed last
  keys jsonb not null default '{}',
  -- where answers went, and which secrets the application had, when it was allowed something
  ways jsonb not null default '[]',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  seal text,
  primary key (account_id, client_id)
);

-- A provider name of PROVIDERS_FILE belongs to one issuer for ever.
create table provider_issuers (
  provider text primary key,
  issuer text not null,
  created_at timestamptz not null default now()
);

-- One row for each visit to an identity provider, from the redirect there to the answer.
create table sign_ins (
  state_hash bytea primary key,
  interaction_uid text not null,
  provider text not null,
  nonce text not null,
  code_verifier text not null,
  browser_hash bytea not null,
  -- the authorization request that the visit serves, as a query. null: the visit links an identity
  request text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  consumed_at timestamptz,
  seal text
);
create index sign_ins_expiry on sign_ins (expires_at);

------------------------------------------------------------------------------------------------------------------------------------------
-- transactions: intents bound to a nonce, the signed bytes of every attempt, stopped accounts.

-- The binding of a nonce is the row itself: unique (chain_id, sender, nonce). There is no counter to drift. No row is ever deleted.
-- state: BOUND (no bytes yet, its caller has no answer), VACANT (refused before any signature: the next write takes the nonce over),
-- SUBMITTED, MINED, FINALIZED, REVERTED, FAILED, REPLACED, CANCELLED.
create table transactions (
  -- made of the account, the application, the route and the idempotency key (src/ids.ts): what the signer's ledger knows of an id it knows of
  -- the key, also when this database has lost both
  id text primary key,
  account_id uuid not null,
  client_id text not null,
  -- of the request that had this key
  request_hash bytea,
  -- the caller's own text. It is in no signature and not in the signer's ledger
  reference text,
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  target bytea not null,
  value bytea not null,
  data bytea not null,
  abi text not null,
  -- Terms of the first signature, so that whoever finishes an intent asks the signer for the same bytes. max_priority_fee is null on networks
  -- with legacy fees.
  gas_limit bigint not null,
  max_fee bytea not null,
  max_priority_fee bytea,
  -- how often somebody asked the signer for the bytes. 0: the signer's ledger gave the nonce to something that this database has lost
  claims int not null default 1,
  -- Wei that the open write may yet take from its account: value, and gas at the price of its newest bytes; of a cancel gas alone. A number,
  -- because the statement that binds adds it up. null: nothing is reserved
  reserved numeric,
  -- accounts that delegate in a transaction of a sponsor, with the nonce of each. null: the transaction carries no operations
  authorizations jsonb,
  state text not null,
  is_cancel boolean not null default false,
  hash bytea,
  block_number bigint,
  block_hash bytea,
  is_final boolean not null default false,
  gas_used bigint,
  effective_gas_price bytea,
  succeeded boolean,
  revert jsonb,
  transitions jsonb not null check (jsonb_typeof(transitions) = 'array'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (chain_id, sender, nonce)
) with (
  -- A write leaves three dead versions of its row within minutes, whatever the size of the table: vacuum comes by what has died.
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000
);
-- without the id: the few writes of one millisecond need no index for their order. The application comes last, so that a page of one
-- application's writes passes those of others in the index, without their rows.
create index transactions_account on transactions (account_id, chain_id, created_at, client_id);
create index transactions_open on transactions (chain_id, sender, nonce) where state in ('BOUND', 'SUBMITTED', 'VACANT');
create index transactions_block on transactions (chain_id, is_final, block_number);
-- what an account has called or paid: whether its user ever dealt with a token or an address decides what is spam in the history
create index transactions_target on transactions (account_id, chain_id, target);
-- what an account has paid: of most accounts few writes have a value
create index transactions_paid on transactions (account_id, chain_id, created_at) where value <> '\x0000000000000000000000000000000000000000000000000000000000000000';
-- mere payments by who received them, for the list of coins on the account page
create index transactions_payments on transactions (chain_id, target, created_at) where length(data) = 0;

create table attempts (
  chain_id bigint not null,
  hash bytea not null,
  transaction_id text not null,
  -- null: dropped, a week after the write was final (src/transactions/settle/sweep.ts). The signer's ledger has them
  raw bytea,
  gas_limit bigint not null,
  max_fee bytea not null,
  max_priority_fee bytea,
  is_cancel boolean not null default false,
  -- the newest block when it was signed: three blocks later its fee may be bumped
  created_block bigint,
  created_at timestamptz not null default now(),
  -- when a process last undertook to send these bytes. null: send them now
  broadcast_at timestamptz,
  -- Of bytes that no node gets yet, because too many lower nonces of the account are open: its sender and nonce; broadcast_at says when they
  -- were put back.
  queued_sender bytea,
  queued_nonce bigint,
  primary key (chain_id, hash)
) with (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000
);
create index attempts_transaction on attempts (transaction_id);
create index attempts_unsent on attempts (chain_id) where broadcast_at is null;
create index attempts_queued on attempts (chain_id, queued_sender, queued_nonce) where queued_nonce is not null;

-- Accounts of which a nonce was used by a transaction that this service did not make: they write nothing until an operator has looked.
create table stopped_lanes (
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  hash bytea,
  reason text not null,
  created_at timestamptz not null default now(),
  -- an operator has looked and asks for the account to go on; the keeper of its network does it
  resume_asked_at timestamptz,
  primary key (sender, chain_id)
);
create index stopped_lanes_longest on stopped_lanes (created_at, chain_id, sender);

-- Writes that wait longer than they should. A row comes when a keeper first looks at a nonce, never on the way of a write, and goes when the
-- nonce is settled. Only the key is indexed, so that changes stay on the page of the row.
create table waits (
  chain_id bigint not null,
  sender bytea not null,
  nonce bigint not null,
  -- the attempt that was looked at: a later one is looked at again
  hash bytea,
  -- No keeper looks before; null: at once. Moving it claims the look. Doubled each time that a look changed nothing.
  due_at timestamptz,
  pause_seconds int not null default 0,
  -- what delays the write, for users and operators. null: nothing known
  trouble text,
  detail text,
  since timestamptz,
  -- when the operator was told
  alarmed_at timestamptz,
  -- how often in a row a node refused the newest bytes with an answer of its own, and when they are sent again
  refusals int not null default 0,
  resend_at timestamptz,
  primary key (chain_id, sender, nonce)
) with (fillfactor = 70);

-- Changes of open transactions that an operator requested. A server of the API makes them: the authorization server has no node.
create table requested_changes (
  transaction_id text primary key,
  chain_id bigint not null,
  change text not null check (change in ('cancel', 'speed-up')),
  -- of the transaction at the request: a fee bump that was sent since then has met it
  hash bytea not null,
  asked_at timestamptz not null default now(),
  -- when a process last undertook it: another one takes it over a minute later
  claimed_at timestamptz,
  done_at timestamptz,
  -- why it was not done: asked for again, it is tried again
  refusal text
);
create index requested_changes_open on requested_changes (chain_id) where done_at is null and refusal is null;

-- Through which final write of each network, in the order of block and id, bytes were dropped.
create table swept (
  chain_id bigint primary key,
  block_number bigint not null,
  id text not null
) with (fillfactor = 50);

-- Through which record of the signer's ledger this database is known to hold what was signed. It goes back when the database does: what the
-- ledger has after it is then reconciled again.
create table ledger_cursor (
  only_row int primary key check (only_row = 1),
  seq bigint not null,
  record text not null,
  updated_at timestamptz not null default now()
) with (fillfactor = 50);
insert into ledger_cursor (only_row, seq, record) values (1, 0, repeat('0', 64));

------------------------------------------------------------------------------------------------------------------------------------------
-- sponsors and transactions: gas that the operator pays.

-- Accounts of the operator that pay for gas. One may pay on several networks, under one name.
create table sponsors (
  account_id uuid not null references accounts,
  chain_id bigint not null,
  name text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, chain_id),
  unique (chain_id, name)
);

-- Sponsors that hold too little, and since when servers see it.
create table low_sponsors (
  chain_id bigint not null,
  account_id uuid not null,
  since timestamptz not null default now(),
  primary key (chain_id, account_id)
);

-- Funds that go back from a sponsor to its operator, one for each grant of the signer's own user. A server of the API sends the transaction.
create table withdrawals (
  grant_id text primary key,
  chain_id bigint not null,
  sponsor_id uuid not null references accounts,
  target bytea not null,
  -- null: the whole balance
  amount numeric(78,0),
  asked_at timestamptz not null default now(),
  -- null: it has no bytes yet
  transaction_id text,
  -- why it was not sent: asked for again, it is tried again
  refusal text
);
create index withdrawals_open on withdrawals (chain_id) where transaction_id is null and refusal is null;

-- Wei that a sponsor sends a user for gas, by (network, account, ordinal): the idempotency key of its transaction is made of these. One that
-- is not settled is finished before the next begins.
create table top_ups (
  chain_id bigint not null,
  account_id uuid not null references accounts,
  ordinal int not null,
  sponsor_id uuid not null references accounts,
  client_id text not null,
  -- what the user gets
  wei numeric(78,0) not null,
  -- what it takes of budgets: with the highest fee until it is settled, then with the fee that was paid
  charged numeric(78,0) not null,
  hour timestamptz not null,
  created_at timestamptz not null default now(),
  settled_at timestamptz,
  -- the block that includes it. null: none ever did
  block_number bigint,
  primary key (chain_id, account_id, ordinal)
);
-- top-ups that no request has settled yet: the keeper looks for them once a minute
create index top_ups_open on top_ups (chain_id, created_at) where settled_at is null;
-- top-ups that have to be settled again after a reorganisation
create index top_ups_settled on top_ups (chain_id, block_number) where settled_at is not null and block_number is not null;

-- Wei that sponsors paid for writes of an application by the hour: by user, and for all of them under the zero uuid. An application has one
-- network; the account pages have a budget on each.
create table gas_spent (
  client_id text not null,
  account_id uuid not null,
  chain_id bigint not null,
  hour timestamptz not null,
  wei numeric(78,0) not null,
  primary key (client_id, account_id, chain_id, hour)
) with (fillfactor = 70);

-- Wei that sponsors paid on a network by the hour, for all applications.
create table gas_spent_on_network (
  chain_id bigint not null,
  hour timestamptz not null,
  wei numeric(78,0) not null,
  primary key (chain_id, hour)
) with (fillfactor = 70);

-- What users had signed for a sponsor to send, one row for each intent. Ids are of the same space as those of `transactions`; (network, space,
-- sequence) is the id in the dispatcher, which is used up at most once. state: as of `transactions`; BOUND: nothing carries it yet, its caller
-- has no answer. The only rows that are deleted are those that the signer refused before any signature.
create table operations (
  id text primary key,
  account_id uuid not null references accounts,
  client_id text not null,
  request_hash bytea,
  reference text,
  chain_id bigint not null,
  sender bytea not null,
  -- the code that it was signed for, by name: its dispatcher is the one for that code, and its id is used up there and nowhere else
  delegate text not null default 'chatelaine',
  space bytea not null,
  sequence bigint not null,
  -- as the dispatcher takes them: how many, and of each target, value and data
  calls bytea not null,
  abi text not null,
  gas_limit bigint not null,
  -- the last second in which it can be done, since 1970
  deadline bigint not null,
  -- the account's nonce by which it delegates in the same transaction. null: it had delegated already
  authorization_nonce bigint,
  claims int not null default 1,
  -- how many may travel together after nodes refused the transaction that carried them. 0: it was refused alone, too; null: any number
  pack_limit int,
  state text not null,
  is_cancel boolean not null default false,
  -- the transaction that carries it, or in which it was settled. All of them are in `carried`
  outer_id text,
  block_number bigint,
  block_hash bytea,
  is_final boolean not null default false,
  -- Which logs of that transaction it made: those after `after_log`, the dispatcher's log of the operation before it (-1: it is the first),
  -- and before `event_log`, the dispatcher's log of itself. null: not read yet.
  after_log int,
  event_log int,
  -- why it failed, as the dispatcher says
  reason bytea,
  revert jsonb,
  -- wei that it takes of budgets in this hour: at most, until it is settled. is_counted: `charged` is what it cost, by the receipts of what
  -- carried it
  charged numeric(78,0) not null,
  hour timestamptz not null,
  is_counted boolean not null default false,
  transitions jsonb not null default '[]' check (jsonb_typeof(transitions) = 'array'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
) with (fillfactor = 80);
create unique index operations_sequence on operations (chain_id, space, sequence);
-- the application comes last, as in transactions_account
create index operations_account on operations (account_id, chain_id, created_at, id, client_id);
create index operations_open on operations (chain_id, state, updated_at) where state in ('BOUND', 'SUBMITTED');
create index operations_block on operations (chain_id, block_number) where not is_final and block_number is not null;
create index operations_uncounted on operations (chain_id, updated_at) where not is_counted and state not in ('BOUND', 'SUBMITTED');
create index operations_delegating on operations (chain_id, sender) where authorization_nonce is not null;

-- Which transactions of sponsors carried an operation, or cancelled it.
create table carried (
  operation_id text not null,
  transaction_id text not null,
  primary key (operation_id, transaction_id)
);
create index carried_transaction on carried (transaction_id);

-- Where the next block of numbers of a space begins: a process takes 256 at a time.
create table operation_sequences (
  chain_id bigint not null,
  space bytea not null,
  next bigint not null,
  primary key (chain_id, space)
);

------------------------------------------------------------------------------------------------------------------------------------------
-- transfers: for whom a sender had an account made before its user came, of the last day: at most twenty rows a sender.

create table strangers (
  sender_id uuid not null,
  user_id text not null,
  made_at timestamptz not null default now(),
  primary key (sender_id, user_id)
);

------------------------------------------------------------------------------------------------------------------------------------------
-- follower: the followed chain. One row of `cursors` and `history_cursors` a network, written with every block.

-- The newest stretch of the canonical chain, to find the common ancestor after a reorganisation.
create table blocks (
  chain_id bigint not null,
  number bigint not null,
  hash bytea not null,
  parent_hash bytea not null,
  mined_at timestamptz not null,
  base_fee bytea,
  primary key (chain_id, number)
);

-- Where the follower of a network is, and who holds it. The epoch fences off a holder that was paused.
create table cursors (
  chain_id bigint primary key,
  block_number bigint not null,
  block_hash bytea not null,
  finalized_number bigint not null,
  epoch bigint not null,
  lease_owner text,
  lease_until timestamptz,
  -- why it stopped for good
  halted text,
  -- why it cannot take the block after `block_number`, in our own words. null as soon as it does
  blocked_by text,
  -- what the results of blocks are read from: `block receipts`, `logs` or `receipts`, one for each transaction. null: nobody has followed yet
  read_from text,
  updated_at timestamptz not null default now()
) with (fillfactor = 50);

-- How far the transfers of a network are stored: apart from `cursors`, so that the states of transactions do not wait for transfers. The
-- holder of the network's cursor holds this one, too.
create table history_cursors (
  chain_id bigint primary key,
  block_number bigint not null,
  block_hash bytea not null,
  epoch bigint not null,
  lease_owner text,
  updated_at timestamptz not null default now()
) with (fillfactor = 50);

------------------------------------------------------------------------------------------------------------------------------------------
-- history: transfers, and from which block on those of an account are complete.

-- One row for each user who takes part: a page is one backward scan of the primary key.
-- direction: 0 in, 1 out, 2 self. token_type: 20, 721, 1155; 1 is native currency.
create table transfers (
  account_id uuid not null,
  chain_id bigint not null,
  block_number bigint not null,
  log_index int not null,
  batch_index int not null,
  direction smallint not null,
  token_type smallint not null,
  token bytea not null,
  sender bytea not null,
  recipient bytea not null,
  token_id bytea,
  value bytea not null,
  hash bytea not null,
  block_hash bytea not null,
  mined_at timestamptz not null,
  is_spam boolean not null,
  -- how many more transfers of the same token, block and kind were left out after this one
  omitted int not null default 0,
  primary key (account_id, chain_id, block_number, log_index, batch_index, direction)
);
create index transfers_block on transfers (chain_id, block_number);
-- An index for each way to ask for a page, so that no page reads more than it shows. token_type * 8 + direction * 2 + is_spam is the kind of a
-- transfer: a page reads the newest of each kind that it shows. Within a kind the order is that of the primary key, without the direction: an
-- account has one row of a transfer.
create index transfers_kind on transfers (account_id, chain_id, (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);
create index transfers_token on transfers (account_id, chain_id, token, (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);
create index transfers_counterparty on transfers (account_id, chain_id, (case when direction = 0 then sender else recipient end), (token_type * 8 + direction * 2 + is_spam::int), block_number, log_index, batch_index);

-- The history has the transfers of every account that was stored before it looked at a block. Every few minutes a mark: all blocks above
-- block_number were looked at later than this. Marks serve all accounts, `coverage` those that were looked up.
create table history_marks (
  chain_id bigint not null,
  at timestamptz not null,
  block_number bigint not null,
  primary key (chain_id, at)
);

-- From which block on the past transfers of an account are complete.
create table coverage (
  account_id uuid not null,
  chain_id bigint not null,
  covered_from bigint not null,
  updated_at timestamptz not null default now(),
  primary key (account_id, chain_id)
);

-- Coverage of native currency, whose transfers cannot be looked up by address: what was not looked at when its block was stored stays unknown.
create table native_coverage (
  chain_id bigint primary key,
  -- from this block up to to_block all values of transactions, fees, withdrawals and rewards are there, for accounts that were stored by from_at
  from_block bigint not null,
  from_at timestamptz not null,
  -- the same of internal transfers. null: neither logs nor traces show them
  internal_from_block bigint,
  internal_from_at timestamptz,
  -- the last block that was looked at: coverage begins again at one that does not follow it
  to_block bigint not null,
  to_hash bytea,
  updated_at timestamptz not null default now()
) with (fillfactor = 50);

-- Automatic backfill, a row for each network that has accounts without past transfers. Its holder looks up one group of accounts; the next
-- holder continues with that group. The epoch fences off a holder that was paused.
create table backfill_work (
  chain_id bigint primary key,
  epoch bigint not null,
  lease_owner text,
  lease_until timestamptz,
  account_ids uuid[],
  from_block bigint,
  target_block bigint,
  next_block bigint,
  blocked_by text,
  -- For operators: accounts that wait and those that are covered, as they were counted for the present group. null before the first.
  waiting bigint,
  covered bigint,
  counted_at timestamptz,
  -- the present rate, and when the last account would be covered at that rate
  blocks_per_second double precision,
  done_at timestamptz,
  updated_at timestamptz not null default now()
);

------------------------------------------------------------------------------------------------------------------------------------------
-- tokens: what a contract says of itself, and which forms of logs were seen of it. A log has the form of one token standard, and says nothing
-- of the contract: one contract may be several.

-- state: NEW, KNOWN, FAILED. A contract is asked at retry_at.
create table tokens (
  chain_id bigint not null,
  address bytea not null,
  symbol text not null,
  name text not null,
  decimals int not null,
  is_fungible boolean not null default false,
  is_collection boolean not null default false,
  is_wrapper boolean not null default false,
  logs_amounts boolean not null default false,
  logs_ids boolean not null default false,
  logs_deposits boolean not null default false,
  state text not null,
  attempts int not null,
  retry_at timestamptz,
  -- the block at which it was asked. A reorganisation below it voids the answer; null: it was not asked
  asked_block bigint,
  updated_at timestamptz not null default now(),
  primary key (chain_id, address)
);
create index tokens_due on tokens (chain_id, retry_at);
-- the few tokens whose transfers are not what their logs look like
create index tokens_unlike_logs on tokens (chain_id, address) where
  ((is_fungible and not is_collection and logs_ids) or (is_collection and not is_fungible and logs_amounts)) or (is_wrapper and logs_deposits);

------------------------------------------------------------------------------------------------------------------------------------------
-- signatures: messages that users signed for applications.

create table signatures (
  -- made of the account, the application, the route and the idempotency key, as of a transaction; the signer signs one message for an id
  id text primary key,
  account_id uuid not null,
  client_id text not null,
  chain_id bigint not null,
  -- of the request that had this key
  request_hash bytea,
  reference text,
  -- text, bytes or typedData, and what was signed: text, 0x-hex, or JSON text
  kind text not null,
  content text not null,
  -- the digest that is signed
  hash bytea not null,
  class text not null,
  -- what the signature does, as facts for pages (src/messages/classify.ts)
  summary jsonb not null,
  -- null until the signer has answered
  rule text,
  signature bytea,
  created_at timestamptz not null default now(),
  signed_at timestamptz
);
-- the lists of a user at an application, and of a user, newest first
create index signatures_own on signatures (account_id, client_id, created_at, id) where signature is not null;
create index signatures_account on signatures (account_id, created_at, id) where signature is not null;

------------------------------------------------------------------------------------------------------------------------------------------
-- approvals: requests that wait for the decision of their user.

create table approvals (
  id text primary key,
  -- the signature or transaction that the request would make; it has one question at a time
  intent_id text not null,
  account_id uuid not null,
  client_id text not null,
  chain_id bigint not null,
  -- what is to be approved, as the page shows it and the signer checks it: a message, or calls
  content jsonb not null,
  -- SHA-256 of the request of a write, which is stored nowhere else; null for a message, whose row has it
  request_hash bytea,
  -- the rule that asks for the approval
  rule text not null,
  -- who asked: the address of the request
  asked_from text,
  -- a waiting question counts as expired after expires_at; it is stored seconds later (src/approvals/sweep.ts)
  state text not null check (state in ('waiting', 'approved', 'denied', 'expired')),
  -- by the authorization server, for the signer; it expires a minute after the decision
  token text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  decided_at timestamptz
);
create index approvals_intent on approvals (intent_id, created_at);
create index approvals_account on approvals (account_id, created_at);
create index approvals_expired on approvals (expires_at);
create index approvals_waiting on approvals (expires_at) where state = 'waiting';

------------------------------------------------------------------------------------------------------------------------------------------
-- signing-log: the newest signed head of the signer's ledger that this installation has seen. It is shown to the signer first on every
-- connection: a signer whose store is older, or took another way, refuses.

create table signing_log_head (
  only_row int primary key check (only_row = 1),
  origin text not null,
  size bigint not null,
  at timestamptz not null,
  note text not null,
  -- the verifier key of the identity that signed the head, for the time that the signer is unavailable
  key text
);

------------------------------------------------------------------------------------------------------------------------------------------
-- operator: what operators did, one row an action, each covering the one before it. Rows are only added.

create table operator_actions (
  seq bigint primary key,
  at timestamptz not null,
  actor text not null,
  via text not null check (via in ('api', 'command', 'console')),
  action text not null,
  target text not null,
  -- the JSON text of what changed, as it was hashed
  before text,
  after text,
  record bytea not null check (length(record) = 32)
);

-- One row, whose lock puts actions in order.
create table operator_head (
  id int primary key check (id = 1),
  seq bigint not null,
  record bytea not null check (length(record) = 32)
);

-- The identities that may open the console, each with its role. A sign-in with another identity of the same account gives no role. seal: as
-- applications.seal; a row without one gives no role.
create table operators (
  user_id text primary key,
  role text not null check (role in ('owner', 'operator', 'support', 'viewer')),
  created_at timestamptz not null default now(),
  seal text
);

------------------------------------------------------------------------------------------------------------------------------------------
-- events: what happened to transactions, transfers and accounts, for the servers of applications (docs/build/events.md).

-- What happened and is in no feed yet. The statement that changes a row inserts its fact, mostly by a trigger: no change without a fact, and
-- no fact without the change. Two facts of one subject change the same row, so the earlier one has the lower seq and is committed first.
-- Each row lives for milliseconds: vacuum comes by what has died.
create table facts (
  seq bigint generated by default as identity primary key,
  kind text not null,
  -- null: no network in particular
  chain_id bigint,
  account_id uuid,
  -- null: each application that the account has signed in to
  client_id text,
  subject text not null,
  data jsonb not null,
  at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- One row, whose lock makes one process at a time move facts into feeds.
create table sequencer (only_row int primary key check (only_row = 1));
insert into sequencer values (1);

-- The feed of each application with the permission events:read. seq: of its newest event. It never falls, and is at least the microseconds since
-- 1970 of the moment when the event was numbered: a database that was restored from an older copy gives no number twice.
create table feeds (
  client_id text primary key,
  seq bigint not null,
  -- events up to this one were deleted
  trimmed bigint not null default 0
);

create table events (
  client_id text not null,
  seq bigint not null,
  -- made of the network, the subject and what happened (src/events/describe.ts): the same again when the event is written again
  id uuid not null,
  type text not null,
  subject text not null,
  account_id uuid,
  chain_id bigint,
  -- only the user sees it, not the application by itself: the user has not allowed users:read
  is_own boolean not null,
  data jsonb not null,
  at timestamptz not null,
  primary key (client_id, seq)
);
create index events_account on events (client_id, account_id, seq) where account_id is not null;

-- Up to which block the feeds have the finality of transfers.
create table final_transfers (
  chain_id bigint primary key,
  block_number bigint not null
);

-- follower: how often a block was retracted. A transaction that is mined again in a block that came back is another event.
create table retracted_blocks (
  chain_id bigint not null,
  hash bytea not null,
  times bigint not null,
  updated_at timestamptz not null default now(),
  primary key (chain_id, hash)
);

create function has_feed(client text) returns boolean language sql stable as $$
  select exists (select from applications where client_id = client and permissions ? 'events:read')
$$;

create function times_retracted(chain bigint, block bytea) returns bigint language sql stable as $$
  select coalesce((select times from retracted_blocks where chain_id = chain and hash = block), 0)
$$;

-- Facts of the transfers in a range of blocks, without spam. only_token: deposits into this contract only. 900 is the form of deposits, which are
-- transfers only if the contract is a wrapper (src/tokens/moved.ts). The first condition is checked once, before any transfer is read.
create function note_transfers(chain bigint, verb text, above bigint, through bigint, only_token bytea) returns void language plpgsql as $$
begin
  insert into facts (kind, chain_id, account_id, subject, data)
  select 'transfer', t.chain_id, t.account_id, 'transfer:0x' || encode(t.hash, 'hex') || ':' || t.log_index || ':' || t.batch_index,
    jsonb_build_object(
      'verb', verb, 'id', '0x' || encode(t.hash, 'hex') || ':' || t.log_index || ':' || t.batch_index, 'direction', t.direction,
      'tokenType', case t.token_type when 721 then 'ERC721' when 1155 then 'ERC1155' when 1 then 'NATIVE' else 'ERC20' end,
      'token', encode(t.token, 'hex'), 'tokenId', encode(t.token_id, 'hex'), 'value', encode(t.value, 'hex'), 'from', encode(t.sender, 'hex'),
      'to', encode(t.recipient, 'hex'), 'hash', encode(t.hash, 'hex'), 'logIndex', t.log_index, 'blockNumber', t.block_number,
      'blockHash', encode(t.block_hash, 'hex'), 'minedAt', (extract(epoch from t.mined_at) * 1000)::int8, 'times', times_retracted(t.chain_id, t.block_hash)
    )
  from transfers t
  where exists (select from applications where chain_id = chain and permissions ? 'events:read')
    and t.chain_id = chain and t.block_number > above and t.block_number <= through and not t.is_spam
    and (only_token is null or (t.token = only_token and t.token_type = 900))
    and exists (select from application_users u join applications a on a.client_id = u.client_id
      where u.account_id = t.account_id and a.chain_id = t.chain_id and a.permissions ? 'events:read')
    and (t.token_type <> 900 or exists (select from tokens where tokens.chain_id = t.chain_id and tokens.address = t.token and tokens.is_wrapper));
end
$$;

-- Deposits were stored before their contract was recognised as a wrapper. Those in final blocks have no events, like past transfers. Whoever stores
-- what a contract answered holds a lock on the history's cursor (src/tokens/refresh.ts), so no block is stored meanwhile.
create function note_wrapper() returns trigger language plpgsql as $$
begin
  perform note_transfers(new.chain_id, 'detected', final.block_number, 9223372036854775807, new.address)
    from final_transfers final where final.chain_id = new.chain_id;
  return null;
end
$$;

create trigger wrappers_stored after insert on tokens
  for each row when (new.is_wrapper) execute function note_wrapper();
create trigger wrappers_recognised after update of is_wrapper on tokens
  for each row when (new.is_wrapper and not old.is_wrapper) execute function note_wrapper();

-- Each transition of a write, with what the row was before and what it is now.
create function note_write() returns trigger language plpgsql as $$
declare
  is_same boolean := tg_op = 'UPDATE' and old.id = new.id;
  own_hash bytea;
begin
  if not has_feed(new.client_id) then
    return null;
  end if;
  if tg_table_name = 'transactions' then
    -- A top-up is counted for the application whose write it pays for. It is a sponsor's transaction, and no write of a user.
    if exists (select from sponsors where account_id = new.account_id and chain_id = new.chain_id) then
      return null;
    end if;
    own_hash := new.hash;
  else
    select hash into own_hash from transactions where id = new.outer_id;
  end if;
  -- The row lost its intent, and has a new id that no caller was told.
  if tg_op = 'UPDATE' and old.id <> new.id and own_hash is null then
    return null;
  end if;
  insert into facts (kind, chain_id, account_id, client_id, subject, data) values (
    'write', new.chain_id, new.account_id, new.client_id, 'transaction:' || new.id,
    jsonb_build_object(
      'id', new.id, 'reference', new.reference, 'state', new.state, 'hash', encode(own_hash, 'hex'), 'blockNumber', new.block_number, 'blockHash', encode(new.block_hash, 'hex'),
      'times', case when new.block_hash is null then 0 else times_retracted(new.chain_id, new.block_hash) end,
      'steps', (
        select coalesce(jsonb_agg(step order by place), '[]') from jsonb_array_elements(new.transitions) with ordinality as t (step, place)
        where not is_same or place > jsonb_array_length(old.transitions)
      ),
      'failures', (select count(*) from jsonb_array_elements(new.transitions) as t (step) where step ->> 'state' = 'FAILED'),
      'before', case when is_same then jsonb_build_object(
        'state', old.state, 'blockHash', encode(old.block_hash, 'hex'),
        'times', case when old.block_hash is null then 0 else times_retracted(old.chain_id, old.block_hash) end,
        'failures', (select count(*) from jsonb_array_elements(old.transitions) as t (step) where step ->> 'state' = 'FAILED')
      ) end
    )
  );
  return null;
end
$$;

create trigger transactions_stored after insert on transactions
  for each row when (new.transitions <> '[]') execute function note_write();
create trigger transactions_moved after update of transitions on transactions
  for each row when (new.transitions <> old.transitions) execute function note_write();
create trigger operations_stored after insert on operations
  for each row when (new.transitions <> '[]') execute function note_write();
create trigger operations_moved after update of transitions on operations
  for each row when (new.transitions <> old.transitions) execute function note_write();

-- Times are in UTC, whatever the session has: they are parts of ids. Inserts the fact of a row that belongs to an application. The arguments are the kind and the column that names the subject.
create function note_row() returns trigger language plpgsql set timezone = 'UTC' as $$
declare
  one jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  if has_feed(one ->> 'client_id') then
    insert into facts (kind, chain_id, account_id, client_id, subject, data) values (
      tg_argv[0], (one ->> 'chain_id')::bigint, (one ->> 'account_id')::uuid, one ->> 'client_id',
      tg_argv[1] || ':' || (one ->> tg_argv[2]),
      jsonb_build_object('row', one - 'seal' - 'token' - 'content' - 'request_hash', 'before', case when tg_op = 'UPDATE' then to_jsonb(old) -> tg_argv[3] end)
    );
  end if;
  return null;
end
$$;

create trigger application_users_written after insert on application_users
  for each row execute function note_row('user', 'account', 'account_id', 'account_id');
create trigger consents_written after insert or update of permissions on consents
  for each row execute function note_row('consent', 'account', 'account_id', 'permissions');
create trigger consents_deleted after delete on consents
  for each row execute function note_row('revoked', 'account', 'account_id', 'account_id');
-- A user who revokes or leaves an application takes back what it could read about the account. What the application did itself stays.
create function forget_account() returns trigger language plpgsql as $$
begin
  -- The process that numbers events may have read the consent before it was deleted: its events are deleted after its commit.
  perform from sequencer for update;
  delete from events where client_id = old.client_id and account_id = old.account_id
    and (type like 'transfer.%' or type like 'account.%' or type like 'key.%');
  return null;
end
$$;

create trigger consents_forgotten after delete on consents
  for each row execute function forget_account();
create trigger consents_narrowed after update of permissions on consents
  for each row when (old.permissions ? 'users:read' and not new.permissions ? 'users:read') execute function forget_account();
create trigger application_users_forgotten after delete on application_users
  for each row execute function forget_account();
create trigger approvals_written after insert or update of state on approvals
  for each row execute function note_row('approval', 'approval', 'id', 'state');
create trigger signatures_written after insert or update of signature on signatures
  for each row when (new.signature is not null) execute function note_row('signature', 'signature', 'id', 'state');

-- Denials of the signer's rules: one row for each application, user and rule, and at most one event of it an hour, however often a caller
-- repeats what is denied (src/events/denials.ts).
create table denials (
  client_id text not null,
  account_id uuid not null,
  -- '': the response named none
  rule text not null,
  chain_id bigint not null,
  -- of the clock, in which it last had an event
  hour timestamptz not null,
  request text not null check (request in ('write', 'signature')),
  reference text,
  -- as the caller was told
  detail text not null,
  -- denials that the event stands for, and denials since
  count bigint not null,
  since bigint not null,
  primary key (client_id, account_id, rule)
);
create index denials_hour on denials (hour);
create trigger denials_stored after insert on denials
  for each row execute function note_row('denial', 'account', 'account_id', 'hour');
create trigger denials_moved after update of hour on denials
  for each row when (new.hour <> old.hour) execute function note_row('denial', 'account', 'account_id', 'hour');

-- Accounts that could not pay for a write of an application: the last time that it was an event (src/events/low-balances.ts).
create table low_balances (
  client_id text not null,
  account_id uuid not null,
  -- rejected: a request; waiting: a signed transaction
  kind text not null check (kind in ('rejected', 'waiting')),
  chain_id bigint not null,
  -- rejected: the next one of the account, which rises when a write could be paid; waiting: its lowest open one
  nonce bigint not null,
  transaction_id text,
  -- wei; null: unknown
  needed text,
  available text,
  at timestamptz not null default now(),
  primary key (client_id, account_id, kind)
);
create index low_balances_at on low_balances (at);
create trigger low_balances_stored after insert or update of nonce on low_balances
  for each row execute function note_row('low_balance', 'account', 'account_id', 'nonce');

-- The freeze and the export of an account.
create function note_account() returns trigger language plpgsql set timezone = 'UTC' as $$
begin
  if exists (select from application_users u where u.account_id = new.account_id and has_feed(u.client_id)) then
    insert into facts (kind, account_id, subject, data) values (
      'account', new.account_id, 'account:' || new.account_id,
      jsonb_build_object(
        'frozenAt', new.frozen_at, 'wasFrozenAt', old.frozen_at, 'unfrozenAt', new.unfrozen_at,
        'exportedAt', new.exported_at, 'wasExportedAt', old.exported_at
      )
    );
  end if;
  return null;
end
$$;

create trigger accounts_changed after update of frozen_at, exported_at on accounts
  for each row when (new.frozen_at is distinct from old.frozen_at or new.exported_at is distinct from old.exported_at)
  execute function note_account();

-- An account that was stopped on a network, and one that goes on.
create function note_lane() returns trigger language plpgsql as $$
declare
  one jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  insert into facts (kind, chain_id, account_id, subject, data)
  select 'lane', (one ->> 'chain_id')::bigint, a.account_id, 'account:' || a.account_id, jsonb_build_object(
    'isStopped', tg_op <> 'DELETE', 'reason', one ->> 'reason', 'nonce', one -> 'nonce', 'hash', one -> 'hash')
  from accounts a
  where a.address = (case when tg_op = 'DELETE' then old.sender else new.sender end)
    and exists (select from application_users u where u.account_id = a.account_id and has_feed(u.client_id));
  return null;
end
$$;

create trigger stopped_lanes_written after insert or delete on stopped_lanes
  for each row execute function note_lane();
create trigger stopped_lanes_changed after update of nonce, hash on stopped_lanes
  for each row when ((new.nonce, new.hash) is distinct from (old.nonce, old.hash)) execute function note_lane();

------------------------------------------------------------------------------------------------------------------------------------------
-- webhooks: events that are sent to the servers of applications (docs/build/webhooks.md).

-- Each is a cursor into the feed of its application: no row per delivery.
create table webhooks (
  id text primary key,
  client_id text not null,
  url text not null,
  -- types and groups of types, such as ["transaction.*"]; ["*"]: all
  types jsonb not null,
  -- encrypted (src/store/sealed-secret.ts)
  secret text not null,
  -- signs as well until its end, after a rotation
  old_secret text,
  old_secret_ends_at timestamptz,
  -- disabled: nothing is sent until someone enables it
  disabled_at timestamptz,
  disabled_reason text check (disabled_reason in ('gone', 'failing', 'secret')),
  -- every event up to this one was answered, or has a row in webhook_retries
  cursor bigint not null,
  -- One process at a time delivers. Each takeover raises the epoch, and every later write of the former process finds no row.
  epoch bigint not null default 0,
  lease_ends_at timestamptz,
  -- failed answers in a row, and since when
  failures int not null default 0,
  failing_since timestamptz,
  -- null: events are sent; otherwise one attempt is made at this time, and all others wait
  probe_at timestamptz,
  -- webhook_retries has as many rows as it may have: only those are sent
  is_full boolean not null default false,
  delivered bigint not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  last_failure text,
  created_at timestamptz not null default now()
) with (fillfactor = 70);
create index webhooks_client on webhooks (client_id, id);

-- Events that failed, and events that wait behind one of the same subject.
create table webhook_retries (
  webhook_id text not null,
  seq bigint not null,
  subject text not null,
  attempts int not null,
  -- null: waits behind another of its subject, or is dead
  due_at timestamptz,
  is_dead boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (webhook_id, seq)
);
create index webhook_retries_due on webhook_retries (webhook_id, due_at) where due_at is not null;
create index webhook_retries_subject on webhook_retries (webhook_id, subject, seq) where not is_dead;

-- Attempts that failed, tests and repeats by hand, for seven days. Without done_at: requested, and not sent yet.
create table webhook_deliveries (
  id text primary key,
  webhook_id text not null,
  kind text not null check (kind in ('event', 'retry', 'probe', 'replay', 'test', 'redelivery')),
  event_id text not null,
  -- null: a test, which is in no feed
  seq bigint,
  type text not null,
  attempt int not null,
  status int,
  error text,
  -- the first kilobyte
  answer text,
  duration_ms int,
  created_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  done_at timestamptz
);
create index webhook_deliveries_listed on webhook_deliveries (webhook_id, created_at, id);
create index webhook_deliveries_requested on webhook_deliveries (webhook_id) where done_at is null;

-- A range of the feed that is sent once more.
create table webhook_replays (
  webhook_id text primary key,
  cursor bigint not null,
  until_seq bigint not null,
  failures int not null default 0,
  due_at timestamptz not null default now(),
  delivered bigint not null default 0,
  created_at timestamptz not null default now()
);

-- Facts about webhooks. An event about a webhook that dies makes none: two webhooks could report each other for ever.
create function note_webhook() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'webhooks' then
    if has_feed(new.client_id) then
      insert into facts (kind, client_id, subject, data) values (
        'webhook', new.client_id, 'webhook:' || new.id,
        jsonb_build_object('verb', 'disabled', 'id', new.id, 'reason', new.disabled_reason, 'key', new.disabled_at)
      );
    end if;
  else
    insert into facts (kind, client_id, subject, data)
    select 'webhook', w.client_id, 'webhook:' || w.id,
      jsonb_build_object('verb', 'failed', 'id', w.id, 'eventId', 'evt_' || replace(e.id::text, '-', ''), 'eventType', e.type, 'attempts', new.attempts, 'key', new.seq)
    from webhooks w join events e on e.client_id = w.client_id and e.seq = new.seq
    where w.id = new.webhook_id and has_feed(w.client_id) and e.type not like 'webhook.%';
  end if;
  return null;
end
$$;

create trigger webhooks_disabled after update of disabled_at on webhooks
  for each row when (new.disabled_at is not null and old.disabled_at is null) execute function note_webhook();
create trigger webhook_retries_died after update of is_dead on webhook_retries
  for each row when (new.is_dead and not old.is_dead) execute function note_webhook();

------------------------------------------------------------------------------------------------------------------------------------------
-- console: for its charts, the requests of each five minutes that were answered with success. Written every few seconds by each process,
-- never by a request; rows are deleted after eight days.

create table activity (
  kind text not null check (kind in ('write', 'read', 'sign-in')),
  -- when the five minutes began
  at timestamptz not null,
  count bigint not null,
  primary key (kind, at)
) with (fillfactor = 50);
