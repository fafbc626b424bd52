import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { Fenced } from '../follower/cursor.ts'
import { lockHistory } from '../follower/history-cursor.ts'
import type { Hex } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { noteTokens } from '../tokens/record.ts'
import { insertTransfers } from './columns.ts'
import { fetchPast, fetchWhole, isTooMuch } from './past-logs.ts'
import { rowsOf, type FoundTransfer } from './rows.ts'

/** accounts per call: nodes limit the values of a topic to 1,000 */
export const GROUP = 1_000
/** blocks per call: in the first call, and maximum */
const FIRST_RANGE = 1_000
const MAX_RANGE = 10_000

/** Milliseconds between two checks for newly final blocks. */
export const FINAL_EVERY_MS = 10_000
/** Consecutive failures of a node before a long pause. */
const PATIENCE = 3

type BackfillContext = Pick<App, 'clock' | 'db' | 'telemetry'>

/** Progress: blocks below `nextBlock` are done. */
export type BackfillProgress = { nextBlock: number; transfers: number }

/** Accounts to index, from a block to the target. Above the target, the history has indexed the accounts itself. */
export type FillOrder = {
  addresses: readonly Hex[]
  from: number
  target: number
  stopping: AbortSignal
  report: (progress: BackfillProgress) => void
  /** awaited before each range, with its first block */
  ready: (nextBlock: number) => Promise<void>
  /** runs in the transaction that stores a range, after the history's cursor was locked */
  within: (db: Db, nextBlock: number) => Promise<void>
}

/**
 * Indexes the past transfers of a group in ranges, and stores each range with its progress. Reads final blocks only.
 * Existing rows remain.
 * @returns the first block that is not done
 * @throws the error of node or database, after repeated failures
 */
export async function fillGroup(app: BackfillContext, chain: Chain, order: FillOrder): Promise<number> {
  const { addresses, target, stopping, report } = order
  let next = order.from
  let range = FIRST_RANGE
  let failures = 0
  let transfers = 0
  while (next <= target && !stopping.aborted) {
    const last = Math.min(target, await readFinalized(app.db, chain))
    if (next > last) {
      await app.clock.sleep(FINAL_EVERY_MS, stopping).catch(() => {})
      continue
    }
    const to = Math.min(last, next + range - 1)
    try {
      await order.ready(next)
      const found = await fetchRange(chain, { from: next, to, addresses })
      transfers += await store(app, chain, { ...order, found, next: to + 1 })
      next = to + 1
      range = Math.min(MAX_RANGE, range * 2)
      failures = 0
      report({ nextBlock: next, transfers })
    } catch (error) {
      if (error instanceof Fenced || stopping.aborted) break
      if (isTooMuch(error) && to > next) {
        range = Math.max(1, (to - next + 1) >> 1)
        continue
      }
      if (++failures > PATIENCE) throw error
      app.telemetry.log.warn('backfill_retrying', { chainId: chain.chainId, block: next, failures }, error)
      await app.clock.sleep(50 * 2 ** failures, stopping).catch(() => {})
    }
  }
  return next
}

/** Fetches a range by filter. Fetches a single block whole if the node does not return its logs by filter. */
async function fetchRange(
  { rpc, verification }: Chain,
  range: { from: number; to: number; addresses: readonly Hex[] },
): Promise<FoundTransfer[]> {
  try {
    return await fetchPast(rpc, range)
  } catch (error) {
    if (range.from < range.to || !isTooMuch(error)) throw error
    return fetchWhole(rpc, range.from, { hasBlockReceipts: true, verification })
  }
}

/** Stores rows and progress together. Locks the history's cursor, so that the blocks remain final. */
async function store(
  app: BackfillContext,
  chain: Chain,
  { found, next, within }: Pick<FillOrder, 'within'> & { found: FoundTransfer[]; next: number },
): Promise<number> {
  return app.db.transaction().execute(async (db) => {
    if ((await lockFinalized(db, chain)) < next - 1) throw new Error('a finalized block was reorganised')
    await within(db, next)
    const { rows, tokens } = await rowsOf(db, chain, found)
    const stored = await insertTransfers(db, chain, rows)
    await noteTokens(db, chain, tokens)
    return stored
  })
}

/** Returns the newest final block that the history has; -1 before the first. */
export async function readFinalized(db: Db, { chainId }: Chain): Promise<number> {
  const row = await db
    .selectFrom('history_cursors as history')
    .innerJoin('cursors as cursor', 'cursor.chain_id', 'history.chain_id')
    .select(['finalized_number', 'history.block_number'])
    .where('history.chain_id', '=', chainId)
    .executeTakeFirst()
  return row === undefined ? -1 : Math.min(row.finalized_number, row.block_number)
}

/**
 * Returns the newest final block like `readFinalized`, and blocks the history and reorganisations until this
 * transaction ends. Transaction states do not wait.
 */
export async function lockFinalized(db: Db, chain: Chain): Promise<number> {
  await lockHistory(db, chain.chainId)
  return readFinalized(db, chain)
}
