import { sql, type UpdateObject } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { Fenced, type Lease } from '../follower/cursor.ts'
import { lockHistory } from '../follower/history-cursor.ts'
import type { Db, RootDb } from '../store/db.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import type { Database } from '../store/rows.ts'
import { GROUP } from './backfill.ts'
import { isUncovered, noteCoverage } from './coverage.ts'

/** Seconds after which another process takes over the backfill of a process that no longer renews its lease. */
const LEASE_SECONDS = 30

/**
 * A group of accounts whose past transfers are indexed, from `fromBlock` to `target`: the block that the history had
 * reached when the group was chosen. Blocks below `nextBlock` are done.
 */
export type BackfillWork = { accountIds: string[]; fromBlock: number; nextBlock: number; target: number }

const leaseEnd = () => sql<Date>`now() + ${sql.lit(`${LEASE_SECONDS} seconds`)}::interval`
const NOTHING = { account_ids: null, from_block: null, target_block: null, next_block: null, blocked_by: null }

/**
 * Acquires the lease on a network's backfill under a new epoch, with the group that was begun.
 * @returns null while another process has the lease
 */
export async function takeWork(
  db: Db,
  chainId: number,
  owner: string,
): Promise<(Lease & { work: BackfillWork | null }) | null> {
  await db
    .insertInto('backfill_work')
    .values({ chain_id: chainId, epoch: 0, ...NOTHING })
    .onConflict((on) => on.doNothing())
    .execute()
  const row = await db
    .updateTable('backfill_work')
    .set((eb) => ({ epoch: eb('epoch', '+', 1), lease_owner: owner, lease_until: leaseEnd() }))
    .where('chain_id', '=', chainId)
    .where(sql<boolean>`coalesce(lease_until > now(), false)`, '=', false)
    .returning(['epoch', 'account_ids', 'from_block', 'next_block', 'target_block'])
    .executeTakeFirst()
  if (row === undefined) return null
  const { epoch, account_ids: accountIds, from_block: fromBlock, next_block: nextBlock, target_block: target } = row
  const work =
    accountIds === null
      ? null
      : { accountIds, fromBlock: fromBlock!, nextBlock: nextBlock ?? fromBlock!, target: target! }
  return { epoch, owner, work }
}

/**
 * Updates the row while this process has the lease. Each transaction calls this first, so a process that was paused
 * writes nothing.
 */
const ours = (db: Db, chainId: number, { epoch, owner }: Lease) =>
  db
    .updateTable('backfill_work')
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .returning('epoch')

/** Renews the lease. @returns false if another process has it */
export async function renewWork(db: Db, chainId: number, held: Lease): Promise<boolean> {
  return (await ours(db, chainId, held).set({ lease_until: leaseEnd() }).executeTakeFirst()) !== undefined
}

/** Releases the lease, so that no process waits for its end. The begun group remains. */
export async function releaseWork(db: Db, chainId: number, held: Lease): Promise<void> {
  await ours(db, chainId, held).set({ lease_until: null }).execute()
}

/**
 * Selects accounts whose history is incomplete from a block on, oldest first. Counts them, and the other accounts,
 * which are complete or need nothing. Does not count sponsors. Reads every account, once per group.
 * Indexes: accounts_created, coverage by its primary key.
 */
export async function selectWaiting(
  db: Db,
  { chainId, fromBlock, atMost }: { chainId: number; fromBlock: number; atMost: number },
): Promise<{ accountIds: string[]; waiting: number; covered: number }> {
  const { rows } = await sql<{ account_id: string }>`
    select account.account_id from accounts as account
    left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
    where ${isUncovered(chainId, fromBlock)}
    order by account.created_at, account.account_id
    limit ${atMost}`.execute(db)
  const counts = await sql<{ waiting: number | string; all: number | string }>`
    select count(*) filter (where ${isUncovered(chainId, fromBlock)}) as waiting, count(*) as all from accounts as account
    left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
    where account.user_id not like ${`${SPONSOR_PROVIDER}-%`}`.execute(db)
  const { waiting, all } = counts.rows[0]!
  return {
    accountIds: rows.map((row) => row.account_id),
    waiting: Number(waiting),
    covered: Number(all) - Number(waiting),
  }
}

