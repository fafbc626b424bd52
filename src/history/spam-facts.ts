import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { Hex } from '../ids.ts'
import { byteaArray, byteaElement } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { TOKEN_TYPE_NUMBERS } from '../tokens/record.ts'
import { blocksOfTarget, isCarrying, isOwnPlace, isUsed } from '../tokens/used.ts'
import type { KnownTokens } from '../tokens/suspicion.ts'
import { NOBODY } from './native.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import { DIRECTION } from './rows.ts'
import {
  ALIKE_DIGITS,
  isTrusted,
  judgeTransfer,
  leastOf,
  looksAlike,
  mayBeClaim,
  mayBeImitated,
  suspicionOf,
  type AlikeAddress,
  type JudgedTransfer,
  type TransferFacts,
  type Spam,
} from './spam.ts'

/** A transfer and its place. */
export type PlacedTransfer = JudgedTransfer & {
  hash: Hex
  blockNumber: number
  logIndex: number
  /** `token_type` of its row */
  form: number
}

export type JudgedFor = {
  accountId: string
  chainId: number
  known: KnownTokens
  /** every transfer of the account from the chain's beginning on is here */
  isCovered: boolean
}

/** distinct addresses between two that share their first digits that are looked at, and transfers with one of them, first and newest */
const NEAR = 64
const FEW = 20

const COUNTERPARTY = sql`(case when direction = 0 then sender else recipient end)`
const KIND = sql`(token_type * 8 + direction * 2 + is_spam::int)`
const OUT_KINDS = Object.values(TOKEN_TYPE_NUMBERS).map((type) => type * 8 + DIRECTION.OUT * 2)
const COIN_KINDS = [TOKEN_TYPE_NUMBERS.ERC20, NATIVE_TYPE_NUMBER].flatMap((type) =>
  [DIRECTION.IN, DIRECTION.OUT].map((direction) => type * 8 + direction * 2),
)

/**
 * Judges the transfers of a page: one statement, and one more where an address looks like another. Each look goes into an index, for
 * at most so many rows, however many the account has.
 * Indexes: attempts, accounts by their primary keys, transactions_target, transfers_token, transfers_counterparty.
 * @returns in the order of the transfers; null for what is no spam
 */
export async function judgeTransfers(
  db: Db,
  of: JudgedFor,
  transfers: readonly PlacedTransfer[],
): Promise<(Spam | null)[]> {
  if (transfers.length === 0) return []
  const facts = await findFacts(db, of, transfers)
  return transfers.map((one, index) => judgeTransfer(one, facts[index]!, of.known))
}

type Fact = {
  fact: 'own' | 'beside' | 'used' | 'held' | 'elsewhere' | 'alike'
  a: Uint8Array | null
  b: Uint8Array | null
  n: number | null
}

