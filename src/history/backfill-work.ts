import { sql, type UpdateObject } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { Fenced, type Lease } from '../follower/cursor.ts'
import { lockHistory } from '../follower/history-cursor.ts'
import type { Db, RootDb } from '../store/db.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import type { Database } from '../store/rows.ts'
import { GROUP } from './backfill.ts'
import { isUncovered, noteCoverage } from './coverage.ts'

/** Seconds after which another process continues what this one held. */
const LEASE_SECONDS = 30

/** A group whose past is looked up, from a block on to the one that the history was at when the group was chosen. Below `nextBlock` it is done. */
export type BackfillWork = { accountIds: string[]; fromBlock: number; nextBlock: number; target: number }

const leaseEnd = () => sql<Date>`now() + ${sql.lit(`${LEASE_SECONDS} seconds`)}::interval`
const NOTHING = { account_ids: null, from_block: null, target_block: null, next_block: null, blocked_by: null }

/**
 * Takes the lease on a network's backfill, under a new epoch, with the group that someone has begun.
 * @returns null while another process holds it
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

/** The row while it is ours. First of what a transaction writes: who was paused writes nothing. */
const ours = (db: Db, chainId: number, { epoch, owner }: Lease) =>
  db
    .updateTable('backfill_work')
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .returning('epoch')

/** @returns false when it is another's by now */
export async function renewWork(db: Db, chainId: number, held: Lease): Promise<boolean> {
  return (await ours(db, chainId, held).set({ lease_until: leaseEnd() }).executeTakeFirst()) !== undefined
}

/** Gives the lease back, so that no process waits for its end. What was begun stays. */
export async function releaseWork(db: Db, chainId: number, held: Lease): Promise<void> {
  await ours(db, chainId, held).set({ lease_until: null }).execute()
}

/**
 * Accounts of which not everything from a block on is in the history, the oldest first; how many these are, and how many have it or need none,
 * sponsors aside. Reads every account, once for a group of them.
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
 * Chooses a group of accounts whose past is not here, and the block that the history is at; notes how many wait.
 * @returns null when there is none, or the network was never followed
 * @throws Fenced
 */
export async function chooseWork(
  root: RootDb,
  chain: Chain,
  held: Lease,
  { fromBlock, atMost }: { fromBlock: number; atMost: number },
): Promise<BackfillWork | null> {
  const { chainId } = chain
  // In this order: of an account that is there by then, the history stores every block above the target.
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
 * Blocks below `nextBlock` are done, at so many a second, null while that is unknown. In the transaction that stores them.
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

/** When the groups behind this one would be through as well, each of as many blocks; null for what is further away than a century. */
const doneAt = ({ nextBlock, blocksPerSecond }: { nextBlock: number; blocksPerSecond: number }) => sql<Date | null>`(
    select case when seconds < 3e9 then now() + seconds * interval '1 second' end from (
      select (
        greatest(target_block + 1 - ${nextBlock}::bigint, 0) + ceil(greatest(waiting - cardinality(account_ids), 0) / ${sql.lit(GROUP)}::numeric)
          * greatest(target_block + 1 - from_block, 0)
      )::double precision / ${blocksPerSecond}::double precision as seconds
    ) as left_over
  )`

/** Leaves accounts out of the group that are not there any more: one that is made again lacks what was looked up without it. @throws Fenced */
export const narrowWork = (db: Db, chainId: number, held: Lease, accountIds: readonly string[]): Promise<void> =>
  write(db, chainId, held, { account_ids: sql<string[]>`${`{${accountIds.join()}}`}::uuid[]` })

/** What the group waits for, for operators; null once it waits no more. @throws Fenced */
export const blockWork = (db: Db, chainId: number, held: Lease, blockedBy: string | null): Promise<void> =>
  write(db, chainId, held, { blocked_by: blockedBy, ...(blockedBy === null ? {} : { done_at: null }) })

/** These accounts of the group have their past, all of it. @throws Fenced */
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
