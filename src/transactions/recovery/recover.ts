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

/** rows that one round takes up, and of these at a time: what they ask of node and signer travels together */
const ROUND = 500
const WIDTH = 32
/** the last row that a round took up; null: the next one begins at the first */
const rounds = slot(
  'where a round of recovery ended',
  (_chain: Chain): { last: { sender: Uint8Array; nonce: number } | null } => ({ last: null }),
)

/** seconds after which an intent without bytes is abandoned and its nonce filled */
const FILL_AFTER_SECONDS = 30
/** the same of a sponsor's transaction: nobody comes back for it, what it was to carry goes into another, and everyone's are behind it */
const FILL_OUTER_AFTER_SECONDS = 8

/**
 * Finishes what was left between commit 1 and commit 2. Bytes that the signer's ledger holds are stored and sent; an
 * intent that has none is abandoned after 30 s, one of a sponsor after 8: a cancel fills its nonce. Whether the cancel or a late first signature
 * comes to be is decided by the ledger, which never gives out both. Nonces that were vacated and block a later one are
 * filled too.
 * @param idleSeconds  rows touched more recently are someone's work in progress
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
  // Those that cannot be finished keep nobody behind them from it: the next round continues where this one ends.
  round.last = rows.length < ROUND || last === undefined ? null : { sender: last.sender, nonce: last.nonce }
  await sideBySide(rows, WIDTH, (row) =>
    isolateRowErrors(app, { id: row.id }, () => recoverOne(app, chain, row, row.is_old)),
  )
}

/**
 * One row's trouble is not another's, nor is nonsense that the node says of it. But when node, signer or database are
 * away it is everyone's: the round ends, and the next one tries again, instead of every row waiting for its own time-out.
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

/** A nonce nobody took over while a later one of the account waits behind it: bound again, to be filled. */
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
    // Used on the chain by bytes that we do not know: for good, or left alone until it is.
    const block = await usedForGood(app, chain, bound)
    if (block === null) return
    // What the ledger knows of the nonce was told, or may have been, and keeps its id.
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

/** Asks again in five minutes, by a time of the last look that lies ahead: each round would have the same answer, and log it. */
async function putOff({ db, telemetry }: App, { chainId, id, from }: Bound, error: unknown): Promise<void> {
  telemetry.log.warn('fill_denied', { chainId, id, sender: from }, error)
  await transactionRows
    .update(db, 'putOff')
    .set({ updated_at: sql<Date>`now() + ${`${PUT_OFF_SECONDS} seconds`}::interval` })
    .where('id', '=', id)
    .execute()
}
const PUT_OFF_SECONDS = 300

/**
 * The nonce of an intent is used for good, by nothing that we know of: it can never be mined, and someone else has the
 * key, so its account is stopped in the same transaction. With the block that says so, for a rewind takes that back too.
 * @param hash  what used it, where that is known
 * @returns false when it was settled in the meantime
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
        // The id may have been bound to another since, and signed there.
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
