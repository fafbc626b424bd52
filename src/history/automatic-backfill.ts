import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { AppError } from '../errors.ts'
import { Fenced, type Lease } from '../follower/cursor.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import { openState } from '../state.ts'
import { redact } from '../log.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { refreshTokens } from '../tokens/refresh.ts'
import { fillGroup, GROUP, type BackfillProgress } from './backfill.ts'
import { advanceWork, blockWork, chooseWork, finishWork, narrowWork, releaseWork, renewWork, takeWork, type BackfillWork } from './backfill-work.ts' // prettier-ignore
import { pacedRpc } from './paced-rpc.ts'
import { every, type Clock } from '../clock.ts'

/**
 * Milliseconds between two searches for accounts while none waits; and, in RENEW_MS, between two lease renewals: a
 * third of the lease.
 */
const LOOK_MS = 60_000
const RENEW_MS = 10_000
/** Maximum share of time spent searching for accounts, because a search reads every account. */
const MAX_LOOKING = 0.01
/** Maximum pause after repeated failures of a node, milliseconds. */
const MAX_BACKOFF_MS = 3_600_000
const BUSY_MS = 1_000
/**
 * The backfill waits while the history is more than this number of blocks behind, or while requests wait longer for the
 * database.
 */
const MAX_BEHIND = 32
const MAX_POOL_WAIT_MS = 20
const MAX_TOLD = 200

type Backfilling = Pick<App, 'clock' | 'db' | 'telemetry' | 'poolWaitMs'> & {
  config: Pick<App['config'], 'BACKFILL_FROM_BLOCK' | 'BACKFILL_CALLS_PER_SECOND'>
}

type TellProgress = (progress: BackfillProgress & { toBlock: number }) => void

/**
 * Indexes past transfers of accounts on a network in the background, a group at a time, in one process at a time. It
 * covers accounts that existed before the network was followed, were imported, or were created again. `chatelaine
 * backfill` does the same in the foreground.
 * @returns  stop; another process, or the next start, continues
 */
export function startBackfilling(
  app: Backfilling & Pick<App, 'config'>,
  chain: Chain,
  firstLookMs = LOOK_MS,
): { stop(): Promise<void> } {
  if (app.config.BACKFILL === 'off') return { stop: async () => {} }
  const stopping = new AbortController()
  const owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  let failures = 0
  const rounds = every(app.clock, firstLookMs, async () => {
    const since = app.clock.ticks()
    try {
      const became = await fillNext(app, chain, { owner, stopping: stopping.signal })
      failures = 0
      return became === 'filled' ? 0 : Math.max(LOOK_MS, (app.clock.ticks() - since) / MAX_LOOKING)
    } catch (error) {
      // If only the database was unavailable, do not back off from the node.
      const waitMs =
        error instanceof AppError ? LOOK_MS : Math.min(MAX_BACKOFF_MS, LOOK_MS * 2 ** Math.min(failures++, 10))
      app.telemetry.log.warn('backfill_blocked', { chainId: chain.chainId, waitMs }, error)
      return waitMs
    }
  })
  return {
    stop: () => {
      stopping.abort()
      return rounds.stop()
    },
  }
}

/**
 * Indexes the past transfers of one group. Another process may have begun the group.
 * @returns `filled`; `nothing`: no account waits; `elsewhere`: another process does it; `stopped`: before its end
 * @throws the error of node or database after repeated failures. The row records it, and no part of the group counts
 *   as covered
 */
export async function fillNext(
  app: Backfilling,
  chain: Chain,
  { owner, stopping, onProgress = () => {} }: { owner: string; stopping: AbortSignal; onProgress?: TellProgress },
): Promise<'filled' | 'nothing' | 'elsewhere' | 'stopped'> {
  const { db, config, telemetry } = app
  const { chainId } = chain
  const fromBlock = await readFirstBlock(db, chain, config.BACKFILL_FROM_BLOCK)
  const held = await takeWork(db, chainId, owner)
  if (held === null) {
    telemetry.backfillLeft.set({ chain_id: String(chainId) }, 0)
    await tellCounts(app, chainId)
    return 'elsewhere'
  }
  const lost = new AbortController()
  const renewing = every(app.clock, RENEW_MS, () =>
    renewWork(db, chainId, held).then(
      (isOurs) => void (isOurs || lost.abort()),
      (error: unknown) => telemetry.log.debug('backfill_lease_not_renewed', { chainId }, error),
    ),
  )
  try {
    // Discard a group that was begun with another first block: an operator may have changed that setting because no
    // node has the blocks.
    const begun = held.work?.fromBlock === fromBlock ? held.work : null
    const work = begun ?? (await chooseWork(db, chain, held, { fromBlock, atMost: GROUP }))
    await tellCounts(app, chainId)
    if (work === null) return 'nothing'
    return await fill(app, chain, { held, work, onProgress, stopping: AbortSignal.any([stopping, lost.signal]) })
  } catch (error) {
    if (error instanceof Fenced) return 'elsewhere'
    await blockWork(db, chainId, held, reasonOf(error)).catch(() => {})
    throw error
  } finally {
    await renewing.stop()
    await releaseWork(db, chainId, held).catch(() => {})
  }
}

