import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'

/** Bytes that may be sent to a node now. */
export type Released = { id: string; from: Hex; raw: Hex; hash: Hex }

/** Alias of the table `transactions`, or of a row like it, in a statement. */
type TableAlias = 'transactions' | 't' | 'due' | 'bound' | 'lanes'

/**
 * Returns SQL for: so many lower nonces of the account are open that a node may reject this one. Geth guarantees 16 per
 * sender, and reth accepts no more.
 * Nonces that wait for a signature and unsigned nonces count as open. Mined transactions count until their block is
 * followed, so a row may be sent a block late, but never early.
 * Open rows are counted, instead of the distance from the lowest nonce. So a mined row that a restored database still
 * has as open (docs/operate/high-availability.md) counts once and does not block the account. Uses the index
 * `transactions_open`; reads no more rows than nodes accept.
 */
export const isFar = ({ config }: Pick<App, 'config'>, row: TableAlias): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from transactions low where low.chain_id = ${sql.ref(`${row}.chain_id`)}
    and low.state in ('BOUND', 'SUBMITTED', 'VACANT') and low.sender = ${sql.ref(`${row}.sender`)}
    and low.nonce < ${sql.ref(`${row}.nonce`)} offset ${config.MAX_PENDING_WRITES - 1}::bigint)`

/**
 * Returns SQL for: the newest bytes of a SUBMITTED row are stored, and were not sent to a node yet. Uses the primary
 * key of `attempts`.
 */
export const isQueued = (row: TableAlias): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from attempts newest where newest.chain_id = ${sql.ref(`${row}.chain_id`)}
    and newest.hash = ${sql.ref(`${row}.hash`)} and newest.queued_nonce is not null)`

/**
 * Queues stored bytes if too many lower nonces are open.
 * @returns whether they are queued; otherwise they may be sent to a node now
 * @throws database_unavailable
 */
export async function holdBack(app: App, { chainId }: Chain, hash: Hex): Promise<boolean> {
  const { rows } = await sql`
      update attempts set queued_sender = t.sender, queued_nonce = t.nonce, broadcast_at = now()
      from transactions t
      where attempts.chain_id = ${chainId}::bigint and attempts.hash = ${fromHex(hash)}::bytea
        and t.id = attempts.transaction_id and t.state = 'SUBMITTED' and ${isFar(app, 't')}
      returning t.id`.execute(app.db)
  return rows.length > 0
}

/** attempts per statement */
const CHUNK = 500

/**
 * Dequeues the bytes that may be sent now, by account and nonce. Needs one short search per account with a queue,
 * however long the queue is.
 * If a queued transaction was replaced, only its newest bytes are sent, because no node needs the earlier ones. Its
 * next fee bump is possible 3 blocks from now.
 * @returns at most 500 rows; if 500 were dequeued, `hasMore` is true
 */
export async function takeQueued(app: App, chain: Chain): Promise<{ released: Released[]; hasMore: boolean }> {
  const { db, config } = app
  const head = chain.head.current()?.number ?? null
  const { rows } = await sql<{
    id: string
    raw: Uint8Array
    hash: Uint8Array
    sender: Uint8Array
    nonce: number
    is_newest: boolean
  }>`
      with recursive lanes (chain_id, sender, nonce) as (
        (select chain_id, queued_sender, queued_nonce from attempts
          where chain_id = ${chain.chainId}::bigint and queued_nonce is not null order by queued_sender, queued_nonce limit 1)
        union all
        select next.* from lanes cross join lateral (select chain_id, queued_sender, queued_nonce from attempts
          where chain_id = ${chain.chainId}::bigint and queued_nonce is not null and queued_sender > lanes.sender
          order by queued_sender, queued_nonce limit 1) as next
      ), bounds as materialized (
        select sender, coalesce((select nonce from transactions
          where chain_id = ${chain.chainId}::bigint and state in ('BOUND', 'SUBMITTED', 'VACANT') and sender = lanes.sender
          order by nonce offset ${config.MAX_PENDING_WRITES - 1}::bigint limit 1), ${Number.MAX_SAFE_INTEGER}::bigint) as last
        from lanes where not ${isFar(app, 'lanes')}
      ), next as (
        select due.hash from bounds cross join lateral (
          select hash, queued_nonce from attempts
          where chain_id = ${chain.chainId}::bigint and queued_nonce is not null and queued_sender = bounds.sender and queued_nonce <= bounds.last
          order by queued_nonce limit ${CHUNK}::int
        ) as due order by bounds.sender, due.queued_nonce limit ${CHUNK}::int
      )
      update attempts set queued_sender = null, queued_nonce = null, broadcast_at = now(), created_block = ${head}::bigint,
        created_at = case when t.hash = attempts.hash then now() else attempts.created_at end
      from next, transactions t
      where attempts.chain_id = ${chain.chainId}::bigint and attempts.hash = next.hash and attempts.queued_nonce is not null
        and t.id = attempts.transaction_id
      returning t.id, attempts.raw, attempts.hash, t.sender, t.nonce, (t.state = 'SUBMITTED' and t.hash = attempts.hash) as is_newest`.execute(
    db,
  )
  const released = rows
    .filter(({ is_newest }) => is_newest)
    .toSorted((a, b) => Buffer.compare(a.sender, b.sender) || a.nonce - b.nonce)
    .map(({ id, sender, raw, hash }) => ({ id, from: toHex(sender), raw: toHex(raw), hash: toHex(hash) }))
  return { released, hasMore: rows.length === CHUNK }
}
