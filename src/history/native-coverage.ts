import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { STORED_WITHIN_SECONDS } from './coverage.ts'

/** Consecutive blocks whose native currency was indexed. */
export type NativeStretch = {
  first: { number: number; parentHash: Hex }
  last: { number: number; hash: Hex }
  /** internal transfers are complete from this block on, at most one after the last; null: no source reports them */
  internalFrom: number | null
}

/**
 * Records how far native currency is indexed, in the transaction that stores the rows. If the blocks do not follow the
 * recorded ones, coverage starts again with them.
 */
export async function noteNative(
  db: Db,
  { chainId }: Pick<Chain, 'chainId'>,
  { first, last, internalFrom }: NativeStretch,
): Promise<void> {
  const follows = sql`(native_coverage.to_block = ${first.number - 1}::bigint and native_coverage.to_hash = ${fromHex(first.parentHash)})`
  const isWhole = internalFrom !== null && internalFrom <= first.number
  const kept = sql`(${isWhole}::boolean and ${follows} and native_coverage.internal_from_block is not null)`
  await sql`
    insert into native_coverage (chain_id, from_block, from_at, internal_from_block, internal_from_at, to_block, to_hash)
    values (
      ${chainId}::bigint, ${first.number}::bigint, now(), ${internalFrom}::bigint,
      case when ${internalFrom}::bigint is not null then now() end, ${last.number}::bigint, ${fromHex(last.hash)}
    )
    on conflict (chain_id) do update set
      from_block = case when ${follows} then native_coverage.from_block else excluded.from_block end,
      from_at = case when ${follows} then native_coverage.from_at else excluded.from_at end,
      internal_from_block = case when ${kept} then native_coverage.internal_from_block else excluded.internal_from_block end,
      internal_from_at = case when ${kept} then native_coverage.internal_from_at else excluded.internal_from_at end,
      to_block = excluded.to_block, to_hash = excluded.to_hash, updated_at = now()`.execute(db)
}

/**
 * Ends the coverage before the first reorganised block, because the blocks from there on are indexed again. Call it
 * before the stored blocks are deleted.
 */
export async function lowerNative(db: Db, { chainId }: Pick<Chain, 'chainId'>, fromNumber: number): Promise<void> {
  const hash = await storedBlockHash(db, chainId, fromNumber - 1)
  await sql`
    update native_coverage set
      from_block = least(from_block, ${fromNumber}::bigint),
      internal_from_block = least(internal_from_block, ${fromNumber}::bigint + case when internal_from_block is null then null else 0 end),
      to_block = ${fromNumber - 1}::bigint, to_hash = ${hash === null ? null : fromHex(hash)}, updated_at = now()
    where chain_id = ${chainId}::bigint and to_block >= ${fromNumber}::bigint`.execute(db)
}

/**
 * First blocks from which an account's transfers and internal transfers are complete; null: unknown, or none indexed.
 */
export type NativeCoverage = { from: number | null; internalFrom: number | null }

/**
 * Returns two first blocks: from one, every value, fee, withdrawal and reward of an account is in the history; from the
 * other, every internal transfer. Both are 0 for a key that was created for its account after the indexing began. Null
 * if the newest blocks of the history were not indexed. Indexes: primary keys.
 */
export async function nativeCoverage(
  db: Db,
  { accountId, chainId }: { accountId: string; chainId: number },
): Promise<NativeCoverage> {
  const isFresh = (since: ReturnType<typeof sql.ref>) =>
    sql`(account.is_key_new and account.created_at > greatest(${since}, (select min(at) from history_marks where chain_id = ${chainId}::bigint)))`
  const from = (block: string, at: string) => sql`
    case when native.${sql.ref(block)} is null then null
      when ${isFresh(sql.ref(`native.${at}`))} then 0::bigint
      when known.block_number is null then null
      else greatest(native.${sql.ref(block)}, known.block_number + 1) end`
  const { rows } = await sql<{ from_number: number | null; internal_number: number | null }>`
    select ${from('from_block', 'from_at')} as from_number, ${from('internal_from_block', 'internal_from_at')} as internal_number
    from accounts as account
    join native_coverage as native on native.chain_id = ${chainId}::bigint
    join history_cursors as history on history.chain_id = native.chain_id and history.block_number <= native.to_block
    left join lateral (
      select block_number from history_marks
      where chain_id = ${chainId}::bigint and at > account.created_at + ${sql.lit(`${STORED_WITHIN_SECONDS} seconds`)}::interval
      order by at limit 1
    ) as known on true
    where account.account_id = ${accountId}::uuid`.execute(db)
  const row = rows[0]
  return { from: row?.from_number ?? null, internalFrom: row?.internal_number ?? null }
}
