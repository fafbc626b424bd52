import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'

/** Seconds between two marks, and maximum seconds from an account's `created_at` to the commit of its transaction. */
const MARK_EVERY_SECONDS = 300
export const STORED_WITHIN_SECONDS = 300

/** when this process last stored a mark, in ticks */
const marked = slot('when the history of a network was noted last', (_chain: Chain) => ({
  at: Number.NEGATIVE_INFINITY,
}))

/**
 * Records every few minutes which block comes next, before that block's accounts are searched. An account that is
 * stored by then is found in this block and in all later ones. Runs in the transaction that stores the block's
 * transfers.
 */
export async function markHistory(db: Db, chain: Chain, nextBlock: number): Promise<void> {
  const last = marked.of(chain)
  if (chain.clock.ticks() - last.at < MARK_EVERY_SECONDS * 1_000) return
  // `now()` is the start of the transaction, so the search for accounts follows.
  await db
    .insertInto('history_marks')
    .values({ chain_id: chain.chainId, at: sql<Date>`now()`, block_number: nextBlock - 1 })
    .onConflict((on) => on.doNothing())
    .execute()
  last.at = chain.clock.ticks()
}

/** Lowers the marks from a reorganised block on, because those blocks are indexed again, later than any mark. */
export async function lowerCoverage(db: Db, { chainId }: Chain, fromNumber: number): Promise<void> {
  await db
    .updateTable('history_marks')
    .set({ block_number: fromNumber - 1 })
    .where('chain_id', '=', chainId)
    .where('block_number', '>=', fromNumber)
    .execute()
}

/** Records that the history of accounts is complete from a block on. A lower recorded block remains. */
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

/**
 * Builds the SQL condition that the history of an account is incomplete from a block on. Its tables are `accounts as
 * account`, joined with the account's `coverage` of the network. Sponsors never match, because nobody reads their
 * history.
 */
export const isUncovered = (chainId: number, fromBlock: number) => sql<boolean>`(
    account.user_id not like ${sql.lit(`${SPONSOR_PROVIDER}-%`)} and coalesce(coverage.covered_from > ${fromBlock}::bigint, true)
    and not coalesce(
      account.created_at + ${sql.lit(`${STORED_WITHIN_SECONDS} seconds`)}::interval < (
        select max(at) from history_marks where chain_id = ${chainId}::bigint and block_number < ${fromBlock}::bigint
      ), false
    )
    and not ${isFresh(chainId)}
  )`

/**
 * Builds the SQL condition that an account has no transfers on this network from before its row existed. Its table is
 * `accounts as account`.
 */
const isFresh = (chainId: number) => sql<boolean>`(
    account.is_key_new and coalesce(
      account.created_at > (select min(at) from history_marks where chain_id = ${chainId}::bigint), false
    )
  )`

/**
 * Returns the first block from which every transfer of an account is in the history. Exception: transfers that a
 * backfill cannot request (`fetchPast`: logs without indexed addresses, in blocks that were not followed while the
 * account existed).
 * Returns null while that block is unknown: in the first minutes of a network, or of an account with an older key.
 * Returns 0 for a key that was created for its account after the network was first followed. Nobody knew the address
 * earlier, and every later block was indexed with it.
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
