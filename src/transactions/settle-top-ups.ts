import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { KeyScope } from '../ids.ts'
import { slot } from '../state.ts'
import { fromWord } from '../store/bytes.ts'
import { retrying } from '../store/db.ts'
import type { TransactionState } from '../store/column-values.ts'
import { settleTopUp, type TopUpKey } from './gas-budget.ts'
import { lastUse } from './key.ts'

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
  ...{ accountId, clientId: TOP_UP, route: TOP_UP },
  key: `${chainId} ${ordinal}`,
})

/** The transaction of a top-up, in a block or never to be in one. */
export type TopUpRow = {
  state: TransactionState
  block_number: number | null
  gas_used: number | null
  effective_gas_price: Uint8Array | null
  value: Uint8Array
}

export const topUpColumns = ['state', 'block_number', 'gas_used', 'effective_gas_price', 'value'] as const

/** Counts what it cost in place of what it might have. Does nothing the second time. @returns whether the funds are there */
export async function settleBy(app: App, topUp: TopUpKey, row: TopUpRow): Promise<boolean> {
  const isThere = row.state === 'MINED' || row.state === 'FINALIZED'
  const isMined = isThere || row.state === 'REVERTED'
  const isPriced = isMined && row.gas_used !== null && row.effective_gas_price !== null
  const fee = isPriced ? BigInt(row.gas_used!) * fromWord(row.effective_gas_price!) : 0n
  const wei = isThere ? fromWord(row.value) : 0n
  // What can never be mined cost nothing. Of a nonce that something else used it is not looked up: that counts as it was reserved.
  const spent = isPriced ? wei + fee : row.state === 'FAILED' ? 0n : null
  await settleTopUp(app.db, topUp, { spent, wei, blockNumber: row.block_number })
  app.telemetry.topUps.inc({ outcome: row.state })
  return isThere
}

const looked = slot('when top-ups without a request were looked at', (_chain: Chain) => ({
  at: Number.NEGATIVE_INFINITY,
}))

/** Once a minute, `settleLeft`. */
export async function tendTopUps(app: App, chain: Chain): Promise<void> {
  const last = looked.of(chain)
  if (performance.now() - last.at < LOOK_EVERY_MS) return
  last.at = performance.now()
  await settleLeft(app, chain)
}

/**
 * Top-ups whose transaction is final, and for which no request came back: budgets count what they cost, instead of the most that they might have
 * until a day is over. One without a transaction is finished by the person's next request, and counts until then.
 * @returns how many
 */
export async function settleLeft(app: App, { chainId }: Pick<Chain, 'chainId'>): Promise<number> {
  const open = await retrying(() =>
    app.db
      .selectFrom('top_ups')
      .select(['account_id', 'ordinal'])
      .where('chain_id', '=', chainId)
      .where('settled_at', 'is', null)
      .where('created_at', '<', sql<Date>`now() - ${`${OWN_MINUTES} minutes`}::interval`)
      .orderBy('created_at', 'desc')
      .limit(ROUND)
      .execute(),
  )
  let settled = 0
  for (const { account_id: accountId, ordinal } of open) {
    const topUp = { chainId, accountId, ordinal }
    const used = await lastUse(app.db, scopeOf(topUp))
    if (used?.isTold !== true) continue
    const row = await retrying(
      () =>
      app.db.selectFrom('transactions').select([...topUpColumns, 'is_final']).where('id', '=', used.id).executeTakeFirst(), // prettier-ignore
    )
    // A reorganisation may still undo what is not final.
    if (row === undefined || !(row.is_final || row.state === 'FAILED')) continue
    await settleBy(app, topUp, row)
    settled++
  }
  return settled
}
