import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'

/** Seconds between two marks, and within which the transaction that stores an account has ended for sure. */
const MARK_EVERY_SECONDS = 300
export const STORED_WITHIN_SECONDS = 300

/** when this process noted a mark last, in ticks */
const marked = slot('when the history of a network was noted last', (_chain: Chain) => ({
  at: Number.NEGATIVE_INFINITY,
}))

/**
 * Notes now and then which block comes next, before accounts are looked for in it: an account that is stored by now is known in this block
 * and in all that follow. In the transaction that stores the block's transfers.
 */
export async function markHistory(db: Db, chain: Chain, nextBlock: number): Promise<void> {
  const last = marked.of(chain)
  if (chain.clock.ticks() - last.at < MARK_EVERY_SECONDS * 1_000) return
  // The transaction's time: accounts are looked for later than that.
  await db
    .insertInto('history_marks')
    .values({ chain_id: chain.chainId, at: sql<Date>`now()`, block_number: nextBlock - 1 })
    .onConflict((on) => on.doNothing())
    .execute()
  last.at = chain.clock.ticks()
}

/** What is above a block that was reorganised is looked at anew, later than anything that was noted. */
export async function lowerCoverage(db: Db, { chainId }: Chain, fromNumber: number): Promise<void> {
  await db
    .updateTable('history_marks')
    .set({ block_number: fromNumber - 1 })
    .where('chain_id', '=', chainId)
    .where('block_number', '>=', fromNumber)
    .execute()
}

/** Notes that everything from a block on is there for accounts. What was noted of more is kept. */
export async function noteCoverage(
  db: Db,
  { chainId }: Pick<Chain, 'chainId'>,
  { accountIds, from }: { accountIds: readonly string[]; from: number },
): Promise<void> {
  await sql`
    insert into coverage (account_id, chain_id, covered_from)
    select account_id, ${chainId}::bigint, ${from}::bigint from unnest(${`{${accountIds.join()}}`}::uuid[]) as one (account_id)
    on conflict (account_id, chain_id) do update
    set covered_from = excluded.covered_from, updated_at = now()
    where coverage.covered_from > excluded.covered_from`.execute(db)
}

/** Of `accounts as account` with its `coverage` of the network: not everything from a block on is in the history. Nobody reads a sponsor's. */
export const isUncovered = (chainId: number, fromBlock: number) => sql<boolean>`(
    account.user_id not like ${sql.lit(`${SPONSOR_PROVIDER}-%`)} and coalesce(coverage.covered_from > ${fromBlock}::bigint, true)
    and not coalesce(
      account.created_at + ${sql.lit(`${STORED_WITHIN_SECONDS} seconds`)}::interval < (
        select max(at) from history_marks where chain_id = ${chainId}::bigint and block_number < ${fromBlock}::bigint
      ), false
    )
    and not ${isFresh(chainId)}
  )`

/** Of `accounts as account`: it has no transfers on this network from before it was here. */
const isFresh = (chainId: number) => sql<boolean>`(
    account.is_key_new and coalesce(
      account.created_at > (select min(at) from history_marks where chain_id = ${chainId}::bigint), false
    )
  )`

/**
 * The first block from which on every transfer of an account is in the history, up to where that reaches, but those that a backfill cannot ask
 * a node for (`fetchPast`: logs without indexed addresses in blocks that were not followed with it); null while that is unknown:
 * in the first minutes of an account whose key is from before, and of a network. Of a key that was made for its account, on a network that was
 * followed by then, it is the chain's first: no one was told the address before its row was there, and every block since was looked at with it.
 * Indexes: coverage, history_marks by their primary keys.
 */
export async function coveredFrom(
  db: Db,
  { accountId, chainId }: { accountId: string; chainId: number },
): Promise<number | null> {
  const { rows } = await sql<{ covered_from: number | null }>`
    select least(
      (select covered_from from coverage where account_id = account.account_id and chain_id = ${chainId}::bigint),
      (
        select block_number + 1 from history_marks
        where chain_id = ${chainId}::bigint and at > account.created_at + ${sql.lit(`${STORED_WITHIN_SECONDS} seconds`)}::interval
        order by at limit 1
      ),
      case when ${isFresh(chainId)} then 0::bigint end
    ) as covered_from
    from accounts as account where account_id = ${accountId}::uuid`.execute(db)
  return rows[0]?.covered_from ?? null
}
