import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { byteaArray, byteaElement } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { isCarrying, isOwnPlace, isUsed } from '../tokens/used.ts'
import type { KnownTokens } from '../tokens/suspicion.ts'
import { judgeTransfer, mayBeClaim, suspicionOf, type JudgedTransfer, type TransferFacts, type Spam } from './spam.ts'

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
  /** whether the history has every transfer of the account since the chain began */
  isCovered: boolean
}

const KIND = sql`(token_type * 8 + direction * 2 + is_spam::int)`

/**
 * Judges the transfers of a page by one statement. Each look-up uses an index and a bounded number of rows, whatever
 * the size of the account.
 * Indexes: attempts, accounts by their primary keys, transactions_target, transfers_token.
 * @returns verdicts in the order of the transfers; null: not spam
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
  fact: 'own' | 'beside' | 'used' | 'held' | 'elsewhere'
  a: Uint8Array | null
  n: number | null
}

async function findFacts(db: Db, of: JudgedFor, transfers: readonly PlacedTransfer[]): Promise<TransferFacts[]> {
  const { accountId, chainId, known, isCovered } = of
  const claims = transfers.flatMap((one, index) => (mayBeClaim(one, known) ? [{ ...one, index }] : []))
  // These transfers are stored as initiated by every user who signed part of their transaction.
  const zeros = transfers.flatMap((one, index) => (one.value === 0n && !one.isZero ? [{ ...one, index }] : []))
  // Judge each token once: a page has few tokens and many transfers of each.
  const toldOf = new Map(transfers.map((one) => [one.token, one]))
  const told = new Map([...toldOf].map(([token, one]) => [token, suspicionOf(one, known)]))
  const doubtful = transfers.filter((one) => mayBeClaim(one, known) || told.get(one.token)!.points > 0)
  const tokens = [...new Set(doubtful.map(({ token }) => token))]
  const ofAccount = sql`account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint`
  const { rows } = await sql<Fact>`
    select 'own' as fact, null::bytea as a, one.n
    from unnest(
      ${list(transfers.map((_, index) => index))}::int[], ${bytes(transfers.map(({ hash }) => hash))}::bytea[],
      ${list(transfers.map(({ logIndex }) => logIndex))}::int[]
    ) as one (n, hash, log_index)
    where ${isOwnPlace(of, { hash: sql`one.hash`, logIndex: sql`one.log_index` })}
    union all
    select 'beside', null, one.n
    from unnest(${list(zeros.map(({ index }) => index))}::int[], ${bytes(zeros.map(({ hash }) => hash))}::bytea[]) as one (n, hash)
    where ${isCarrying(chainId, sql`one.hash`)}
    union all
    select 'used', one.token, null
    from unnest(${byteaArray(tokens)}) as one (token)
    where ${isUsed(of, sql`one.token`)}
    union all
    select 'held', null, claim.n
    from unnest(
      ${list(claims.map(({ index }) => index))}::int[], ${bytes(claims.map(({ token }) => token))}::bytea[],
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
    select 'elsewhere', null, null from accounts
    where account_id = ${accountId}::uuid and (exported_at is not null or imported_at is not null)`.execute(db)

  const found = (fact: Fact['fact']) => rows.filter((row) => row.fact === fact)
  const own = new Set(found('own').map(({ n }) => n))
  const beside = new Set(found('beside').map(({ n }) => n))
  const used = new Set(found('used').map(({ a }) => toHex(a!)))
  const held = new Set(found('held').map(({ n }) => n))
  const isPastWhole = isCovered && found('elsewhere').length === 0
  return transfers.map((one, index) => ({
    isOwn: own.has(index),
    isBesideOwn: beside.has(index) && !own.has(index),
    told: told.get(one.token)!,
    isTokenUsed: used.has(one.token),
    wasHeld: held.has(index),
    isPastWhole,
  }))
}

const list = (values: readonly number[]): string => `{${values.join()}}`
const bytes = (values: readonly Hex[]): string => `{${values.map(byteaElement).join()}}`
