import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { countStopped, listStopped } from '../transactions/recovery/resume.ts'
import type { ConsoleTexts } from '../texts/console.ts'
import { findTroubles } from '../webhooks/backlog.ts'
import { userPath, webhookPath } from './layout.ts'

/** A known problem: one sentence about it and one about the next step. */
export type ConsoleProblem = {
  isUrgent: boolean
  say: (words: ConsoleTexts['problems']) => string
  /** the page to go to */
  href: string | null
}

/** Stopped accounts, and webhooks, that the overview names, and those that it counts besides. */
const MAX_NAMED = 10
const MAX_COUNTED = 1_000
/** Blocks that transfers may be behind transactions: a busy network, and a history that has just begun. */
const HISTORY_BEHIND = 100
/** Blocks that a network may be behind its nodes. */
const NETWORK_BEHIND = 10
const NODE_SILENT_MS = 15_000
/** Time without a holder of the network's lease after which no server counts as following. */
const UNHELD_MS = 60_000

/** Finds the problems that the database, the signer and the nodes of this process show. No node is asked. */
export async function findProblems(app: App): Promise<ConsoleProblem[]> {
  const found = await Promise.all([
    problemsOfSigner(app),
    problemsOfNetworks(app),
    stoppedAccounts(app),
    lowSponsors(app),
    webhookTroubles(app),
    keyRequests(app),
  ])
  return found.flat().toSorted((one, other) => Number(other.isUrgent) - Number(one.isUrgent))
}

const urgent = (say: ConsoleProblem['say'], href: string | null = null): ConsoleProblem => ({
  isUrgent: true,
  say,
  href,
})
const minor = (say: ConsoleProblem['say'], href: string | null = null): ConsoleProblem => ({
  isUrgent: false,
  say,
  href,
})

async function stoppedAccounts({ db }: App): Promise<ConsoleProblem[]> {
  const [stopped, count] = await Promise.all([
    listStopped(db, MAX_NAMED),
    countStopped(db, MAX_NAMED + MAX_COUNTED + 1),
  ])
  const named = stopped.map(({ userId, chainId, nonce, resumeAskedAt }) =>
    resumeAskedAt === null
      ? urgent((words) => words.stopped(userId, String(chainId), String(nonce)), userPath(userId))
      : minor((words) => words.resuming(userId, String(chainId), String(nonce)), userPath(userId)),
  )
  const more = count - named.length
  if (more <= 0) return named
  return [...named, urgent((words) => words.more(more > MAX_COUNTED ? `${MAX_COUNTED}+` : String(more)))]
}

async function lowSponsors({ db }: App): Promise<ConsoleProblem[]> {
  const rows = await db
    .selectFrom('low_sponsors as low')
    .innerJoin('sponsors as sponsor', (on) =>
      on.onRef('sponsor.chain_id', '=', 'low.chain_id').onRef('sponsor.account_id', '=', 'low.account_id'),
    )
    .innerJoin('networks as network', 'network.chain_id', 'low.chain_id')
    .select(['sponsor.name', 'network.name as network'])
    .orderBy('network.name')
    .orderBy('sponsor.name')
    .execute()
  return rows.map(({ name, network }) => urgent((words) => words.low(name, network), '/console/networks'))
}

/** Events that do not reach an application: disabled webhooks, those that fail for over an hour, and dead events of a day. */
async function webhookTroubles({ db }: App): Promise<ConsoleProblem[]> {
  const troubles = await findTroubles(db)
  const named = troubles.slice(0, MAX_NAMED).flatMap(({ id, clientId, disabledReason, failingSince, dead }) => {
    const path = webhookPath(id)
    return [
      ...(disabledReason === 'secret' ? [urgent((words) => words.webhookSecret(id, clientId), path)] : []),
      ...(disabledReason !== null && disabledReason !== 'secret'
        ? [urgent((words) => words.webhookDisabled(id, clientId), path)]
        : []),
      ...(failingSince === null
        ? []
        : [minor((words) => words.webhookFailing(id, clientId, failingSince.toISOString()), path)]),
      ...(dead === 0 ? [] : [minor((words) => words.webhookDead(id, clientId, String(dead)), path)]),
    ]
  })
  const more = troubles.length - MAX_NAMED
  return more <= 0 ? named : [...named, minor((words) => words.moreWebhooks(String(more)), '/console/webhooks')]
}

