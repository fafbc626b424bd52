import { sql, type RawBuilder } from 'kysely'
import type { Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'

type TokenHolder = { accountId: string; chainId: number }

/** number of newest transfers of a token that are checked for one that the user caused */
const LOOKED_AT = 20
/** number of newest operations of the user whose calls are searched for an address */
const SIGNED = 100

/**
 * Builds the SQL condition that a row of `transactions` or `operations` took effect, or still may. A row that was
 * cancelled, replaced, reverted, failed or never signed moved nothing, whatever block it names.
 */
const isDone = (row: RawBuilder<unknown>) => sql<boolean>`${row}.state in ('SUBMITTED', 'MINED', 'FINALIZED')`

/**
 * Builds the SQL condition that there is a row. It is a value instead of `exists`: the planner would turn `exists` into
 * one scan of all rows of the user, although only few tokens are asked about.
 */
const isThere = (rows: RawBuilder<unknown>) => sql<boolean>`coalesce((select true ${rows} limit 1), false)`

/** A position on the chain: transaction hash and log index. */
type LoggedPlace = { hash: RawBuilder<unknown>; logIndex: RawBuilder<unknown> }

/**
 * Builds the SQL condition that, by our records, the user or a sponsor for the user caused a log. On the chain, the
 * sender may be someone else.
 * In a transaction with operations, only logs within the user's operation count: other users' operations may have made
 * a token log anything. If the log range of the operation is unknown yet, all logs count.
 * Indexes: attempts by its primary key, carried_transaction.
 */
export const isOwnPlace = ({ accountId, chainId }: TokenHolder, { hash, logIndex }: LoggedPlace) =>
  isThere(sql`
    from attempts as attempt join transactions as own on own.id = attempt.transaction_id
    where attempt.chain_id = ${chainId}::bigint and attempt.hash = ${hash} and (
      own.account_id = ${accountId}::uuid
      or (own.authorizations is null and own.account_id in (select account_id from sponsors where chain_id = ${chainId}::bigint))
      or exists (
        select from carried join operations as operation on operation.id = carried.operation_id
        where carried.transaction_id = own.id and operation.account_id = ${accountId}::uuid and (
          operation.event_log is null
          or (operation.outer_id = own.id and ${logIndex} > operation.after_log and ${logIndex} < operation.event_log)
        )
      )
    )`)

/** Builds the SQL condition that a transaction includes operations. Index: attempts by its primary key. */
export const isCarrying = (chainId: number, hash: RawBuilder<unknown>) =>
  isThere(sql`
    from attempts as attempt join transactions as own on own.id = attempt.transaction_id
    where attempt.chain_id = ${chainId}::bigint and attempt.hash = ${hash} and own.authorizations is not null`)

/**
 * Builds the SQL condition that the user's transactions or signed operations used an address: it is the target of a
 * transaction, or occurs in the calls of one of the newest operations. Rows without effect do not count (`isDone`).
 * Indexes: transactions_target, operations_account.
 */
const isTarget = ({ accountId, chainId }: TokenHolder, address: RawBuilder<unknown>) =>
  sql<boolean>`(${isThere(sql`
    from transactions as own
    where own.account_id = ${accountId}::uuid and own.chain_id = ${chainId}::bigint and own.target = ${address}
      and ${isDone(sql`own`)}`)} or ${isThere(sql`
    from (
      select calls, state from operations
      where account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint
      order by created_at desc, id desc
      limit ${sql.lit(SIGNED)}
    ) as signed
    where position(${address} in signed.calls) > 0 and ${isDone(sql`signed`)}`)})`

/**
 * Builds the SQL condition that the user has used a token: the user called it, or caused one of its newest transfers,
 * as through a router.
 * The token is a range and part of the order, so that the planner uses transfers_token. By its statistics it would
 * filter another index.
 * Indexes: transactions_target, transfers_token, attempts by its primary key.
 */
export const isUsed = (holder: TokenHolder, token: RawBuilder<unknown>) =>
  sql<boolean>`(${isTarget(holder, token)} or ${isThere(sql`
    from (
      select hash, log_index from transfers
      where account_id = ${holder.accountId}::uuid and chain_id = ${holder.chainId}::bigint and token >= ${token} and token <= ${token}
      order by token desc, (token_type * 8 + direction * 2 + is_spam::int) desc, block_number desc, log_index desc
      limit ${sql.lit(LOOKED_AT)}
    ) as newest
    where ${isOwnPlace(holder, { hash: sql`newest.hash`, logIndex: sql`newest.log_index` })}`)})`

/**
 * Builds the SQL condition that the user has dealt with an address: the user called or paid it, or caused one of the
 * newest transfers between the account and it. A transfer that a stranger caused does not count: anyone can make a
 * token log a payment of zero from this account to an address that looks familiar.
 * Indexes: transactions_target, operations_account, transfers_counterparty, attempts by its primary key.
 */
const isDealtWith = (holder: TokenHolder, address: RawBuilder<unknown>) =>
  sql<boolean>`(${isTarget(holder, address)} or ${isThere(sql`
    from (
      select hash, log_index from transfers
      where account_id = ${holder.accountId}::uuid and chain_id = ${holder.chainId}::bigint
        and (case when direction = 0 then sender else recipient end) = ${address}
      order by (token_type * 8 + direction * 2 + is_spam::int) desc, block_number desc, log_index desc
      limit ${sql.lit(LOOKED_AT)}
    ) as newest
    where ${isOwnPlace(holder, { hash: sql`newest.hash`, logIndex: sql`newest.log_index` })}`)})`

/** Returns which addresses the user has dealt with. @param addresses  20 bytes, lower-case */
export async function selectDealtWith(db: Db, holder: TokenHolder, addresses: readonly Hex[]): Promise<Set<Hex>> {
  if (addresses.length === 0) return new Set()
  const { rows } = await sql<{ address: Uint8Array }>`
    select address from unnest(${byteaArray(addresses)}) as one (address)
    where ${isDealtWith(holder, sql`one.address`)}`.execute(db)
  return new Set(rows.map(({ address }) => toHex(address)))
}

/** Returns which tokens the user has used. @param tokens  20 bytes, lower-case */
export async function selectUsed(db: Db, holder: TokenHolder, tokens: readonly Hex[]): Promise<Set<Hex>> {
  if (tokens.length === 0) return new Set()
  const { rows } = await sql<{ token: Uint8Array }>`
    select token from unnest(${byteaArray(tokens)}) as one (token) where ${isUsed(holder, sql`one.token`)}`.execute(db)
  return new Set(rows.map(({ token }) => toHex(token)))
}