async function findFacts(db: Db, of: JudgedFor, transfers: readonly PlacedTransfer[]): Promise<TransferFacts[]> {
  const { accountId, chainId, known, isCovered } = of
  const claims = transfers.flatMap((one, index) => (mayBeClaim(one, known) ? [{ ...one, index }] : []))
  // Stored as initiated by everyone who signed something in their transaction.
  const zeros = transfers.flatMap((one, index) => (one.value === 0n && !one.isZero ? [{ ...one, index }] : []))
  // A page has few tokens and many transfers of them.
  const toldOf = new Map(transfers.map((one) => [one.token, one]))
  const told = new Map([...toldOf].map(([token, one]) => [token, suspicionOf(one, known)]))
  const doubtful = transfers.filter((one) => mayBeClaim(one, known) || told.get(one.token)!.points > 0)
  const tokens = distinct(doubtful.flatMap(({ token }) => (token === null ? [] : [token])))
  const others = distinct(transfers.filter((one) => mayBeImitated(one, known)).map(({ other }) => other)).filter(
    (address) => !address.startsWith(`0x${'0'.repeat(ALIKE_DIGITS)}`),
  )
  const ofAccount = sql`account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint`
  const { rows } = await sql<Fact>`
    select 'own' as fact, null::bytea as a, null::bytea as b, one.n
    from unnest(
      ${list(transfers.map((_, index) => index))}::int[], ${bytes(transfers.map(({ hash }) => hash))}::bytea[],
      ${logIndexes(transfers)}::int[]
    ) as one (n, hash, log_index)
    where ${isOwnPlace(of, { hash: sql`one.hash`, logIndex: sql`one.log_index` })}
    union all
    select 'beside', null, null, one.n
    from unnest(${list(zeros.map(({ index }) => index))}::int[], ${bytes(zeros.map(({ hash }) => hash))}::bytea[]) as one (n, hash)
    where ${isCarrying(chainId, sql`one.hash`)}
    union all
    select 'used', one.token, null, null
    from unnest(${byteaArray(tokens)}) as one (token)
    where ${isUsed(of, sql`one.token`)}
    union all
    select 'held', null, null, claim.n
    from unnest(
      ${list(claims.map(({ index }) => index))}::int[], ${bytes(claims.map(({ token }) => token!))}::bytea[],
      ${list(claims.map(({ form }) => form))}::int[],
      ${list(claims.map(({ blockNumber }) => blockNumber))}::bigint[], ${list(claims.map(({ logIndex }) => logIndex))}::int[]
    ) as claim (n, token, token_type, block_number, log_index)
    cross join lateral (
      -- The one before it among those that came in: of the same token, or there was none.
      select token, ${KIND} as kind from transfers
      where ${ofAccount} and (token, ${KIND}, block_number, log_index) < (claim.token, claim.token_type * 8, claim.block_number, claim.log_index)
      order by token desc, ${KIND} desc, block_number desc, log_index desc
      limit 1
    ) as last
    where last.token = claim.token and last.kind = claim.token_type * 8
    union all
    select 'elsewhere', null, null, null from accounts
    where account_id = ${accountId}::uuid and (exported_at is not null or imported_at is not null)
    union all
    select 'alike', asked.address, near.other, null
    from unnest(
      ${byteaArray(others)}, ${byteaArray(others.map((one) => endOfRange(one, '0')))},
      ${byteaArray(others.map((one) => endOfRange(one, 'f')))}
    ) as asked (address, low, high)
    cross join lateral (
      ${nearby({ table: sql`transfers`, column: COUNTERPARTY, own: ofAccount })} union ${nearby({ table: sql`transactions`, column: sql`target`, own: ofAccount })}
    ) as near
    where near.other <> asked.address and get_byte(near.other, 19) = get_byte(asked.address, 19)`.execute(db)

  const found = (fact: Fact['fact']) => rows.filter((row) => row.fact === fact)
  const own = new Set(found('own').map(({ n }) => n))
  const beside = new Set(found('beside').map(({ n }) => n))
  const used = new Set(found('used').map(({ a }) => toHex(a!)))
  const held = new Set(found('held').map(({ n }) => n))
  const isPastWhole = isCovered && found('elsewhere').length === 0
  const pairs = found('alike')
    .map(({ a, b }) => ({ other: toHex(a!), address: toHex(b!) }))
    .filter(({ other, address }) => looksAlike(other, address))
  const dealings = await findDealings(db, of, pairs, transfers)
  return transfers.map((one, index) => ({
    isOwn: own.has(index),
    isBesideOwn: beside.has(index) && !own.has(index),
    told: told.get(one.token)!,
    isTokenUsed: one.token !== null && used.has(one.token),
    wasHeld: held.has(index),
    isPastWhole,
    ...dealings(one),
  }))
}

/** The distinct addresses of a range, each found behind the one before, so that many rows with one of them cost one look. */
function nearby({ table, column, own }: Record<'table' | 'column' | 'own', RawBuilder<unknown>>): RawBuilder<unknown> {
  const next = (from: RawBuilder<unknown>) =>
    sql`(select ${column} from ${table} where ${own} and ${column} ${from} and ${column} <= asked.high order by ${column} limit 1)`
  return sql`(
    with recursive met (other, n) as (
      select ${next(sql`>= asked.low`)}, 1
      union all
      select ${next(sql`> met.other`)}, met.n + 1 from met where met.other is not null and met.n < ${sql.lit(NEAR)}
    )
    select other from met where other is not null
  )`
}

type Pair = { other: Hex; address: Hex }
type Dealings = Pick<TransferFacts, 'isOtherPaid' | 'alike'>

/**
 * What the person had to do with addresses that look alike, and when: mostly there are none, and nothing is asked. Of each kind of transfer with
 * one of them the first and the newest are read.
 */
