import { transactionIdOf } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import { readRaw } from '../../follower/transaction.ts'
import { restoreTopUp } from '../sponsors/gas-budget.ts'
import { scopeOf } from '../settle/settle-top-ups.ts'
import type { Recalled } from '../../signer-wire/wire.ts'

/** top-ups of one user that a database may have lost; each costs a hash to find */
const MAX_LOST = 256

/**
 * Counts a sponsor's transfer that the database had lost in the budgets of its user, if the transfer's id is that of
 * one of the user's top-ups. Inside a transaction, after the transfer's row was restored.
 * @param first  first ledger record of its nonce
 */
export async function reconcileTopUp(db: Db, chainId: number, first: Recalled): Promise<void> {
  const { to, data } = readRaw(fromHex(first.raw))
  if (first.kind !== 'send' || first.clientId === null || to === null || data.length > 0) return
  const person = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('address', '=', fromHex(to))
    .executeTakeFirst()
  if (person === undefined) return
  const of = { chainId, accountId: person.account_id }
  const newest = await db
    .selectFrom('top_ups')
    .select('ordinal')
    .where('chain_id', '=', chainId)
    .where('account_id', '=', of.accountId)
    .orderBy('ordinal', 'desc')
    .limit(1)
    .executeTakeFirst()
  const end = (newest?.ordinal ?? -1) + 1 + MAX_LOST
  for (let ordinal = end - 1; ordinal >= 0; ordinal--)
    if (transactionIdOf(scopeOf({ ...of, ordinal }), 0) === first.intentId)
      return restoreTopUp(db, { ...of, ordinal, clientId: first.clientId }, first.intentId)
}
