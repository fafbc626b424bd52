import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client'
import { openLog, type Logger, type WriteLine } from './log.ts'

/** Logs and counters of the server; the signer has a log only. */
export type Telemetry = {
  log: Logger
  registry: Registry
  requests: Histogram<string>
  refusals: Counter<string>
  rpcCalls: Counter<string>
  writes: Counter<string>
  topUps: Counter<string>
  sponsorBalance: Gauge<string>
  sponsorOpen: Gauge<string>
  sponsorStopped: Gauge<string>
  sponsorsSpent: Gauge<string>
  spamTransfers: Counter<string>
  headBlock: Gauge<string>
  followedBlock: Gauge<string>
  indexedBlock: Gauge<string>
  cursorLag: Gauge<string>
  followerStopped: Gauge<string>
  backfillLeft: Gauge<string>
  backfillAccounts: Gauge<string>
  loopUtilization: Gauge<string>
  poolWait: Histogram<string>
  inFlight: Gauge<string>
  quotaUsed: Gauge<string>
  addressesNotProven: Counter<string>
  identitiesNotProven: Counter<string>
  rowsNotAuthentic: Counter<string>
  signerPolicy: Gauge<string>
  signIns: Counter<string>
  signInsFailed: Counter<string>
  people: Gauge<string>
}

/** Opens the log and the metrics registry. `name` is the program; `write` as `openLog` takes it. */
export function openTelemetry(name: string, level: string, write?: WriteLine): Telemetry {
  const registry = new Registry()
  const registers = [registry]
  let scraped = performance.eventLoopUtilization()
  return {
    log: openLog(name, level, write),
    registry,
    requests: new Histogram({
      name: 'http_request_seconds',
      help: 'Duration of HTTP requests, seconds',
      labelNames: ['route', 'method', 'status'],
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    refusals: new Counter({
      name: 'refusals_total',
      help: 'Problem documents sent, by code',
      labelNames: ['code'],
      registers,
    }),
    rpcCalls: new Counter({
      name: 'rpc_calls_total',
      help: 'JSON-RPC calls to the chain node',
      labelNames: ['method', 'outcome'],
      registers,
    }),
    writes: new Counter({
      name: 'writes_total',
      help: 'State changes of transactions, by new state',
      labelNames: ['state'],
      registers,
    }),
    topUps: new Counter({
      name: 'top_ups_total',
      help: 'Top-ups by what became of them: the state of the transaction, sponsor_empty, gas_budget_exhausted or gas_not_sponsored',
      labelNames: ['outcome'],
      registers,
    }),
    sponsorBalance: new Gauge({
      name: 'sponsor_balance_wei',
      help: 'What a sponsor holds, wei; as every metric a float, of about 15 digits: `chatelaine sponsor list` has all of them',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorOpen: new Gauge({
      name: 'sponsor_open_transactions',
      help: 'Transactions of a sponsor that are not in a block yet',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorStopped: new Gauge({
      name: 'sponsor_stopped',
      help: '1 while a sponsor sends nothing because a transaction that this service did not make used a nonce of it',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorsSpent: new Gauge({
      name: 'sponsors_spent_wei',
      help: 'What the sponsors of a network spent in the rolling day, for all applications, wei; a float, as above',
      labelNames: ['chain_id'],
      registers,
    }),
    spamTransfers: new Counter({
      name: 'spam_transfers_total',
      help: 'Transfers that were judged as spam when a history was read, by reason; one may have several',
      labelNames: ['reason'],
      registers,
    }),
    headBlock: new Gauge({
      name: 'chain_head_block',
      help: 'Newest block that the service has stored',
      labelNames: ['chain_id'],
      registers,
    }),
    followedBlock: new Gauge({
      name: 'followed_block',
      help: 'Newest block that is stored, with what it made of transactions',
      labelNames: ['chain_id'],
      registers,
    }),
    cursorLag: new Gauge({
      name: 'cursor_lag_blocks',
      help: 'Blocks between the newest of the node and a cursor: transactions, history',
      labelNames: ['chain_id', 'cursor'],
      registers,
    }),
    followerStopped: new Gauge({
      name: 'follower_stopped',
      help: 'The last block that was taken of a network that is followed no further; state: halted, stuck; cause: why',
      labelNames: ['chain_id', 'state', 'cause'],
      registers,
    }),
    backfillLeft: new Gauge({
      name: 'backfill_blocks_left',
      help: 'Blocks of the past that are left to the accounts that this process looks them up for',
      labelNames: ['chain_id'],
      registers,
    }),
    backfillAccounts: new Gauge({
      name: 'backfill_accounts',
      help: 'Accounts of a network by their past: waiting, covered; as they were counted last, in whichever process',
      labelNames: ['chain_id', 'state'],
      registers,
    }),
    indexedBlock: new Gauge({
      name: 'history_indexed_block',
      help: 'Newest block whose transfers are stored',
      labelNames: ['chain_id'],
      registers,
    }),
    loopUtilization: new Gauge({
      name: 'event_loop_utilization_ratio',
      help: 'Part of the time since the last scrape in which the event loop was busy, 0 to 1',
      registers,
      collect() {
        const now = performance.eventLoopUtilization()
        this.set(performance.eventLoopUtilization(now, scraped).utilization)
        scraped = now
      },
    }),
    poolWait: new Histogram({
      name: 'db_pool_wait_seconds',
      help: 'Wait for a database connection, seconds',
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 5],
      registers,
    }),
    inFlight: new Gauge({
      name: 'requests_in_flight',
      help: 'Requests in flight: status, writes, reads',
      labelNames: ['of'],
      registers,
    }),
    quotaUsed: new Gauge({
      name: 'quota_used_ratio',
      help: 'Used part of a quota of an application, 0 to 1',
      labelNames: ['client_id', 'counts', 'per'],
      registers,
    }),
    addressesNotProven: new Counter({
      name: 'addresses_not_proven_total',
      help: 'Times that a stored address was not the one that the signer attests, and was not served',
      registers,
    }),
    signerPolicy: new Gauge({
      name: 'signer_policy_info',
      help: 'The policy that the signer decided by at the last look at /readyz: always 1; state: file, refused, missing, kept',
      labelNames: ['version', 'hash', 'state'],
      registers,
    }),
    identitiesNotProven: new Counter({
      name: 'identities_not_proven_total',
      help: 'Times that the database led an identity to an account without the seal of the authorization server',
      registers,
    }),
    signIns: new Counter({
      name: 'sign_ins_total',
      help: 'Sign-ins, by identity provider of this installation; token_exchange: by a token that an application brought',
      labelNames: ['provider'],
      registers,
    }),
    signInsFailed: new Counter({
      name: 'sign_ins_failed_total',
      help: 'Sign-ins that ended at or behind a provider without a session, by provider as above and reason: cancelled, or the code of the refusal',
      labelNames: ['provider', 'reason'],
      registers,
    }),
    people: new Gauge({
      name: 'people',
      help: 'Accounts of people, by state: signed_in, expected (nobody has signed in yet), and beside these frozen; counted every five minutes by each authorization server',
      labelNames: ['state'],
      registers,
    }),
    rowsNotAuthentic: new Counter({
      name: 'rows_not_authentic_total',
      help: 'Times that a row on the way to a token was not as the authorization server wrote it, and counted as absent',
      labelNames: ['table'],
      registers,
    }),
  }
}
