import { sql, type RawBuilder } from 'kysely'
import type { Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'

type TokenHolder = { accountId: string; chainId: number }

/** transfers of a token that are looked at for one that the person made */
const LOOKED_AT = 20
/** operations of the person whose calls are looked at for an address */
const SIGNED = 100

/**
 * That a row of `transactions` or `operations` did what it says, or is on its way to. What was cancelled, replaced, reverted, has failed or was
 * never signed moved nothing, whatever block it names.
 */
const isDone = (row: RawBuilder<unknown>) => sql<boolean>`${row}.state in ('SUBMITTED', 'MINED', 'FINALIZED')`

/**
 * Whether there is a row. As a value and not as `exists`: the planner turns that into one scan of all that the person has, for
 * what may be asked of a handful.
 */
const isThere = (rows: RawBuilder<unknown>) => sql<boolean>`coalesce((select true ${rows} limit 1), false)`

/** Where something happened: in which transaction, and by which log. */
type LoggedPlace = { hash: RawBuilder<unknown>; logIndex: RawBuilder<unknown> }

/**
 * That what happened is of the person's own transaction or a sponsor's for them, by our own record: on chain the sender may be
 * another. Of one that carries operations only what was logged within one of theirs is: who else is in it may have had a token say anything.
 * All is of an operation whose logs are not known yet.
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

/** That a transaction carries operations. Index: attempts by its primary key. */
export const isCarrying = (chainId: number, hash: RawBuilder<unknown>) =>
  isThere(sql`
    from attempts as attempt join transactions as own on own.id = attempt.transaction_id
    where attempt.chain_id = ${chainId}::bigint and attempt.hash = ${hash} and own.authorizations is not null`)

/**
 * That the person's own transaction went to an address, or that it is in one of the newest that they signed for a sponsor to send; not
 * what moved nothing (`isDone`).
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
 * That the person has used a token: called it, or moved it with whatever they called, as with a router: the newest transfers tell.
 * The token is a range and in the order, because only transfers_token has it there: by statistics the planner would filter another index.
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

/** Which of these tokens the person has used. @param tokens  20 bytes, lower-case */
export async function selectUsed(db: Db, holder: TokenHolder, tokens: readonly Hex[]): Promise<Set<Hex>> {
  if (tokens.length === 0) return new Set()
  const { rows } = await sql<{ token: Uint8Array }>`
    select token from unnest(${byteaArray(tokens)}) as one (token) where ${isUsed(holder, sql`one.token`)}`.execute(db)
  return new Set(rows.map(({ token }) => toHex(token)))
}
