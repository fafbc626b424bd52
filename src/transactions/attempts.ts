import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { writeFees, type Attempt, type AttemptRow, type Bound } from './intent.ts'

/** Returns every attempt of a transaction, newest first. */
export async function readAttempts({ db }: App, { chainId, id }: Pick<Bound, 'chainId' | 'id'>): Promise<AttemptRow[]> {
  return db
    .selectFrom('attempts')
    .selectAll()
    .where('transaction_id', '=', id)
    .where('chain_id', '=', chainId)
    .orderBy('created_at', 'desc')
    .orderBy('max_fee', 'desc')
    .execute()
}

/** Returns every attempt of several transactions, by transaction id, newest first. */
export async function readAttemptsOf(db: Db, ids: string[]): Promise<Map<string, AttemptRow[]>> {
  if (ids.length === 0) return new Map()
  const attempts = await db
    .selectFrom('attempts')
    .selectAll()
    .where('transaction_id', 'in', ids)
    .orderBy('created_at', 'desc')
    .orderBy('max_fee', 'desc')
    .execute()
  return Map.groupBy(attempts, ({ transaction_id }) => transaction_id)
}

/** Stores the bytes of an attempt that is about to be sent. An attempt that is already stored is not changed. */
export async function keepAttempt(db: Db, chain: Chain, id: string, attempt: Attempt): Promise<void> {
  await db
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
    .execute()
}
