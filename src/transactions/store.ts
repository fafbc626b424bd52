import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Fees } from '../chain/fees.ts'
import { fromHex } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'
import type { Transition } from '../store/rows.ts'
import type { Hex } from '../ids.ts'
import { answerOf } from './answer.ts'
import { writeFees, type Bound } from './intent.ts'

/** Signed bytes with the terms they were signed at. */
export type Attempt = { raw: Hex; hash: Hex; gas: bigint; fees: Fees; isCancel: boolean }

/**
 * Commit 2: the first bytes of an intent, its hash, and the answer that its idempotency key gives from now on. One
 * statement. Whoever stores them again, after a crash or beside another replica, changes nothing.
 */
export async function storeFirst(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<void> {
  const response = JSON.stringify(answerOf(chain, bound, attempt.hash))
  await retrying(() =>
    withAttempt(app, chain, bound.id, attempt)
      .with('told', (db) =>
        db
          .updateTable('idempotency_keys')
          .set({ response })
          .where('transaction_id', '=', bound.id)
          .where('response', 'is', null)
          .returning('key'),
      )
      .updateTable('transactions')
      .set({ state: 'SUBMITTED', ...submitted(app, attempt) })
      .where('id', '=', bound.id)
      .where('state', '=', 'BOUND')
      .execute(),
  )
}

/**
 * The bytes of a cancel that fills the nonce of an intent without bytes. Its idempotency key is free again: the intent
 * can never be signed any more, and its caller was never told a hash.
 */
export async function storeFill(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<void> {
  await retrying(() =>
    withAttempt(app, chain, bound.id, attempt)
      .with('freed', (db) =>
        db
          .deleteFrom('idempotency_keys')
          .where('transaction_id', '=', bound.id)
          .where('response', 'is', null)
          .returning('key'),
      )
      .updateTable('transactions')
      .set({ state: 'SUBMITTED', is_cancel: true, ...submitted(app, attempt) })
      .where('id', '=', bound.id)
      .where('state', '=', 'BOUND')
      .execute(),
  )
}

/** A raised fee or a cancel. The attempt is kept even when the transaction was mined meanwhile: its hash may yet be seen. */
export async function storeReplacement(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<void> {
  await retrying(() =>
    withAttempt(app, chain, bound.id, attempt)
      .updateTable('transactions')
      .set({ ...submitted(app, attempt), ...(attempt.isCancel ? { is_cancel: true } : {}) })
      .where('id', '=', bound.id)
      .where('state', '=', 'SUBMITTED')
      .where('hash', 'is distinct from', fromHex(attempt.hash))
      .execute(),
  )
}

/** `broadcast_at` is set here, not after the broadcast: it says that somebody has taken it on, and saves a commit. */
function withAttempt({ db }: App, chain: Chain, id: string, attempt: Attempt) {
  return (db as Db).with('kept', (inner) =>
    inner
      .insertInto('attempts')
      .values({
        chain_id: chain.chainId,
        hash: fromHex(attempt.hash),
        transaction_id: id,
        raw: fromHex(attempt.raw),
        gas_limit: Number(attempt.gas),
        ...writeFees(attempt.fees),
        is_cancel: attempt.isCancel,
        created_block: chain.head.current()?.number ?? null,
        broadcast_at: sql`now()`,
      })
      .onConflict((on) => on.columns(['chain_id', 'hash']).doNothing())
      .returning('hash'),
  )
}

function submitted(app: App, { hash }: Attempt) {
  return {
    hash: fromHex(hash),
    transitions: append([{ state: 'SUBMITTED', at: new Date(app.now()).toISOString(), hash }]),
    updated_at: sql<Date>`now()`,
  }
}

/** Transitions are only ever added to. */
export const append = (transitions: Transition[]) => sql<string>`transitions || ${JSON.stringify(transitions)}::jsonb`
