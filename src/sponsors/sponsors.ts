/**
 * sponsors: the operator's accounts that pay for users' gas.
 * Owns: which sponsors a network has, creating one, which of them have a low balance.
 * Does not own: what a sponsor may pay (the signer and `transactions/`), budgets of applications (`applications/`), the rows
 *   of accounts (`users/`).
 * Start with `create.ts`.
 * Tables: low_sponsors, sponsors.
 */

import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'

/** An account of the signer with the user id `SPONSOR-<name>`, in its role on one network; address in lower case. */
export type Sponsor = { accountId: string; chainId: number; name: string; address: Hex }

/** Returns the sponsors of a network by name, without frozen ones. */
export async function sponsorsOf(db: Db, chainId: number): Promise<Sponsor[]> {
  const rows = await db
    .selectFrom('sponsors as sponsor')
    .innerJoin('accounts as account', 'account.account_id', 'sponsor.account_id')
    .select(['sponsor.account_id', 'sponsor.chain_id', 'sponsor.name', 'account.address'])
    .where('sponsor.chain_id', '=', chainId)
    .where('account.frozen_at', 'is', null)
    .orderBy('sponsor.name')
    .execute()
  return rows.map((row) => ({
    accountId: row.account_id,
    chainId: row.chain_id,
    name: row.name,
    address: toHex(row.address),
  }))
}

/**
 * Logs which networks need a sponsor and have none. They are served, and users with enough funds of their own can
 * write.
 */
export async function tellMissingSponsors({
  db,
  chains,
  telemetry,
}: Pick<App, 'db' | 'chains' | 'telemetry'>): Promise<void> {
  for (const { chainId, name, gas } of chains.values())
    if (gas !== 'self' && (await sponsorsOf(db, chainId)).length === 0)
      telemetry.log.warn('network_without_sponsor', { chainId, network: name })
}
