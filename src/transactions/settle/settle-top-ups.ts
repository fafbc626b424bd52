import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { KeyScope } from '../../ids.ts'
import { slot } from '../../state.ts'
import { fromWord } from '../../store/bytes.ts'
import { retrying } from '../../store/db.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { settleTopUp, type TopUpKey } from '../sponsors/gas-budget.ts'
import { lastUse } from '../key.ts'
import { isSettled } from '../read/wait.ts'

/** client id and route in the idempotency keys of top-ups; no client has this id, so the keys are distinct */
const TOP_UP = 'top-up'
/** milliseconds between two checks of top-ups without a request */
const LOOK_EVERY_MS = 60_000
/** minutes in which a request settles its own top-up */
const OWN_MINUTES = 2
/** top-ups per check */
const ROUND = 500

/**
 * Returns the key of a top-up: network, user and ordinal, whatever the application and sponsor are. The signer signs no
 * second transaction under this key's id.
 */
export const scopeOf = ({ chainId, accountId, ordinal }: TopUpKey): KeyScope => ({
  accountId,
  clientId: TOP_UP,
  route: TOP_UP,
  key: `${chainId} ${ordinal}`,
})

/** Outcome of a top-up: whether the funds arrived, and the block of its transaction. */
type Settled = { isThere: boolean; blockNumber: number | null }

/**
 * Replaces a top-up's reservation by its actual cost. Reads its transaction again, because a reorganisation may have
 * moved it. A repeat does nothing.
 * @param id  id of its transaction
 * @returns null if the transaction is in no block, and may still be mined
 */
export async function settleBy(app: App, topUp: TopUpKey, id: string): Promise<Settled | null> {
  const row = await retrying(() =>
    app.db.transaction().execute(async (work) => {
      const found = await work
        .selectFrom('transactions')
        .select(['state', 'block_number', 'gas_used', 'effective_gas_price', 'value'])
        .where('id', '=', id)
        // Lock the transaction before the top-up, in a follower's order.
        .forShare()
        .executeTakeFirst()
      if (found === undefined || !isSettled(found.state)) return null
      await settleTopUp(work, topUp, { ...costOf(found), blockNumber: found.block_number })
      return found
    }),
  )
  if (row === null) return null
  app.telemetry.topUps.inc({ outcome: row.state })
  return { isThere: isMinedWell(row), blockNumber: row.block_number }
}

type SettledTransaction = {
  state: TransactionState
  gas_used: number | null
  effective_gas_price: Uint8Array | null
  value: Uint8Array
}

const isMinedWell = ({ state }: Pick<SettledTransaction, 'state'>): boolean =>
  state === 'MINED' || state === 'FINALIZED'

/** Returns the cost in wei. `wei`: amount that the user got. `spent`: that amount plus the fee; null: unknown */
function costOf(row: SettledTransaction): { spent: bigint | null; wei: bigint } {
  const isMined = isMinedWell(row) || row.state === 'REVERTED'
  const isPriced = isMined && row.gas_used !== null && row.effective_gas_price !== null
  const fee = isPriced ? BigInt(row.gas_used!) * fromWord(row.effective_gas_price!) : 0n
  const wei = isMinedWell(row) ? fromWord(row.value) : 0n
  // A transaction that can never be mined costs nothing. If a foreign transaction used its nonce, the reservation
  // counts.
  return { spent: isPriced ? wei + fee : row.state === 'FAILED' ? 0n : null, wei }
}

const looked = slot('when top-ups without a request were looked at', (_chain: Chain) => ({
  at: Number.NEGATIVE_INFINITY,
  /** creation time of the last row of the last check, ISO 8601; older rows are next */
  before: null as string | null,
}))

/** Runs `settleLeft` once a minute. */
export async function tendTopUps(app: App, chain: Chain): Promise<void> {
  const last = looked.of(chain)
  if (app.clock.ticks() - last.at < LOOK_EVERY_MS) return
  last.at = app.clock.ticks()
  await settleLeft(app, chain)
}

/**
 * Settles top-ups whose transaction is final and whose request did not return. Budgets then count the actual cost,
 * instead of the reservation until the end of the day.
 * The user's next request finishes a top-up without a transaction, whose reservation counts until then. If more are
 * open than one check handles, the next check continues there.
 * @returns number of settled top-ups
 */
export async function settleLeft(app: App, chain: Chain): Promise<number> {
  const { chainId } = chain
  const last = looked.of(chain)
  const all = app.db
    .selectFrom('top_ups')
    .select(['account_id', 'ordinal'])
    // Read microseconds: a rounded time would return a row twice, or forever.
    .select(sql<string>`to_json(created_at) #>> '{}'`.as('created_at'))
    .where('chain_id', '=', chainId)
    .where('settled_at', 'is', null)
    .where('created_at', '<', sql<Date>`now() - ${`${OWN_MINUTES} minutes`}::interval`)
    .orderBy('top_ups.created_at', 'desc')
    .limit(ROUND)
  const older = last.before === null ? all : all.where('created_at', '<', sql<Date>`${last.before}::timestamptz`)
  const open = await older.execute()
  last.before = open.length < ROUND ? null : open.at(-1)!.created_at
  let settled = 0
  for (const { account_id: accountId, ordinal } of open) {
    const topUp = { chainId, accountId, ordinal }
    const used = await lastUse(app, scopeOf(topUp))
    if (used?.isTold !== true) continue
    const row = await app.db
      .selectFrom('transactions')
      .select(['state', 'is_final'])
      .where('id', '=', used.id)
      .executeTakeFirst()
    // A reorganisation may still undo a transaction that is not final.
    if (row === undefined || !(row.is_final || row.state === 'FAILED')) continue
    if ((await settleBy(app, topUp, used.id)) !== null) settled++
  }
  return settled
}
