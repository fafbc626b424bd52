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

/** of idempotency keys; no client has this id, so no key of one is the same */
const TOP_UP = 'top-up'
/** milliseconds between two looks at what no request came back for */
const LOOK_EVERY_MS = 60_000
/** minutes in which a request is at work on its top-up itself */
const OWN_MINUTES = 2
/** top-ups in one look */
const ROUND = 500

/** A key of the network, the person and the ordinal, whatever application and sponsor: the signer signs no other under its id. */
export const scopeOf = ({ chainId, accountId, ordinal }: TopUpKey): KeyScope => ({
  accountId,
  clientId: TOP_UP,
  route: TOP_UP,
  key: `${chainId} ${ordinal}`,
})

/** What became of a top-up: whether the funds are there, and the block that its transaction is in. */
type Settled = { isThere: boolean; blockNumber: number | null }

/**
 * Counts what it cost in place of what it might have, by its transaction as it is when that is stored: a reorganisation may have moved it since it was
 * seen in a block. Does nothing the second time.
 * @param id  of its transaction
 * @returns null where that is in no block, and may still be in one
 */
export async function settleBy(app: App, topUp: TopUpKey, id: string): Promise<Settled | null> {
  const row = await retrying(() =>
    app.db.transaction().execute(async (work) => {
      const found = await work
        .selectFrom('transactions')
        .select(['state', 'block_number', 'gas_used', 'effective_gas_price', 'value'])
        .where('id', '=', id)
        // Before the row of the top-up, as a follower takes them.
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

/** `wei`: what the person got. `spent`: with the fee; null: not known */
function costOf(row: SettledTransaction): { spent: bigint | null; wei: bigint } {
  const isMined = isMinedWell(row) || row.state === 'REVERTED'
  const isPriced = isMined && row.gas_used !== null && row.effective_gas_price !== null
  const fee = isPriced ? BigInt(row.gas_used!) * fromWord(row.effective_gas_price!) : 0n
  const wei = isMinedWell(row) ? fromWord(row.value) : 0n
  // What can never be mined cost nothing. Of a nonce that something else used it is not looked up: that counts as it was reserved.
  return { spent: isPriced ? wei + fee : row.state === 'FAILED' ? 0n : null, wei }
}

const looked = slot('when top-ups without a request were looked at', (_chain: Chain) => ({
  at: Number.NEGATIVE_INFINITY,
  /** where the look before ended, by ISO 8601: older ones are next */
  before: null as string | null,
}))

/** Once a minute, `settleLeft`. */
export async function tendTopUps(app: App, chain: Chain): Promise<void> {
  const last = looked.of(chain)
  if (app.clock.ticks() - last.at < LOOK_EVERY_MS) return
  last.at = app.clock.ticks()
  await settleLeft(app, chain)
}

/**
 * Top-ups whose transaction is final, and for which no request came back: budgets count what they cost, instead of the most that they might have
 * until a day is over. One without a transaction is finished by the person's next request, and counts until then. Where more are open than one
 * look takes, the next continues where it ended.
 * @returns how many
 */
export async function settleLeft(app: App, chain: Chain): Promise<number> {
  const { chainId } = chain
  const last = looked.of(chain)
  const all = app.db
    .selectFrom('top_ups')
    .select(['account_id', 'ordinal'])
    // To the microsecond: rounded down it would name one twice, or forever.
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
    // A reorganisation may still undo what is not final.
    if (row === undefined || !(row.is_final || row.state === 'FAILED')) continue
    if ((await settleBy(app, topUp, used.id)) !== null) settled++
  }
  return settled
}