/**
 * Returns the first block to index on a network: the network's own setting, or the common one. Reads it for each group,
 * because operators may change it at any time.
 */
async function readFirstBlock(db: Db, { chainId }: Chain, setting: number): Promise<number> {
  const row = await db.selectFrom('networks').select('backfill_from').where('chain_id', '=', chainId).executeTakeFirst()
  return row?.backfill_from ?? setting
}

/** Sets the metrics of the network from the stored counts, so that they are equal in every process. */
async function tellCounts({ db, telemetry }: Backfilling, chainId: number): Promise<void> {
  const row = await db
    .selectFrom('backfill_work')
    .select(['waiting', 'covered'])
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  for (const state of ['waiting', 'covered'] as const) {
    const count = row?.[state] ?? null
    if (count !== null) telemetry.backfillAccounts.set({ chain_id: String(chainId), state }, count)
  }
}

async function fill(
  app: Backfilling,
  chain: Chain,
  {
    held,
    work,
    stopping,
    onProgress,
  }: {
    held: Lease
    work: BackfillWork
    stopping: AbortSignal
    onProgress: TellProgress
  },
): Promise<'filled' | 'stopped'> {
  const { db, config, telemetry } = app
  const { chainId } = chain
  const { fromBlock, target } = work
  const rows = await db
    .selectFrom('accounts')
    .select(['account_id', 'address'])
    .where('account_id', 'in', work.accountIds)
    .execute()
  // An account that no longer exists is skipped and not marked as covered, so it is found again if it is created again.
  const accountIds = rows.map((row) => row.account_id)
  if (accountIds.length < work.accountIds.length) await narrowWork(db, chainId, held, accountIds)
  // If none of the accounts exists any longer, stop: an empty list of addresses would request everyone's transfers.
  if (accountIds.length === 0) {
    await finishWork(db, chainId, held, { accountIds, fromBlock })
    return 'filled'
  }
  const callsPerSecond = config.BACKFILL_CALLS_PER_SECOND
  const pace = openPace(app.clock)
  const paced = { ...chain, rpc: pacedRpc(chain.rpc, { clock: app.clock, callsPerSecond, stopping }) }
  const nextBlock = await fillGroup(app, paced, {
    addresses: rows.map((row) => toHex(row.address)),
    from: work.nextBlock,
    target,
    stopping,
    report: (progress) => {
      onProgress({ ...progress, toBlock: target })
      telemetry.log.debug('backfill_progressed', { chainId, toBlock: target, ...progress })
      telemetry.backfillLeft.set({ chain_id: String(chainId) }, target + 1 - progress.nextBlock)
    },
    ready: async (nextBlock) => {
      pace.begin(nextBlock)
      let told: string | null = null
      while (!stopping.aborted) {
        const reason = await busyWith(app, chain)
        if (reason !== told) await blockWork(db, chainId, held, reason)
        told = reason
        if (reason === null) return
        await app.clock.sleep(BUSY_MS, stopping)
      }
    },
    within: (tx, nextBlock) => advanceWork(tx, chainId, held, { nextBlock, blocksPerSecond: pace.at(nextBlock) }),
  })
  if (nextBlock <= target) return 'stopped'
  await finishWork(db, chainId, held, { accountIds, fromBlock })
  await tellCounts(app, chainId)
  telemetry.log.info('backfill_done', { chainId, accounts: accountIds.length, fromBlock, toBlock: target })
  // Run separately, so that token queries for new blocks do not wait for the backfill's pace.
  await refreshTokens(app, { ...paced, state: openState() })
  return 'filled'
}

/** Measures blocks per second since this process began the first range of a group, including all waits. */
function openPace({ ticks }: Clock) {
  let from: { block: number; at: number } | null = null
  return {
    begin: (block: number) => void (from ??= { block, at: ticks() }),
    at: (block: number): number | null => {
      const seconds = from === null ? 0 : (ticks() - from.at) / 1_000
      return from === null || seconds === 0 ? null : (block - from.block) / seconds
    },
  }
}

/** Returns why the backfill must wait, for operators; null if it need not. New blocks and requests take precedence. */
async function busyWith({ db, poolWaitMs }: Backfilling, { chainId, head }: Chain): Promise<string | null> {
  if ((poolWaitMs?.() ?? 0) > MAX_POOL_WAIT_MS) return 'it waits: requests wait for the database'
  const newest = head.node.newest()
  const { indexedTo: indexed } = await indexedTo(db, chainId)
  if (newest === null || indexed === null || newest - indexed <= MAX_BEHIND) return null
  return `it waits: the history is more than ${MAX_BEHIND} blocks behind its node`
}

/**
 * Returns the reason of a failure for operators: the node's message without URLs and keys, or our own message. Omits
 * messages of databases, because they may contain addresses with secrets.
 */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof RpcError ? error.cause : error
  const isNode = cause instanceof RpcError || cause instanceof RpcUnavailable
  return isNode
    ? redact(cause.message).slice(0, MAX_TOLD)
    : 'no node refused it: backfill_blocked in the log says what did'
}
