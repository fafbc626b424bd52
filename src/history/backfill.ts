import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import { Fenced } from '../follower/cursor.ts'
import { lockHistory } from '../follower/history-cursor.ts'
import { SPONSOR_PROVIDER, type Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { noteTokens } from '../tokens/record.ts'
import { refreshTokens } from '../tokens/refresh.ts'
import { insertTransfers } from './columns.ts'
import { noteCoverage } from './coverage.ts'
import { fetchPast, fetchWhole, isTooMuch } from './past-logs.ts'
import { rowsOf, type FoundTransfer } from './rows.ts'

/** accounts of one call: nodes cap the values of a topic at 1,000 */
export const GROUP = 1_000
/** blocks of one call: at first, and at most when everything goes well */
const FIRST_RANGE = 1_000
const MAX_RANGE = 10_000

type BackfillContext = Pick<App, 'clock' | 'db' | 'telemetry'>
export type AccountGroup = { accountIds: string[]; addresses: Hex[]; members: Buffer }

/** Progress of a backfill: blocks below `nextBlock` are done for this group of accounts. */
export type BackfillProgress = {
  group: number
  groups: number
  accounts: number
  nextBlock: number
  toBlock: number
  transfers: number
}

/** A group of accounts from a block on to the one behind which the history has known them all along. */
export type FillOrder = {
  group: AccountGroup
  fromBlock: number
  target: number
  stopping: AbortSignal
  /** milliseconds between looks for blocks that become final; 0 ends at what is final now */
  waitMs: number
  /** how often a node may fail in a row */
  patience: number
  report: (progress: Pick<BackfillProgress, 'nextBlock' | 'transfers'>) => void
  /** waited for before each range, told where it begins */
  ready: (nextBlock: number) => Promise<void>
  /** in the transaction that stores a range, after the history's cursor is held */
  within: (db: Db, nextBlock: number) => Promise<void>
}

type BackfillJob = {
  fromBlock: number
  /** null for every account */
  accountIds: readonly string[] | null
  onProgress: (progress: BackfillProgress) => void
  stopping: AbortSignal
  /** milliseconds between looks for blocks that become final; 0 ends at what is final now */
  waitMs: number
}

/**
 * Looks up the transfers of accounts that existed before this installation followed the chain, from `fromBlock` to
 * where the history is now. Only final blocks are read, rows that are there stay, and what is done is remembered:
 * a repeat continues where the last one ended.
 * @returns the first block that is not done, at most one above the history's block
 * @throws RpcUnavailable | InvalidResponse | RpcError  when the node fails again and again; AppError not_found
 */
export async function backfill(
  app: BackfillContext,
  chain: Chain,
  order: BackfillJob,
): Promise<{ nextBlock: number; target: number }> {
  // In this order: of an account that is there by then, the history stores every block above the target.
  const groups = await readGroups(app.db, order.accountIds)
  const { target } = await readBackfillTarget(app, chain)
  let nextBlock = target + 1
  for (const [index, group] of groups.entries()) {
    const report = (progress: Pick<BackfillProgress, 'nextBlock' | 'transfers'>) => {
      const told = { group: index + 1, groups: groups.length, accounts: group.accountIds.length, toBlock: target, ...progress } // prettier-ignore
      app.telemetry.log.info('backfill', { chainId: chain.chainId, ...told })
      order.onProgress(told)
    }
    nextBlock = Math.min(nextBlock, await fillGroup(app, chain, { ...order, group, target, report, ...UNHELD }))
  }
  await refreshTokens(app, chain)
  return { nextBlock, target }
}

/** By hand: at once, and beside others that do it. */
const UNHELD = { patience: 8, ready: async () => {}, within: async () => {} }

/** The history's block, once the transaction that may not know our accounts yet is through. */
async function readBackfillTarget({ db }: BackfillContext, { chainId }: Chain): Promise<{ target: number }> {
  const history = await db.transaction().execute((tx) => lockHistory(tx, chainId))
  if (history === null)
    throw new AppError(
      'not_found',
      'The server has never read this network. Nothing was backfilled. Start the server once.',
    )
  return { target: history.number }
}

/** Oldest accounts first, so that new ones change the last group only. */
async function readGroups(db: Db, accountIds: readonly string[] | null): Promise<AccountGroup[]> {
  let query = db.selectFrom('accounts').select(['account_id', 'address']).orderBy('created_at').orderBy('account_id')
  // Nobody reads the history of a sponsor; who names one asks for it.
  query =
    accountIds === null
      ? query.where('user_id', 'not like', `${SPONSOR_PROVIDER}-%`)
      : query.where('account_id', 'in', accountIds)
  const rows = await query.execute()
  return Array.from({ length: Math.ceil(rows.length / GROUP) }, (_, index) => {
    const some = rows.slice(index * GROUP, (index + 1) * GROUP)
    return groupOf(some)
  })
}

/** Accounts that are looked up together; their progress is found again by who they are. */
export function groupOf(rows: readonly { account_id: string; address: Uint8Array }[]): AccountGroup {
  const accountIds = rows.map((row) => row.account_id)
  const members = createHash('sha256').update(accountIds.toSorted().join()).digest()
  return { accountIds, addresses: rows.map((row) => toHex(row.address)), members }
}

/**
 * Looks up the past of a group, range after range, and stores each with how far it reaches.
 * @returns the first block that is not done
 * @throws what the node or the database throws, when it fails again and again
 */
export async function fillGroup(app: BackfillContext, chain: Chain, order: FillOrder): Promise<number> {
  const { group, target, fromBlock, stopping, waitMs, report } = order
  let next = await readNext(app.db, chain, { fromBlock, group })
  let range = FIRST_RANGE
  let failures = 0
  let transfers = 0
  while (next <= target && !stopping.aborted) {
    const last = Math.min(target, await readFinalized(app.db, chain))
    if (next > last) {
      if (waitMs === 0) break
      await app.clock.sleep(waitMs, stopping).catch(() => {})
      continue
    }
    const to = Math.min(last, next + range - 1)
    try {
      await order.ready(next)
      const found = await fetchRange(chain, { from: next, to, addresses: group.addresses })
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
      if (++failures > order.patience) throw error
      app.telemetry.log.warn('backfill_retrying', { chainId: chain.chainId, block: next, failures }, error)
      await app.clock.sleep(50 * 2 ** failures, stopping).catch(() => {})
    }
  }
  return next
}

/** By filter; a single block that the node does not give by filter is read whole. */
async function fetchRange(
  { rpc, verification }: Chain,
  range: { from: number; to: number; addresses: Hex[] },
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
  { found, fromBlock, group, target, next, within }: FillOrder & { found: FoundTransfer[]; next: number },
): Promise<number> {
  return app.db.transaction().execute(async (db) => {
    if ((await lockFinalized(db, chain)) < next - 1) throw new Error('a finalized block was reorganised')
    await within(db, next)
    const { rows, tokens } = await rowsOf(db, chain, found)
    const stored = await insertTransfers(db, chain, rows)
    await noteTokens(db, chain, tokens)
    const { accountIds, members } = group
    // Two that do the same ranges at once set each other back nowhere.
    const progress = { next_block: sql<number>`greatest(backfills.next_block, excluded.next_block)`, updated_at: sql<Date>`now()` } // prettier-ignore
    const { target_block } = await db
      .insertInto('backfills')
      .values({
        chain_id: chain.chainId,
        from_block: fromBlock,
        members,
        accounts: accountIds.length,
        target_block: target,
        next_block: next,
      })
      .onConflict((on) => on.columns(['chain_id', 'from_block', 'members']).doUpdateSet(progress))
      .returning('target_block')
      .executeTakeFirstOrThrow()
    // Behind the target of its beginning the history has known these accounts all along.
    if (next > target_block) await noteCoverage(db, chain, { accountIds, from: fromBlock })
    return stored
  })
}

async function readNext(db: Db, { chainId }: Chain, { fromBlock, group }: { fromBlock: number; group: AccountGroup }) {
  const row = await db
    .selectFrom('backfills')
    .select('next_block')
    .where('chain_id', '=', chainId)
    .where('from_block', '=', fromBlock)
    .where('members', '=', group.members)
    .executeTakeFirst()
  return row?.next_block ?? fromBlock
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
