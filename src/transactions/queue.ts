import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { retrying } from '../store/db.ts'

/** Bytes that are a node's turn now. */
export type Released = { id: string; from: Hex; raw: Hex; hash: Hex }

/** A row of `transactions` in a statement, by its alias. */
type Row = 'transactions' | 't' | 'due' | 'bound'

/**
 * Whether a nonce is so far above the lowest open one of its account that no node has to take it: geth guarantees 16 of a
 * sender, reth takes no more. What waits for a signature, or for nobody, is open too. By `transactions_open`, three short
 * searches. A nonce that was used on the chain and is not followed yet still counts: late by a block, never early.
 */
export const isFar = ({ config }: Pick<App, 'config'>, row: Row): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from transactions low where low.chain_id = ${sql.ref(`${row}.chain_id`)}
    and low.state in ('BOUND', 'SUBMITTED', 'VACANT') and low.sender = ${sql.ref(`${row}.sender`)}
    and low.nonce <= ${sql.ref(`${row}.nonce`)} - ${config.MAX_PENDING_WRITES}::bigint)`

/** Whether the newest bytes of a SUBMITTED row are queued: stored, and given to no node yet. By the primary key of attempts. */
export const isQueued = (row: Row): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from attempts newest where newest.chain_id = ${sql.ref(`${row}.chain_id`)}
    and newest.hash = ${sql.ref(`${row}.hash`)} and newest.queued_nonce is not null)`

/**
 * Queues stored bytes whose nonce is too far above the lowest open one of their account.
 * @returns whether they are; else a node may have them now
 * @throws database_unavailable
 */
export async function holdBack(app: App, { chainId }: Chain, hash: Hex): Promise<boolean> {
  const { rows } = await retrying(() =>
    sql`
      update attempts set queued_sender = t.sender, queued_nonce = t.nonce, broadcast_at = now()
      from transactions t
      where attempts.chain_id = ${chainId}::bigint and attempts.hash = ${fromHex(hash)}::bytea
        and t.id = attempts.transaction_id and t.state = 'SUBMITTED' and ${isFar(app, 't')}
      returning t.id`.execute(app.db),
  )
  return rows.length > 0
}

/** attempts per statement */
const CHUNK = 500

/**
 * Takes out of the queues of a network what is no longer too far above, by account and nonce: one short search an account
 * that has something queued, however much that is. Of a transaction that was raised or cancelled in the queue the newest bytes
 * go; no node has to see the others. From now on its fee may be raised, in three blocks.
 * @returns at most 500; when it is as many there may be more
 */
export async function takeQueued(
  { db, config }: App,
  chain: Chain,
): Promise<{ released: Released[]; hasMore: boolean }> {
  const head = chain.head.current()?.number ?? null
  const { rows } = await retrying(() =>
    sql<{ id: string; raw: Uint8Array; hash: Uint8Array; sender: Uint8Array; nonce: number; is_newest: boolean }>`
      with recursive lanes (sender) as (
        (select queued_sender from attempts where chain_id = ${chain.chainId}::bigint and queued_nonce is not null
          order by queued_sender limit 1)
        union all
        select (select queued_sender from attempts where chain_id = ${chain.chainId}::bigint and queued_nonce is not null
          and queued_sender > lanes.sender order by queued_sender limit 1)
        from lanes where lanes.sender is not null
      ), next as (
        select a.hash from lanes cross join lateral (
          select min(nonce) as nonce from transactions
          where chain_id = ${chain.chainId}::bigint and state in ('BOUND', 'SUBMITTED', 'VACANT') and sender = lanes.sender
        ) as lowest join attempts a on a.chain_id = ${chain.chainId}::bigint and a.queued_nonce is not null
          and a.queued_sender = lanes.sender and (lowest.nonce is null or a.queued_nonce < lowest.nonce + ${config.MAX_PENDING_WRITES}::bigint)
        order by a.queued_sender, a.queued_nonce limit ${CHUNK}::int
      )
      update attempts set queued_sender = null, queued_nonce = null, broadcast_at = now(), created_block = ${head}::bigint
      from next, transactions t
      where attempts.chain_id = ${chain.chainId}::bigint and attempts.hash = next.hash and attempts.queued_nonce is not null
        and t.id = attempts.transaction_id
      returning t.id, attempts.raw, attempts.hash, t.sender, t.nonce, (t.state = 'SUBMITTED' and t.hash = attempts.hash) as is_newest`.execute(
      db,
    ),
  )
  const released = rows
    .filter(({ is_newest }) => is_newest)
    .toSorted((a, b) => Buffer.compare(a.sender, b.sender) || a.nonce - b.nonce)
    .map(({ id, sender, raw, hash }) => ({ id, from: toHex(sender), raw: toHex(raw), hash: toHex(hash) }))
  return { released, hasMore: rows.length === CHUNK }
}
