import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { gasChoiceOf, type Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import { fromHex } from '../../hex.ts'
import { nobodysNonce, transactionRows } from '../rows.ts'
import { delegationNonce } from '../sponsors/delegation.ts'
import type { Bound } from '../intent.ts'

/**
 * What an account sends itself and the nonce by which it delegates do not mix: the chain takes an authorization at exactly its nonce, and the
 * signer signs nothing else for that. Both may be open where a network's gas was another before, or where accounts send writes to some contracts
 * themselves.
 */

/**
 * Whether a sponsor carries the next write of an account. One that owes its delegation sends nothing itself before that is done; on networks
 * where sponsors carry, that is waited for (bring-delegation.ts).
 * @param to  what it calls, in lower case
 * @throws chain_unavailable, chain_timeout, database_unavailable
 */
export async function isCarried(app: App, chain: Chain, account: Hex, to: Hex): Promise<boolean> {
  if (chain.gas === 'sponsor') return gasChoiceOf(chain, to) === 'sponsor'
  return owesDelegation(app, chain, account)
}

/**
 * Whether the account signed an authorization that no block has: what it sends itself would wait behind that for good, so its next write is
 * carried, and that with it. Above the account's next nonce, too: a reorganisation has returned a write below it. Asks the node only where there
 * is one.
 * @throws sponsor_empty  where the network has no space any more in which it could be
 * @throws chain_unavailable, chain_timeout, database_unavailable
 */
export async function owesDelegation(app: App, chain: Chain, account: Hex): Promise<boolean> {
  const { db } = app
  if (!(await hasDelegating(app, chain))) return false
  const signed = await db
    .selectFrom('operations')
    .select('authorization_nonce as nonce')
    .distinct()
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(account))
    .where('authorization_nonce', 'is not', null)
    .execute()
  if (signed.length === 0) return false
  const next = await delegationNonce(chain, account)
  if (next === null || !signed.some(({ nonce }) => nonce! >= next)) return false
  if (chain.gasSpace === undefined || chain.gasSpace === null) throw spaceless(chain)
  return true
}

/** milliseconds for which a network without an authorization is believed to have none: another process may bring the first */
const BELIEVED_MS = 5_000

/**
 * Whether any account of a network signed an authorization; once one has, it is not asked again. Without this, each write that an account sends
 * itself has a statement more where no sponsor ever was. In the seconds in which the first one is missed the signer still refuses the nonce to
 * anything else.
 */
async function hasDelegating({ db, clock }: App, chain: Chain): Promise<boolean> {
  const known = delegating.of(chain)
  if (known.isThere || clock.ticks() < known.until) return known.isThere
  const { rows } = await sql`select 1 where exists (select 1 from operations where chain_id = ${chain.chainId}::int8 and authorization_nonce is not null)`.execute(db) // prettier-ignore
  known.isThere = rows.length > 0
  known.until = clock.ticks() + BELIEVED_MS
  return known.isThere
}

/** That an account of the network is about to sign one. */
export const noteDelegating = (chain: Chain): void => void (delegating.of(chain).isThere = true)

const delegating = slot('networks in which an account signed an authorization', (_chain: Chain) => ({
  isThere: false,
  until: Number.NEGATIVE_INFINITY,
}))

/** What it sent itself would wait behind that nonce for good. */
const spaceless = ({ name }: Chain): AppError =>
  new AppError('sponsor_empty', `This account signed a delegation that is in no block: a sponsor has to carry its next write, and the network has no space for sponsors any more. The operator can set it again: chatelaine network set ${name} --gas-space.`, { retryAfter: 3_600 }) // prettier-ignore

/**
 * An account delegates by its next nonce: none that a write of its own has, which is not mined yet. Where the ledger has the authorization for that
 * nonce already, it is the other way round: what the account sent itself waits for the delegation, after a reorganisation undid it.
 * @param next  by which it would delegate
 * @throws conflict, signer_unavailable, database_unavailable
 */
export async function refuseBehindOwn(
  { db, signer }: App,
  { chainId }: Chain,
  account: Hex,
  next: number,
): Promise<void> {
  const own = await db
    .selectFrom('transactions')
    .select('state')
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(account))
    .where('nonce', '>=', next)
    .where('state', 'in', ['BOUND', 'SUBMITTED'])
    .limit(1)
    .executeTakeFirst()
  if (own === undefined) return
  const { authorization } = await signer.recall({ chainId, from: account, nonce: next })
  if (authorization === undefined)
    throw new AppError('conflict', 'A write that the account sends itself is not mined yet; sponsors carry its next ones once it is. Retry.', { retryAfter: 5 }) // prettier-ignore
}

/**
 * Ends the row of a nonce that an authorization of the account has: nothing is signed for it here, and that it is used says nothing of who holds
 * the key. What was bound to it is bound to another.
 * @returns whether it is such a one
 * @throws signer_unavailable, database_unavailable
 */
export async function endIfDelegation(
  { db, signer, clock }: App,
  { id, chainId, from, nonce }: Bound,
): Promise<boolean> {
  const { authorization } = await signer.recall({ chainId, from, nonce })
  if (authorization === undefined) return false
  await transactionRows
    .update(db, 'useToDelegate', { at: new Date(clock.wall()).toISOString() })
    .set({ ...nobodysNonce(), updated_at: sql`now()` })
    .where('id', '=', id)
    .where('nonce', '=', nonce)
    .execute()
  return true
}