async function findDealings(
  db: Db,
  { accountId, chainId, known }: JudgedFor,
  pairs: Pair[],
  transfers: readonly PlacedTransfer[],
): Promise<(one: PlacedTransfer) => Dealings> {
  if (pairs.length === 0) return () => ({ isOtherPaid: false, alike: [] })
  const holder = { accountId, chainId }
  const own = sql`account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint`
  const addresses = distinct(pairs.flatMap(({ other, address }) => [other, address]))
  const trusted = distinct(transfers.flatMap((one) => (one.token !== null && isTrusted(one, known) ? [one.token] : [])))
  const few = (kinds: number[], order: RawBuilder<unknown>) => sql`
    unnest(${list(kinds)}::int[]) as kind (n) cross join lateral (
      select hash, token_type, token, value, direction, block_number, log_index from transfers
      where ${own} and ${COUNTERPARTY} >= one.address and ${COUNTERPARTY} <= one.address and ${KIND} >= kind.n and ${KIND} <= kind.n
      order by ${COUNTERPARTY} ${order}, ${KIND} ${order}, block_number ${order}, log_index ${order}, batch_index ${order}
      limit ${sql.lit(FEW)}
    ) as moved`
  const { rows } = await sql<Dealing>`
    select one.address, paid.block_number, -1 as log_index, null::bytea as token, null::bytea as value, 1 as direction
    from unnest(${byteaArray(addresses)}) as one (address)
    cross join lateral (select min(block_number) as block_number from (
      ${blocksOfTarget(holder, sql`one.address`)}
      union all
      select block_number from ${few(OUT_KINDS, sql`asc`)}
      where ${isOwnPlace(holder, { hash: sql`moved.hash`, logIndex: sql`moved.log_index` })} or moved.token = any(${byteaArray([...known.byAddress.keys()])})
    ) as each_time) as paid
    where paid.block_number is not null
    union all
    select one.address, moved.block_number, moved.log_index, moved.token, moved.value, moved.direction
    from unnest(${byteaArray(addresses)}) as one (address)
    cross join lateral (select * from ${few(COIN_KINDS, sql`asc`)} union select * from ${few(COIN_KINDS, sql`desc`)}) as moved
    where moved.token_type = ${NATIVE_TYPE_NUMBER}::int or moved.token = any(${byteaArray(trusted)})`.execute(db)
  const paidFrom = new Map<Hex, number>()
  const dealings = new Map<string, Dealing[]>()
  for (const row of rows) {
    const address = toHex(row.address)
    if (row.token === null) paidFrom.set(address, row.block_number)
    else
      dealings.set(keyOf(address, toHex(row.token)), [...(dealings.get(keyOf(address, toHex(row.token))) ?? []), row])
  }
  const dealtWith = (address: Hex, one: PlacedTransfer): Dealing[] =>
    (dealings.get(keyOf(address, one.token ?? NOBODY)) ?? []).filter((row) => isBefore(row, placeIn(one)))
  return (one) => ({
    isOtherPaid: paidFrom.has(one.other),
    alike: pairs
      .filter((pair) => pair.other === one.other)
      .map(({ address }): AlikeAddress => {
        const before = dealtWith(address, one)
        const paid = dealtWith(one.other, one).filter(({ direction, value }) => direction === DIRECTION.IN && fromWord(value!) >= leastOf(one)) // prettier-ignore
        return {
          address,
          isPaid: (paidFrom.get(address) ?? Number.POSITIVE_INFINITY) <= one.blockNumber,
          moved: before.map(({ value }) => fromWord(value!)).reduce<bigint | null>((most, value) => (most === null || value > most ? value : most), null), // prettier-ignore
          isNewer: paid.some((row) => before.every((other) => isBefore(row, other))),
        }
      }),
  })
}

/** One time that the person dealt with an address; of a payment whose token is not known here only the block. */
type Dealing = Pick<Selectable<Database['transfers']>, 'block_number' | 'log_index' | 'direction'> & {
  address: Uint8Array
  token: Uint8Array | null
  value: Uint8Array | null
}

const keyOf = (address: Hex, token: Hex): string => `${address} ${token}`
const placeIn = ({ blockNumber, logIndex }: PlacedTransfer) => ({ block_number: blockNumber, log_index: logIndex })
const isBefore = (
  one: Pick<Dealing, 'block_number' | 'log_index'>,
  other: Pick<Dealing, 'block_number' | 'log_index'>,
): boolean =>
  // prettier-ignore
  one.block_number < other.block_number || (one.block_number === other.block_number && one.log_index < other.log_index)

/** The first or last address that begins with the same digits. */
const endOfRange = (address: Hex, digit: '0' | 'f'): Hex =>
  `${address.slice(0, 2 + ALIKE_DIGITS).padEnd(42, digit)}` as Hex
const distinct = <T>(values: readonly T[]): T[] => [...new Set(values)]
/** Native currency has a place behind all logs, and no log. */
const logIndexes = (transfers: readonly PlacedTransfer[]): string =>
  `{${transfers.map(({ token, logIndex }) => (token === null ? 'null' : logIndex)).join()}}`
const list = (values: readonly number[]): string => `{${values.join()}}`
const bytes = (values: readonly Hex[]): string => `{${values.map(byteaElement).join()}}`
