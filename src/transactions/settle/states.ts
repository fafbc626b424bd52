import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import type { Db } from '../../store/db.ts'
import type { TransactionState, Transition } from '../../store/column-values.ts'
import type { Hex } from '../../ids.ts'
import { append, CHANGED_NOW, nobodysWithoutBytes, operationRows, transactionRows } from '../rows.ts'

/** One of our transactions in a block, under any of its hashes. */
export type Mined = {
  id: string
  hash: Hex
  isCancel: boolean
  blockNumber: number
  blockHash: Hex
  succeeded: boolean
  gasUsed: number
  /** wei per gas */
  effectiveGasPrice: bigint
}

/** rows per statement */
const CHUNK = 200

/** Marks transactions as MINED, REVERTED, or CANCELLED if the mined one is the cancellation. Inside a transaction. */
export async function markMined(db: Db, app: App, chainId: number, mined: Mined[]): Promise<void> {
  const at = new Date(app.clock.wall()).toISOString()
  for (let start = 0; start < mined.length; start += CHUNK) {
    const rows = mined.slice(start, start + CHUNK).map((one) => {
      const state = stateOf(one)
      const transition: Transition = { state, at, hash: one.hash, blockNumber: one.blockNumber }
      return sql`(${one.id}, ${state}, ${fromHex(one.hash)}::bytea, ${one.isCancel}::boolean, ${one.blockNumber}::bigint, ${fromHex(one.blockHash)}::bytea,
        ${one.succeeded}::boolean, ${one.gasUsed}::bigint, ${toWord(one.effectiveGasPrice)}::bytea, ${JSON.stringify([transition])}::jsonb)`
    })
    const change = transactionRows.updating('mine', {
      state: sql`mined.state`,
      set: sql`hash = mined.hash, is_cancel = mined.is_cancel, block_number = mined.block_number,
        block_hash = mined.block_hash, succeeded = mined.succeeded, gas_used = mined.gas_used,
        effective_gas_price = mined.effective_gas_price, revert = null, is_final = false,
        transitions = transactions.transitions || mined.transition #- ${AGAIN}, updated_at = now()`,
      from: sql`from (values ${sql.join(rows)})
        as mined (id, state, hash, is_cancel, block_number, block_hash, succeeded, gas_used, effective_gas_price, transition)`,
      where: sql`transactions.id = mined.id and transactions.chain_id = ${chainId}::bigint and transactions.block_hash is distinct from mined.block_hash`,
    })
    await sql`${change}`.execute(db)
  }
  for (const one of mined) app.telemetry.writes.inc({ state: stateOf(one) })
}

/**
 * SQL for the path of a hash to remove from a transition. If the first bytes are mined, the previous transition has the
 * same hash, which is not stored twice (transitions.ts).
 */
const AGAIN = sql<
  string[]
>`case when transactions.hash = mined.hash and jsonb_array_length(transactions.transitions) = 1
  and transactions.transitions->0->>'state' = 'SUBMITTED' then array['1', 'hash'] else array[]::text[] end`

function stateOf({ isCancel, succeeded }: Mined): TransactionState {
  if (isCancel) return 'CANCELLED'
  return succeeded ? 'MINED' : 'REVERTED'
}

/**
 * Marks an intent whose nonce was used by a foreign transaction. Frees the id of an intent without bytes: the ledger
 * has no record of it, and nothing will be signed for this nonce, even if the block is reorganised. Inside a
 * transaction.
 */
export async function markReplaced(
  db: Db,
  app: App,
  { id, hash, blockNumber, blockHash }: { id: string; hash: Hex; blockNumber: number; blockHash: Hex },
): Promise<void> {
  await transactionRows
    .update(db, 'replace', { at: new Date(app.clock.wall()).toISOString(), hash, blockNumber })
    .set({
      ...nobodysWithoutBytes(),
      block_number: blockNumber,
      block_hash: fromHex(blockHash),
      is_final: false,
      updated_at: CHANGED_NOW,
    })
    .where('id', '=', id)
    .where('block_number', 'is', null)
    .execute()
  app.telemetry.writes.inc({ state: 'REPLACED' })
}

/**
 * Undoes the changes of all blocks from a number on. Transactions with bytes become SUBMITTED, under the hash that was
 * mined, and all their attempts are to be sent immediately. Intents without bytes become BOUND. Operations become
 * SUBMITTED if a transaction included them, otherwise BOUND. Inside a transaction.
 */
export async function revertToPending(db: Db, app: App, chainId: number, fromNumber: number): Promise<void> {
  const at = new Date(app.clock.wall()).toISOString()
  const isAbove = sql<boolean>`chain_id = ${chainId}::bigint and is_final in (false, true) and block_number >= ${fromNumber}::bigint`
  // Update `swept` first: the sweep locks it before attempts as well.
  await sql`update swept set block_number = ${fromNumber - 1}::bigint, id = '' where chain_id = ${chainId}::bigint and block_number >= ${fromNumber}::bigint`.execute(
    db,
  )
  await sql`update attempts set broadcast_at = null where transaction_id in (select id from transactions where ${isAbove})`.execute(
    db,
  )
  const reverted = (isBare: RawBuilder<unknown>, outcome: RawBuilder<unknown>) => {
    const state = sql`case when ${isBare} then 'BOUND' else 'SUBMITTED' end`
    const set = sql`block_number = null, block_hash = null, is_final = false, revert = null, ${outcome}, updated_at = now(),
      transitions = transitions || jsonb_build_array(jsonb_build_object('state', ${state}, 'at', ${at}::text))`
    return { state, set, where: isAbove }
  }
  const transaction = sql`gas_used = null, effective_gas_price = null, succeeded = null`
  await sql`${transactionRows.updating('retract', reverted(sql`hash is null`, transaction))}`.execute(db)
  const operation = sql`is_counted = false, reason = null, after_log = null, event_log = null`
  await sql`${operationRows.updating('retract', reverted(sql`outer_id is null`, operation))}`.execute(db)
}

/**
 * Marks blocks up to a number as final: MINED becomes FINALIZED. Other settled states do not change; their transitions
 * record the time of finality. Inside a transaction.
 */
export async function markFinal(db: Db, app: App, chainId: number, throughNumber: number): Promise<void> {
  const transition: Transition = { state: 'FINALIZED', at: new Date(app.clock.wall()).toISOString() }
  const change = {
    set: sql`is_final = true, transitions = ${append([transition])}, updated_at = now()`,
    where: sql`chain_id = ${chainId}::bigint and is_final = false and block_number <= ${throughNumber}::bigint`,
  }
  await sql`${transactionRows.updating('finalize', change)}`.execute(db)
  await sql`${operationRows.updating('finalize', change)}`.execute(db)
}
