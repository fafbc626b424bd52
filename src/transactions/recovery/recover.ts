import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import { RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { retrying } from '../../store/db.ts'
import { broadcast } from '../lanes/broadcast.ts'
import { countAt } from '../settle/nonce-count.ts'
import { toBound, type Bound, type TransactionRow } from '../intent.ts'
import { laneStopped, isAgo, stopLane } from './stop-lane.ts'
import { reconcileBound } from '../lanes/store.ts'
import { nobodysWithoutBytes, transactionRows } from '../rows.ts'
import { sideBySide } from './concurrency.ts'
import { endIfDelegation } from '../lanes/own-nonces.ts'
import { fill } from '../lanes/steps.ts'
import { reconcileNonce } from './reconcile.ts'
import { usedForGood, type Followed } from '../settle/nonce-used.ts'
import { slot } from '../../state.ts'

/** number of rows that one round handles, and number handled at a time: requests to node and signer are batched */
const ROUND = 500
const WIDTH = 32
/** the last row of the last round; null: the next round starts at the first row */
const rounds = slot(
  'where a round of recovery ended',
  (_chain: Chain): { last: { sender: Uint8Array; nonce: number } | null } => ({ last: null }),
)

/** seconds after which an intent without bytes is abandoned and its nonce filled */
const FILL_AFTER_SECONDS = 30
/**
 * seconds after which the nonce of a sponsor's transaction is filled. No caller retries it, another transaction
 * includes its operations, and many users' writes wait behind it.
 */
const FILL_OUTER_AFTER_SECONDS = 8

/**
 * Finishes writes between commit 1 and commit 2. If the signer's ledger has bytes, they are stored and sent. Otherwise
 * the intent is abandoned after 30 s (a sponsor's after 8 s), and a cancellation fills its nonce. Unsigned nonces that
 * block a later one get gap-filling transactions.
 * The ledger decides between the cancellation and a late first signature: it never signs both.
 * @param idleSeconds  rows updated more recently are being handled by another process
 */
export async function recoverBound(app: App, chain: Chain, { idleSeconds }: { idleSeconds: number }): Promise<void> {
  await claimVacant(app, chain)
  const round = rounds.of(chain)
  const after = round.last
  const rows = await app.db
    .selectFrom('transactions')
    .selectAll()
    .select(
      sql<boolean>`case when authorizations is null then ${isAgo(sql.ref('created_at'), FILL_AFTER_SECONDS)} else ${isAgo(sql.ref('created_at'), FILL_OUTER_AFTER_SECONDS)} end`.as(
        'is_old',
      ),
    )
    .where('chain_id', '=', chain.chainId)
    .where('state', '=', 'BOUND')
    .where(isAgo(sql.ref('updated_at'), idleSeconds, PUT_OFF_SECONDS))
    .$if(after !== null, (query) =>
      query.where(sql<boolean>`(sender, nonce) > (${after!.sender}::bytea, ${after!.nonce}::bigint)`),
    )
    .orderBy('sender')
    .orderBy('nonce')
    .limit(ROUND)
    .execute()
  const last = rows.at(-1)
  // Rows that cannot be finished must not block the rows behind them: the next round continues here.
  round.last = rows.length < ROUND || last === undefined ? null : { sender: last.sender, nonce: last.nonce }
  await sideBySide(rows, WIDTH, (row) =>
    isolateRowErrors(app, { id: row.id }, () => recoverOne(app, chain, row, row.is_old)),
  )
}

/**
 * Logs an error that concerns one row, including an invalid response of a node. Rethrows if node, signer or database is
 * unavailable: the round then ends and the next one retries, so that not every row waits for its own time-out.
 */
export async function isolateRowErrors(
  { telemetry }: App,
  { id }: { id: string },
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isAway(error)) throw error
    telemetry.log.warn('transaction_unattended', { id }, error)
  }
}

const AWAY: ReadonlySet<ErrorCode> = new Set([
  'chain_unavailable',
  'chain_timeout',
  'signer_unavailable',
  'database_unavailable',
])
const isAway = (error: unknown): boolean =>
  error instanceof AppError
    ? AWAY.has(error.code)
    : error instanceof RpcUnavailable && !(error instanceof InvalidResponse)

