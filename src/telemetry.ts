import { performance } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client'
import { openLog, type Logger, type WriteLine } from './log.ts'

/** Logs and metrics of the server. The signer has only a log. */
export type Telemetry = {
  log: Logger
  registry: Registry
  requests: Histogram<string>
  refusals: Counter<string>
  rpcCalls: Counter<string>
  writes: Counter<string>
  messages: Counter<string>
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
  accountsStopped: Gauge<string>
  webhookDeliveries: Counter<string>
  webhookOldest: Gauge<string>
  webhooksDisabled: Gauge<string>
}

/**
 * Opens the log and the metrics registry.
 * @param name   the program
 * @param write  receives log lines, as in `openLog`
 */
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
      help: 'Error responses (problem documents), by code',
      labelNames: ['code'],
      registers,
    }),
    rpcCalls: new Counter({
      name: 'rpc_calls_total',
      help: 'JSON-RPC calls to nodes',
      labelNames: ['method', 'outcome'],
      registers,
    }),
    writes: new Counter({
      name: 'writes_total',
      help: 'State changes of transactions, by new state',
      labelNames: ['state'],
      registers,
    }),
    messages: new Counter({
      name: 'messages_signed_total',
      help: 'Messages that were signed for users, by class',
      labelNames: ['class'],
      registers,
    }),
    topUps: new Counter({
      name: 'top_ups_total',
      help: 'Top-ups by outcome: the state of the transaction, sponsor_empty, gas_budget_exhausted or gas_not_sponsored',
      labelNames: ['outcome'],
      registers,
    }),
    sponsorBalance: new Gauge({
      name: 'sponsor_balance_wei',
      help: 'Balance of a sponsor, wei. A float with about 15 digits: `chatelaine sponsor list` has the exact amount',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorOpen: new Gauge({
      name: 'sponsor_open_transactions',
      help: 'Transactions of a sponsor that are not in a block',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorStopped: new Gauge({
      name: 'sponsor_stopped',
      help: '1 while a sponsor is stopped because a foreign transaction used one of its nonces',
      labelNames: ['chain_id', 'sponsor'],
      registers,
    }),
    sponsorsSpent: new Gauge({
      name: 'sponsors_spent_wei',
      help: 'Amount that the sponsors of a network spent in the rolling day, for all applications, wei. A float with about 15 digits',
      labelNames: ['chain_id'],
      registers,
    }),
    spamTransfers: new Counter({
      name: 'spam_transfers_total',
      help: 'Transfers that were judged as spam when a history was read, by reason. A transfer may have several',
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
      help: 'Newest block that is stored with the transaction states in it',
      labelNames: ['chain_id'],
      registers,
    }),
    cursorLag: new Gauge({
      name: 'cursor_lag_blocks',
      help: 'Blocks between the newest block of the node and a cursor: transactions, history',
      labelNames: ['chain_id', 'cursor'],
      registers,
    }),
    followerStopped: new Gauge({
      name: 'follower_stopped',
      help: 'Last block that was stored of a network that is not followed; state: halted, stuck',
      labelNames: ['chain_id', 'state', 'cause'],
      registers,
    }),
    backfillLeft: new Gauge({
      name: 'backfill_blocks_left',
      help: 'Blocks that this process still has to backfill',
      labelNames: ['chain_id'],
      registers,
    }),
    backfillAccounts: new Gauge({
      name: 'backfill_accounts',
      help: 'Accounts of a network by the state of their past transfers: waiting, covered. From the last count of any process',
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
      help: 'Share of the time since the last scrape in which the event loop was busy, 0 to 1',
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
      help: 'Requests being handled: status, writes, reads',
      labelNames: ['of'],
      registers,
    }),
    quotaUsed: new Gauge({
      name: 'quota_used_ratio',
      help: 'Used share of an application’s quota, 0 to 1',
      labelNames: ['client_id', 'counts', 'per'],
      registers,
    }),
    addressesNotProven: new Counter({
      name: 'addresses_not_proven_total',
      help: 'Stored addresses that differed from the attested ones and were not served',
      registers,
    }),
    signerPolicy: new Gauge({
      name: 'signer_policy_info',
      help: 'Policy in force at the last /readyz: always 1; state: `file`, `refused`, `missing`, `kept`',
      labelNames: ['version', 'hash', 'state'],
      registers,
    }),
    identitiesNotProven: new Counter({
      name: 'identities_not_proven_total',
      help: 'Linked identities that were rejected because their seal was missing or invalid',
      registers,
    }),
    signIns: new Counter({
      name: 'sign_ins_total',
      help: 'Sign-ins, by identity provider of this installation, or token_exchange',
      labelNames: ['provider'],
      registers,
    }),
    signInsFailed: new Counter({
      name: 'sign_ins_failed_total',
      help: 'Sign-ins that failed at or after a provider, by provider and reason: cancelled, or the error code',
      labelNames: ['provider', 'reason'],
      registers,
    }),
    accountsStopped: new Gauge({
      name: 'accounts_stopped',
      help: 'Accounts, including sponsors, whose writes are stopped because a foreign transaction used one of their nonces. Without those that an operator has asked to resume',
      labelNames: ['chain_id'],
      registers,
    }),
    people: new Gauge({
      name: 'people',
      help: 'Accounts by state: signed_in, expected (nobody has signed in yet) and, among both, frozen. Counted every five minutes by each authorization server',
      labelNames: ['state'],
      registers,
    }),
    webhookDeliveries: new Counter({
      name: 'webhook_deliveries_total',
      help: 'Attempts to deliver an event to a webhook, by result: delivered, failed, and dead for events that are not sent again',
      labelNames: ['result'],
      registers,
    }),
    webhookOldest: new Gauge({
      name: 'webhook_oldest_undelivered_seconds',
      help: 'Age of the oldest event that an enabled webhook has not received, seconds',
      registers,
    }),
    webhooksDisabled: new Gauge({
      name: 'webhooks_disabled',
      help: 'Webhooks that are disabled, because their endpoint failed for days or responded with 410',
      registers,
    }),
    rowsNotAuthentic: new Counter({
      name: 'rows_not_authentic_total',
      help: 'Rows that lead to a token and were not written by the authorization server. They counted as absent',
      labelNames: ['table'],
      registers,
    }),
  }
}
