import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { fromHex, toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { TOKEN_TYPE_NUMBERS, type TokenType } from '../tokens/record.ts'
import type { TokenStandards } from '../tokens/ask.ts'
import { FORM_NUMBERS, formOf, FORMS, movedOf, typeOfForm, type Moved } from '../tokens/moved.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import type { EntryType, TransferFilters, HistoryPosition } from './query.ts'
import { DIRECTION } from './rows.ts'

type TransferColumns = Selectable<Database['transfers']>
type TokenColumns = Selectable<Database['tokens']>

type SelectedTransfer = TransferColumns &
  (
    | Pick<TokenColumns, 'symbol' | 'name' | 'decimals' | 'is_fungible' | 'is_collection' | 'is_wrapper'>
    | Record<'symbol' | 'name' | 'decimals' | 'is_fungible' | 'is_collection' | 'is_wrapper', null>
  )

/**
 * An entry: a row, or one id of a row with a range of ids, and its asset and amount. `batch_index` counts through the ids of a
 * range.
 */
export type StoredTransfer = SelectedTransfer & { moved: Omit<Moved, 'tokenType'> & { tokenType: EntryType } }

type TransferSelection = {
  accountId: string
  chainId: number
  filters: TransferFilters
  /** the page begins after this position; null for the first page */
  after: HistoryPosition | null
  /** how far the index reached when it was checked, both inclusive */
  bounds: { indexedTo: number; finalizedTo: number }
  limit: number
  /** the account's tokens that need separate reading: `selectUnlike` */
  unlike: readonly UnlikeToken[]
}

// Equal to the expressions of the indexes transfers_kind, transfers_token and transfers_counterparty.
const KIND = sql`(token_type * 8 + direction * 2 + is_spam::int)`
const COUNTERPARTY = sql`(case when direction = 0 then sender else recipient end)`
const NEWEST_FIRST = sql`block_number desc, log_index desc, batch_index desc`
const NEWEST_FIRST_OF_FOUND = sql`found.block_number desc, found.log_index desc, found.batch_index desc`

/** maximum entries of one range of ids; the last one counts the omitted ids */
const MAX_RANGE = 1_000

/** maximum number of an account's tokens that are read separately; for further ones the form of the log decides */
const MAX_UNLIKE = 500

/**
 * Selects a page, newest first. Each kind of transfer (type, direction, spam) is read backwards in an index, and the
 * newest of all kinds form the page. So hidden transfers cost nothing. Only with a token and a counterparty are rows
 * filtered by token while reading.
 * Indexes: transfers_counterparty, else transfers_token, else transfers_kind. The kind is in the order and in the
 * bounds, because only these indexes contain it: the planner's statistics over all accounts say nothing about this one.
 * The start of a page is a position in the index. Its end is checked afterwards, because an index read backwards does
 * not stop there.
 * Tokens whose logs differ from the contract's type (`tokens/moved.ts`) are read one by one, because the kind of their
 * rows does not tell their type.
 * @returns the rows, and how far the index reaches in the same snapshot; -1: nowhere
 */
export async function selectTransfers(
  db: Db,
  wanted: TransferSelection,
): Promise<{ rows: StoredTransfer[]; indexedTo: number; finalizedTo: number }> {
  const { accountId, chainId, filters, limit, unlike } = wanted
  const { token, counterparty, fromBlock, fromTime, toTime } = filters
  const before = upperEnd(wanted)
  const conditionsOfAll = [
    ...(counterparty === null ? [] : [sql`${COUNTERPARTY} = ${fromHex(counterparty)}`]),
    ...(token === null ? [] : [sql`token = ${fromHex(token)}`]),
    ...(toTime === null ? [] : [quietly(sql`mined_at <= ${timeOf(toTime)}`)]),
  ].map((condition) => sql`and ${condition}`)
  const conditions = [...conditionsOfAll]
  const others = unlike.filter(({ isUnlike }) => isUnlike).map(({ token }) => token)
  if (others.length > 0) conditions.push(sql`and token <> all(${byteaArray(others)})`)
  const end = sql`found.block_number >= ${fromBlock ?? 0}::bigint and found.mined_at >= ${timeOf(fromTime ?? BEGINNING_MS)}`
  const ofKind = (more: RawBuilder<unknown>) => sql`
        select *
        from transfers
        where account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint ${more}
          and ${KIND} >= shown.kind
          and (${KIND}, block_number, log_index, batch_index) < (
            shown.kind, ${before.block}::bigint, ${before.logIndex}::int, ${before.batchIndex}::int
          )
        order by ${KIND} desc, ${NEWEST_FIRST}
        limit ${limit}`
  const apart = unlike.flatMap((one) => kindsOfToken(filters, one).map((kind) => ({ kind, token: one.token })))
  const { rows } = await sql<ReachedNow & (SelectedTransfer | { account_id: null })>`
    select page.*, tokens.symbol, tokens.name, tokens.decimals, tokens.is_fungible, tokens.is_collection, tokens.is_wrapper, reached.*
    from (select 1) as always
    left join (
      select history.block_number as reached_number, cursor.finalized_number as reached_final
      from cursors as cursor join history_cursors as history on history.chain_id = cursor.chain_id
      where cursor.chain_id = ${chainId}::bigint
    ) as reached on true
    left join (
      select found.*
      from unnest(${`{${kindsOf(filters).join()}}`}::int[]) as shown (kind)
      cross join lateral (${ofKind(sql.join(conditions, sql` `))}) as found
      where ${end}
      ${
        apart.length === 0
          ? sql``
          : sql`
      union all
      select found.*
      from unnest(${`{${apart.map(({ kind }) => kind).join()}}`}::int[], ${byteaArray(apart.map(({ token }) => token))}) as shown (kind, token)
      cross join lateral (${ofKind(sql.join([...conditionsOfAll, sql`and token = shown.token`], sql` `))}) as found
      where ${end}`
      }
      order by ${NEWEST_FIRST}
      limit ${limit}
    ) as page on true
    left join tokens on tokens.chain_id = page.chain_id and tokens.address = page.token
    order by ${NEWEST_FIRST}`.execute(db)
  const { reached_number, reached_final } = rows[0]!
  const indexedTo = reached_number ?? -1
  return {
    rows: entriesOf(
      rows.filter((row) => row.account_id !== null),
      wanted,
    ),
    indexedTo,
    finalizedTo: Math.min(reached_final ?? -1, indexedTo),
  }
}

/** Maximum number of rows that `selectAt` reads. */
const MAX_AT = 500

/** Selects what transactions moved of an account, spam included, newest first. Index: transfers by its primary key. */
export async function selectAt(
  db: Db,
  { accountId, chainId }: Pick<TransferSelection, 'accountId' | 'chainId'>,
  places: readonly { blockNumber: number; hash: Hex }[],
): Promise<StoredTransfer[]> {
  if (places.length === 0) return []
  const { rows } = await sql<SelectedTransfer>`
    select page.*, tokens.symbol, tokens.name, tokens.decimals, tokens.is_fungible, tokens.is_collection, tokens.is_wrapper
    from (
      select found.* from unnest(
        ${byteaArray(places.map(({ hash }) => hash))}, ${`{${places.map(({ blockNumber }) => blockNumber).join()}}`}::bigint[]
      ) as asked (hash, block_number)
      join transfers as found on found.account_id = ${accountId}::uuid and found.chain_id = ${chainId}::bigint
        and found.block_number = asked.block_number and found.hash = asked.hash
      order by ${NEWEST_FIRST_OF_FOUND}
      limit ${sql.lit(MAX_AT)}
    ) as page
    left join tokens on tokens.chain_id = page.chain_id and tokens.address = page.token
    order by ${NEWEST_FIRST}`.execute(db)
  return entriesOf(rows, { limit: MAX_AT, after: null })
}

/** Turns rows into entries, newest first. A range of ids yields one entry per id, up to the page's limit. */
function entriesOf(
  rows: SelectedTransfer[],
  { limit, after }: Pick<TransferSelection, 'limit' | 'after'>,
): StoredTransfer[] {
  const entries: StoredTransfer[] = []
  for (const row of rows) {
    const moved = movedIn(row)
    const count = moved?.tokenType === 'ERC721' ? moved.value : 1n
    const isBegun = after?.block === row.block_number && after.logIndex === row.log_index
    const top = Math.min(
      Number(count > MAX_RANGE ? MAX_RANGE : count),
      isBegun && count > 1n ? after.batchIndex : MAX_RANGE,
    )
    for (let index = top - 1; index >= 0 && moved !== null && entries.length < limit; index--) {
      if (count === 1n) entries.push({ ...row, moved })
      else {
        const omitted =
          index === MAX_RANGE - 1 ? Number(min(count - BigInt(MAX_RANGE), BigInt(Number.MAX_SAFE_INTEGER))) : 0
        const one = { ...moved, tokenId: moved.tokenId! + BigInt(index), value: 1n }
        entries.push({ ...row, batch_index: index, omitted: row.omitted + omitted, moved: one })
      }
    }
  }
  return entries
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** Returns the asset and amount of a row, or, with `countedOf`, its effect on a balance; null if there is none. */
export function movedIn(
  row: Pick<SelectedTransfer, 'token_type' | 'token_id' | 'value' | 'is_fungible' | 'is_collection' | 'is_wrapper'>,
  read: typeof movedOf = movedOf,
): StoredTransfer['moved'] | null {
  const form = formOf(row.token_type)
  const value = fromWord(row.value)
  if (form === null) return { tokenType: 'NATIVE', tokenId: null, value }
  const tokenId = row.token_id === null ? null : fromWord(row.token_id)
  return read({ form, tokenId, value }, standardsOf(row))
}

export const standardsOf = (
  row: Record<'is_fungible' | 'is_collection' | 'is_wrapper', boolean | null>,
): TokenStandards => ({
  isFungible: row.is_fungible === true,
  isCollection: row.is_collection === true,
  isWrapper: row.is_wrapper === true,
})

/**
 * A token to be read separately. `isUnlike`: its logs differ from its type; false: only its deposits and withdrawals do
 */
export type UnlikeToken = { token: Hex; standards: TokenStandards; isUnlike: boolean }

// Equal to the condition of the index tokens_unlike_logs.
const UNLIKE = sql<boolean>`((is_fungible and not is_collection and logs_ids) or (is_collection and not is_fungible and logs_amounts))`

/**
 * Selects the account's tokens of which some logs differ from the contract's type. Indexes: tokens_unlike_logs,
 * transfers_token.
 */
export async function selectUnlike(
  db: Db,
  { accountId, chainId }: Pick<TransferSelection, 'accountId' | 'chainId'>,
): Promise<UnlikeToken[]> {
  const { rows } = await sql<
    Pick<TokenColumns, 'address' | 'is_fungible' | 'is_collection' | 'is_wrapper'> & { is_unlike: boolean }
  >`
    select address, is_fungible, is_collection, is_wrapper, ${UNLIKE} as is_unlike from tokens
    where chain_id = ${chainId}::bigint
      and (${UNLIKE} or (is_wrapper and logs_deposits))
      and exists (select from transfers where account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint and token = tokens.address)
    order by address
    limit ${sql.lit(MAX_UNLIKE)}`.execute(db)
  return rows.map((row) => ({ token: toHex(row.address), standards: standardsOf(row), isUnlike: row.is_unlike }))
}

type ReachedNow = { reached_number: number | null; reached_final: number | null }

/**
 * Hides a condition from the planner. The range is already cut to the times. By its statistics over all accounts, the
 * planner would expect few rows, and sort a whole account instead of reading the end of an index.
 */
const quietly = (condition: RawBuilder<unknown>) => sql`case when ${condition} then true else false end`

/** Numbers of entry types in `transfers.token_type`. */
export const ENTRY_TYPE_NUMBERS = { ...TOKEN_TYPE_NUMBERS, NATIVE: NATIVE_TYPE_NUMBER } as const satisfies Record<
  EntryType,
  number
>

/** Returns the kinds that a page shows. */
const kindsOf = ({ types, direction, includesSpam }: TransferFilters): number[] =>
  (types ?? TOKEN_TYPES).flatMap((type) => kindsOfForm(ENTRY_TYPE_NUMBERS[type], { direction, includesSpam }))

/**
 * Returns the kinds of a token whose logs differ from its type. Rows stored as spam because the id is zero are shown
 * like others. For a token that also wraps native currency, the other kinds lack the deposits.
 */
function kindsOfToken(
  { types, direction, includesSpam }: TransferFilters,
  { standards, isUnlike }: UnlikeToken,
): number[] {
  const shown: readonly (EntryType | null)[] = types ?? TOKEN_TYPES
  return FORMS.filter(
    (form) => (isUnlike || form === 'WRAPPED') && shown.includes(typeOfForm(form, standards)),
  ).flatMap((form) =>
    kindsOfForm(FORM_NUMBERS[form], {
      direction,
      includesSpam: includesSpam || (typeOfForm(form, standards) !== form && form !== 'WRAPPED'),
    }),
  )
}

const TOKEN_TYPES = Object.keys(TOKEN_TYPE_NUMBERS) as TokenType[]

/** Returns the kinds of one form. A transfer to oneself is both in and out. */
function kindsOfForm(
  number: number,
  { direction, includesSpam }: Pick<TransferFilters, 'direction' | 'includesSpam'>,
): number[] {
  const { IN, OUT, SELF } = DIRECTION
  const directions = direction === 'all' ? [IN, OUT, SELF] : direction === 'in' ? [IN, SELF] : [OUT, SELF]
  return directions.flatMap((one) => (includesSpam ? [0, 1] : [0]).map((spam) => number * 8 + one * 2 + spam))
}

const BEGINNING_MS = 0
const timeOf = (ms: number) => sql`${new Date(ms)}::timestamptz`

/** Returns the position before which a page begins. */
function upperEnd({ accountId, chainId, filters, after, bounds }: TransferSelection) {
  const { toBlock, toTime, isFinalOnly } = filters
  const highest = Math.min(
    bounds.indexedTo,
    toBlock ?? Number.MAX_SAFE_INTEGER,
    isFinalOnly ? bounds.finalizedTo : Number.MAX_SAFE_INTEGER,
  )
  if (after !== null && after.block <= highest) return after
  // A page with a cursor begins within its times. Only the first page has to search for them.
  const isInTime = toTime === null || after !== null
  const block = isInTime ? highest + 1 : sql`${newestBlockAt({ accountId, chainId, highest, time: toTime })} + 1`
  return { block, logIndex: 0, batchIndex: 0 }
}

/**
 * Returns the newest block up to `highest` that is not later than a time, judged by this account's transfers. If all
 * are later, returns -1 or any block before the first transfer. It is a binary search with one look-up of the primary
 * key per step, as block times never decrease. The look-up compares whole keys: otherwise the planner might use an
 * index over all accounts' blocks.
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