/**
 * Chooses the next group of accounts, with the history's block as the target, and stores the counts.
 * @returns null if no account waits, or the network was never followed
 * @throws Fenced
 */
export async function chooseWork(
  root: RootDb,
  chain: Chain,
  held: Lease,
  { fromBlock, atMost }: { fromBlock: number; atMost: number },
): Promise<BackfillWork | null> {
  const { chainId } = chain
  // Select the accounts before reading the target: for accounts that exist before this read, the history stores every
  // block above the target.
  const { accountIds, ...counted } = await selectWaiting(root, { chainId, fromBlock, atMost })
  const counts = { ...counted, counted_at: sql<Date>`now()` }
  return root.transaction().execute(async (db) => {
    const history = accountIds.length === 0 ? null : await lockHistory(db, chainId)
    if (history === null) {
      const blockedBy = accountIds.length === 0 ? null : 'it waits: no block of this network was followed yet'
      await write(db, chainId, held, { ...NOTHING, ...counts, blocked_by: blockedBy })
      return null
    }
    const target = history.number
    await write(db, chainId, held, {
      account_ids: sql<string[]>`${`{${accountIds.join()}}`}::uuid[]`,
      from_block: fromBlock,
      target_block: target,
      next_block: null,
      blocked_by: null,
      ...counts,
    })
    return { accountIds, fromBlock, nextBlock: fromBlock, target }
  })
}

/**
 * Records that the blocks below `nextBlock` are done, in the transaction that stores them. `blocksPerSecond` is null
 * while unknown.
 * @throws Fenced
 */
export const advanceWork = (
  db: Db,
  chainId: number,
  held: Lease,
  { nextBlock, blocksPerSecond }: { nextBlock: number; blocksPerSecond: number | null },
): Promise<void> => {
  const pace = blocksPerSecond === null ? {} : { blocks_per_second: blocksPerSecond, done_at: doneAt({ nextBlock, blocksPerSecond }) } // prettier-ignore
  return write(db, chainId, held, { next_block: nextBlock, blocked_by: null, ...pace })
}

/**
 * Estimates when the groups after this one would be done, if each has as many blocks; null if that is over a century
 * away.
 */
const doneAt = ({ nextBlock, blocksPerSecond }: { nextBlock: number; blocksPerSecond: number }) => sql<Date | null>`(
    select case when seconds < 3e9 then now() + seconds * interval '1 second' end from (
      select (
        greatest(target_block + 1 - ${nextBlock}::bigint, 0) + ceil(greatest(waiting - cardinality(account_ids), 0) / ${sql.lit(GROUP)}::numeric)
          * greatest(target_block + 1 - from_block, 0)
      )::double precision / ${blocksPerSecond}::double precision as seconds
    ) as left_over
  )`

/**
 * Removes accounts from the group that no longer exist. If such an account is created again, it lacks the blocks that
 * were indexed without it.
 * @throws Fenced
 */
export const narrowWork = (db: Db, chainId: number, held: Lease, accountIds: readonly string[]): Promise<void> =>
  write(db, chainId, held, { account_ids: sql<string[]>`${`{${accountIds.join()}}`}::uuid[]` })

/** Records why the group waits, for operators; null: it no longer waits. @throws Fenced */
export const blockWork = (db: Db, chainId: number, held: Lease, blockedBy: string | null): Promise<void> =>
  write(db, chainId, held, { blocked_by: blockedBy, ...(blockedBy === null ? {} : { done_at: null }) })

/** Records that the past transfers of these accounts are complete, and ends the group. @throws Fenced */
export async function finishWork(
  root: RootDb,
  chainId: number,
  held: Lease,
  { accountIds, fromBlock }: Pick<BackfillWork, 'accountIds' | 'fromBlock'>,
): Promise<void> {
  await root.transaction().execute(async (db) => {
    await write(db, chainId, held, NOTHING)
    await noteCoverage(db, { chainId }, { accountIds, from: fromBlock })
  })
}

async function write(
  db: Db,
  chainId: number,
  held: Lease,
  change: UpdateObject<Database, 'backfill_work'>,
): Promise<void> {
  const row = await ours(db, chainId, held)
    .set({ ...change, updated_at: sql<Date>`now()` })
    .executeTakeFirst()
  if (row === undefined) throw new Fenced()
}