/** The cursors of all networks, and what the chains of this process know of their nodes, if it has any. */
async function problemsOfNetworks({ db, chains, clock }: App): Promise<ConsoleProblem[]> {
  const rows = await db
    .selectFrom('networks as network')
    .leftJoin('cursors as cursor', 'cursor.chain_id', 'network.chain_id')
    .leftJoin('history_cursors as history', 'history.chain_id', 'network.chain_id')
    .leftJoin('backfill_work as work', 'work.chain_id', 'network.chain_id')
    .select(['network.chain_id', 'network.name', 'cursor.block_number', 'cursor.halted', 'cursor.blocked_by'])
    .select(['cursor.lease_until', 'history.block_number as indexed', 'work.blocked_by as backfill_blocked_by'])
    .orderBy('network.name')
    .execute()
  return rows.flatMap((row) => {
    const { name, block_number: block, indexed, halted, blocked_by: blockedBy } = row
    const head = chains.get(row.chain_id)?.head
    const newest = head?.node.newest() ?? null
    const silentMs = head?.node.silentMs() ?? 0
    const isHeld = row.lease_until !== null && row.lease_until.getTime() > clock.wall() - UNHELD_MS
    const at = String(block)
    const history = block !== null && indexed !== null && block - indexed > HISTORY_BEHIND
    return [
      ...(silentMs > NODE_SILENT_MS
        ? [urgent((words) => words.silent(name, String(Math.floor(silentMs / 1_000))))]
        : []),
      ...(halted !== null ? [urgent((words) => words.halted(name, at, halted))] : []),
      ...(halted === null && blockedBy !== null ? [urgent((words) => words.blocked(name, at, blockedBy))] : []),
      ...(halted === null && !isHeld ? [urgent((words) => words.unfollowed(name))] : []),
      ...(newest !== null && block !== null && newest - block > NETWORK_BEHIND
        ? [urgent((words) => words.behind(name, at, String(newest)))]
        : []),
      ...(history ? [urgent((words) => words.history(name, String(indexed), at))] : []),
      ...(row.backfill_blocked_by === null ? [] : [minor((words) => words.backfill(name, row.backfill_blocked_by!))]),
    ]
  })
}

async function problemsOfSigner({ signer, tokenKeys, telemetry }: App): Promise<ConsoleProblem[]> {
  try {
    const { revocations, masterKey, policy, tokenKeys: trusted } = await signer.health()
    const inUse = tokenKeys.keys.find(({ kty }) => kty === 'EC')?.kid
    const { fault } = masterKey
    return [
      ...(revocations === 'stale' ? [urgent((words) => words.revocations)] : []),
      ...(fault === null ? [] : [urgent((words) => words.masterKey(fault))]),
      ...(inUse !== undefined && !trusted.includes(inUse) ? [urgent((words) => words.tokenKey)] : []),
      ...(policy === null || policy.problem === null
        ? []
        : [urgent((words) => words.policy(policy.problem!, String(policy.version)), '/console/policy')]),
    ]
  } catch (error) {
    telemetry.log.debug('signer_not_seen', {}, error)
    return [urgent((words) => words.signer)]
  }
}

/** Requests for keys are no fault, but an attacker’s request looks like a user’s. */
async function keyRequests({ signer, config }: App): Promise<ConsoleProblem[]> {
  if (config.KEY_EXPORT !== 'on') return []
  try {
    const { total } = await signer.keyExports()
    return total === 0 ? [] : [minor((words) => words.exports(String(total)))]
  } catch (error) {
    // An unavailable signer has a problem of its own.
    if (error instanceof AppError) return []
    throw error
  }
}
