import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'

/** Bytes that are a node's turn now. */
export type Released = { id: string; from: Hex; raw: Hex; hash: Hex }

/** A row of `transactions` in a statement, by its alias. */
type TableAlias = 'transactions' | 't' | 'due' | 'bound' | 'lanes'

/**
 * Whether so many nonces below one are open that no node has to take it: geth guarantees 16 of a sender, reth takes no more.
 * What waits for a signature, or for nobody, is open too; what is mined and not followed yet still counts: late by a block,
 * never early. They are counted, not measured from the lowest: a row that stays open though it is mined, which a database
 * that went back can leave behind (docs/operate/high-availability.md), takes one place and does not hold the account up. By
 * `transactions_open`; no more rows than nodes take are looked at.
 */
export const isFar = ({ config }: Pick<App, 'config'>, row: TableAlias): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from transactions low where low.chain_id = ${sql.ref(`${row}.chain_id`)}
    and low.state in ('BOUND', 'SUBMITTED', 'VACANT') and low.sender = ${sql.ref(`${row}.sender`)}
    and low.nonce < ${sql.ref(`${row}.nonce`)} offset ${config.MAX_PENDING_WRITES - 1}::bigint)`

/** Whether the newest bytes of a SUBMITTED row are queued: stored, and given to no node yet. By the primary key of attempts. */
export const isQueued = (row: TableAlias): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from attempts newest where newest.chain_id = ${sql.ref(`${row}.chain_id`)}
    and newest.hash = ${sql.ref(`${row}.hash`)} and newest.queued_nonce is not null)`

/**
 * Queues stored bytes below whose nonce too many are open.
 * @returns whether they are; else a node may have them now
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
 * Takes out of the queues of a network what is a node's turn now, by account and nonce: one short search an account
 * that has something queued, however much that is. Of a transaction that was raised or cancelled in the queue the newest bytes
 * go; no node has to see the others. From now on its fee may be raised, in three blocks.
 * @returns at most 500; when it is as many there may be more
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
