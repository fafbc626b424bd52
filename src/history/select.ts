import { sql, type RawBuilder, type Selectable } from 'kysely'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { TOKEN_TYPE_NUMBERS, type TokenType } from '../tokens/record.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import type { EntryType, TransferFilters, HistoryPosition } from './query.ts'
import { DIRECTION } from './rows.ts'

export type StoredTransfer = Selectable<Database['transfers']> & {
  symbol: string | null
  name: string | null
  decimals: number | null
}

type TransferSelection = {
  accountId: string
  chainId: number
  filters: TransferFilters
  /** the page begins behind this place; null for the first */
  after: HistoryPosition | null
  /** how far the index reached when it was looked at, both included */
  bounds: { indexedTo: number; finalizedTo: number }
  limit: number
}

// As in the indexes transfers_kind, transfers_token and transfers_counterparty.
const KIND = sql`(token_type * 8 + direction * 2 + is_spam::int)`
const COUNTERPARTY = sql`(case when direction = 0 then sender else recipient end)`
const NEWEST_FIRST = sql`block_number desc, log_index desc, batch_index desc`

/**
 * A page, newest first. Each kind of transfer that it shows is read backwards in an index, and the newest of all kinds
 * are the page: what is hidden costs nothing, however much there is of it. Only of a token and a counterparty together
 * the token thins out on the way.
 * Indexes: transfers_counterparty, else transfers_token, else transfers_kind. The kind is in the order and in the
 * ends of the range, because only these indexes have it: statistics over all accounts tell nothing about this one.
 * Where a page begins is a place in the index; where it ends at the latest is looked at afterwards, because an index
 * read backwards does not stop there.
 * @returns the rows, and how far the index reaches in the snapshot they are of: -1 for nowhere
 */
export async function selectTransfers(
  db: Db,
  wanted: TransferSelection,
): Promise<{ rows: StoredTransfer[]; indexedTo: number; finalizedTo: number }> {
  const { accountId, chainId, filters, limit } = wanted
  const { token, counterparty, fromBlock, fromTime, toTime } = filters
  const before = upperEnd(wanted)
  const conditions = [
    ...(counterparty === null ? [] : [sql`${COUNTERPARTY} = ${fromHex(counterparty)}`]),
    ...(token === null ? [] : [sql`token = ${fromHex(token)}`]),
    ...(toTime === null ? [] : [quietly(sql`mined_at <= ${timeOf(toTime)}`)]),
  ].map((condition) => sql`and ${condition}`)
  const { rows } = await sql<ReachedNow & (StoredTransfer | { account_id: null })>`
    select page.*, tokens.symbol, tokens.name, tokens.decimals, reached.*
    from (select 1) as always
    left join (
      select least(history.block_number, cursor.block_number) as reached_number, cursor.finalized_number as reached_final
      from cursors as cursor join history_cursors as history on history.chain_id = cursor.chain_id
      where cursor.chain_id = ${chainId}::bigint
    ) as reached on true
    left join (
      select found.*
      from unnest(${`{${kindsOf(filters).join()}}`}::int[]) as shown (kind)
      cross join lateral (
        select *
        from transfers
        where account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint ${sql.join(conditions, sql` `)}
          and ${KIND} >= shown.kind
          and (${KIND}, block_number, log_index, batch_index) < (
            shown.kind, ${before.block}::bigint, ${before.logIndex}::int, ${before.batchIndex}::int
          )
        order by ${KIND} desc, ${NEWEST_FIRST}
        limit ${limit}
      ) as found
      where found.block_number >= ${fromBlock ?? 0}::bigint and found.mined_at >= ${timeOf(fromTime ?? BEGINNING_MS)}
      order by ${NEWEST_FIRST}
      limit ${limit}
    ) as page on true
    left join tokens on tokens.chain_id = page.chain_id and tokens.address = page.token
    order by ${NEWEST_FIRST}`.execute(db)
  const { reached_number, reached_final } = rows[0]!
  const indexedTo = reached_number ?? -1
  return {
    rows: rows.filter((row) => row.account_id !== null),
    ...{ indexedTo, finalizedTo: Math.min(reached_final ?? -1, indexedTo) },
  }
}

type ReachedNow = { reached_number: number | null; reached_final: number | null }

/**
 * A condition that the planner cannot judge. The range is cut to the times already; by statistics over all accounts it
 * would take them for rare, and sort a whole account instead of reading the end of an index.
 */
const quietly = (condition: RawBuilder<unknown>) => sql`case when ${condition} then true else false end`

/** `token_type` in the table. */
export const ENTRY_TYPE_NUMBERS = { ...TOKEN_TYPE_NUMBERS, NATIVE: NATIVE_TYPE_NUMBER } as const satisfies Record<
  EntryType,
  number
>

/** The kinds that a page shows. What an account sends to itself both leaves and arrives. */
function kindsOf({ types, direction, includesSpam }: TransferFilters): number[] {
  const { IN, OUT, SELF } = DIRECTION
  const directions = direction === 'all' ? [IN, OUT, SELF] : direction === 'in' ? [IN, SELF] : [OUT, SELF]
  return (types ?? (Object.keys(TOKEN_TYPE_NUMBERS) as TokenType[])).flatMap((type) =>
    directions.flatMap((number) =>
      (includesSpam ? [0, 1] : [0]).map((spam) => ENTRY_TYPE_NUMBERS[type] * 8 + number * 2 + spam),
    ),
  )
}

const BEGINNING_MS = 0
const timeOf = (ms: number) => sql`${new Date(ms)}::timestamptz`

/** The place below which a page begins. */
function upperEnd({ accountId, chainId, filters, after, bounds }: TransferSelection) {
  const { toBlock, toTime, isFinalOnly } = filters
  const highest = Math.min(
    bounds.indexedTo,
    toBlock ?? Number.MAX_SAFE_INTEGER,
    isFinalOnly ? bounds.finalizedTo : Number.MAX_SAFE_INTEGER,
  )
  if (after !== null && after.block <= highest) return after
  // A page behind another one begins within its times: only the first one has to find them.
  const isInTime = toTime === null || after !== null
  const block = isInTime ? highest + 1 : sql`${newestBlockAt({ accountId, chainId, highest, time: toTime })} + 1`
  return { block, logIndex: 0, batchIndex: 0 }
}

/**
 * The newest block up to `highest` that is not later than a time, as far as this account's transfers tell: -1 or any
 * block below its first one when all are later. Halves the range with one look at the primary key for each step:
 * blocks never go back in time. The look is for whole keys, or the planner might take an index of blocks of everyone.
 */
function newestBlockAt({
  accountId,
  chainId,
  highest,
  time,
}: {
  accountId: string
  chainId: number
  highest: number
  /** milliseconds since 1970 */
  time: number
}): RawBuilder<number> {
  const isLater = sql`(probe.account_id, probe.chain_id) = (${accountId}::uuid, ${chainId}::bigint) and probe.block_number > half.low and probe.mined_at > ${timeOf(time)}`
  return sql<number>`(
    with recursive search (low, high) as (
      select -1::bigint, ${highest}::bigint
      union all
      select
        case when ${isLater} then half.low else half.middle end,
        case when ${isLater} then probe.block_number - 1 else half.high end
      from (select low, high, (low + high + 1) / 2 as middle from search where low < high) as half
      left join lateral (
        select account_id, chain_id, block_number, mined_at
        from transfers
        where (account_id, chain_id, block_number) <= (${accountId}::uuid, ${chainId}::bigint, half.middle)
        order by account_id desc, chain_id desc, block_number desc
        limit 1
      ) as probe on true
    )
    select max(low) from search
  )`
}
