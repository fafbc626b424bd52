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

/** accounts of one call: nodes cap the values of a topic at 1,000 */
export const GROUP = 1_000
/** blocks of one call: at first, and at most when everything goes well */
const FIRST_RANGE = 1_000
const MAX_RANGE = 10_000

/** Milliseconds between looks for blocks that become final. */
export const FINAL_EVERY_MS = 10_000
/** How often a node may fail in a row before it is left alone for long. */
const PATIENCE = 3

type BackfillContext = Pick<App, 'clock' | 'db' | 'telemetry'>

/** Blocks below `nextBlock` are done. */
export type BackfillProgress = { nextBlock: number; transfers: number }

/** Accounts from a block that is not done on to the one behind which the history has known them all along. */
export type FillOrder = {
  addresses: readonly Hex[]
  from: number
  target: number
  stopping: AbortSignal
  report: (progress: BackfillProgress) => void
  /** waited for before each range, told where it begins */
  ready: (nextBlock: number) => Promise<void>
  /** in the transaction that stores a range, after the history's cursor is held */
  within: (db: Db, nextBlock: number) => Promise<void>
}

/**
 * Looks up the past of a group, range after range, and stores each with how far it reaches. Only final blocks are read, and rows that are
 * there stay.
 * @returns the first block that is not done
 * @throws what the node or the database throws, when it fails again and again
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

/** By filter; a single block that the node does not give by filter is read whole. */
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

/** Rows and how far they reach, together. The history's cursor is held meanwhile: what is final stays so. */
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

/** The newest final block that the history has; -1 before the first. */
export async function readFinalized(db: Db, { chainId }: Chain): Promise<number> {
  const row = await db
    .selectFrom('history_cursors as history')
    .innerJoin('cursors as cursor', 'cursor.chain_id', 'history.chain_id')
    .select(['finalized_number', 'history.block_number'])
    .where('history.chain_id', '=', chainId)
    .executeTakeFirst()
  return row === undefined ? -1 : Math.min(row.finalized_number, row.block_number)
}

/** The same, and the history waits until this transaction is over, as does a reorganisation; transactions do not. */
export async function lockFinalized(db: Db, chain: Chain): Promise<number> {
  await lockHistory(db, chain.chainId)
  return readFinalized(db, chain)
}