async function recoverOne(app: App, chain: Chain, row: TransactionRow, isOld: boolean): Promise<void> {
  const bound = toBound(row)
  const found = await reconcileBound(app, chain, bound)
  if (found !== null) await broadcast(app, chain, { id: bound.id, from: bound.from, ...found.newest })
  else if (isOld) await fillNonce(app, chain, bound)
}

/** Binds vacant nonces that block a later nonce of the account, so that they are filled. */
async function claimVacant({ db }: App, { chainId }: Chain): Promise<void> {
  await transactionRows
    .update(db, 'bindToFill')
    .set({ claims: sql`claims + 1`, is_cancel: true })
    .where('chain_id', '=', chainId)
    .where(isAgo(sql.ref('updated_at'), FILL_AFTER_SECONDS))
    .where(
      sql<boolean>`exists (select 1 from transactions later where later.chain_id = transactions.chain_id
        and later.sender = transactions.sender and later.nonce > transactions.nonce)`,
    )
    .execute()
}

async function fillNonce(app: App, chain: Chain, bound: Bound): Promise<void> {
  if ((await countAt(chain, bound.from, 'latest')) > bound.nonce) {
    // Unknown bytes have used the nonce. Unless that is final, leave the row unchanged.
    const block = await usedForGood(app, chain, bound)
    if (block === null) return
    // A caller may know the id of a record in the ledger, so the record retains it.
    if (!(await reconcileNonce(app, bound)) && !(await endIfDelegation(app, bound)))
      await giveUp(app, bound, { block, hash: null })
    return
  }
  const signed = await fill.sign(app, chain, bound)
  if (signed.kind === 'denied') return putOff(app, bound, signed.error)
  if (signed.kind !== 'signed') return
  await fill.store(app, chain, bound, signed.attempt)
  app.telemetry.log.info('nonce_filled', { chainId: bound.chainId, id: bound.id, nonce: bound.nonce })
  await broadcast(app, chain, { id: bound.id, from: bound.from, ...signed.attempt })
}

/**
 * Postpones the next attempt by five minutes, with an `updated_at` in the future. Otherwise every round would get and
 * log the same refusal.
 */
async function putOff({ db, telemetry }: App, { chainId, id, from }: Bound, error: unknown): Promise<void> {
  telemetry.log.warn('gap_fill_denied', { chainId, id, sender: from }, error)
  await transactionRows
    .update(db, 'putOff')
    .set({ updated_at: sql<Date>`now() + ${`${PUT_OFF_SECONDS} seconds`}::interval` })
    .where('id', '=', id)
    .execute()
}
const PUT_OFF_SECONDS = 300

/**
 * Marks an intent as failed: a foreign transaction has used its nonce for good, so someone else holds the key. Stops
 * its account in the same transaction. Stores the block that proves this, because a rewind undoes it.
 * @param hash  hash of the foreign transaction, if known
 * @returns false if the intent has been settled
 */
export async function giveUp(
  app: App,
  bound: Bound,
  { block, hash }: { block: Followed; hash: Hex | null },
): Promise<boolean> {
  const { chainId, id, from: sender, nonce } = bound
  const intrusion = { chainId, sender, nonce, hash, reason: 'foreign_nonce' } as const
  const stopped = await retrying(() =>
    app.db.transaction().execute(async (db) => {
      const mine = await transactionRows
        .update(db, 'fail', { at: new Date(app.clock.wall()).toISOString() })
        .set({
          ...nobodysWithoutBytes(),
          block_number: block.number,
          block_hash: fromHex(block.hash),
          is_final: true,
          updated_at: sql`now()`,
        })
        .where('id', '=', id)
        // The id may since have been bound to another nonce, and signed there.
        .where('nonce', '=', nonce)
        .returning('id')
        .executeTakeFirst()
      return mine === undefined ? null : { isExpected: await stopLane(db, intrusion) }
    }),
  )
  if (stopped === null) return false
  app.telemetry.writes.inc({ state: 'FAILED' })
  app.telemetry.log.error('transaction_failed', { chainId, id, sender, nonce })
  laneStopped(app, intrusion, stopped.isExpected)
  return true
}
