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
 * An account's own transactions and its delegations share nonces: the chain accepts an authorization only at exactly
 * its nonce, and the signer signs nothing else for that nonce. An account may have both open if its network's gas mode
 * was changed, or if accounts send writes to some contracts themselves.
 */

/**
 * Returns whether a sponsor sends the next write of an account. An account with an unmined delegation sends no
 * transactions itself. On networks with gas mode `sponsor`, writes that the account sends itself wait for the
 * delegation (bring-delegation.ts).
 * @param to  called address, in lower case
 * @throws chain_unavailable, chain_timeout, database_unavailable
 */
export async function isCarried(app: App, chain: Chain, account: Hex, to: Hex): Promise<boolean> {
  if (chain.gas === 'sponsor') return gasChoiceOf(chain, to) === 'sponsor'
  return owesDelegation(app, chain, account)
}

/**
 * Returns whether the account signed an authorization that is in no block. Its own transactions would wait behind that
 * nonce permanently, so a sponsor sends the next write together with the authorization.
 * Authorizations above the account's next nonce count as well: a reorganisation may have returned a write below them.
 * The node is asked only if an authorization exists.
 * @throws sponsor_empty  if the network no longer has a space for operations
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

/**
 * milliseconds for which the answer "no account has signed an authorization" is reused; another process may bind the
 * first one
 */
const BELIEVED_MS = 5_000

/**
 * Returns whether any account of a network signed an authorization. Once one has, the database is not asked again.
 * Without this check, every write that an account sends itself would need one more statement on networks without
 * sponsors. If the first authorization is missed for seconds, the signer still refuses to sign anything else for its
 * nonce.
 */
async function hasDelegating({ db, clock }: App, chain: Chain): Promise<boolean> {
  const known = delegating.of(chain)
  if (known.isThere || clock.ticks() < known.until) return known.isThere
  const { rows } = await sql`select 1 where exists (select 1 from operations where chain_id = ${chain.chainId}::int8 and authorization_nonce is not null)`.execute(db) // prettier-ignore
  known.isThere = rows.length > 0
  known.until = clock.ticks() + BELIEVED_MS
  return known.isThere
}

/** Notes that an account of the network is about to sign an authorization. */
export const noteDelegating = (chain: Chain): void => void (delegating.of(chain).isThere = true)

const delegating = slot('networks in which an account signed an authorization', (_chain: Chain) => ({
  isThere: false,
  until: Number.NEGATIVE_INFINITY,
}))

/** Error for a network without a space: without a sponsor, the account's own transactions would wait permanently. */
const spaceless = ({ name }: Chain): AppError =>
  new AppError('sponsor_empty', `This account signed a delegation that is not mined, so a sponsor must send its next write. The network has no gas space for sponsors. Nothing was sent. The operator can set the gas space: \`chatelaine network set ${name} --gas-space\`.`, { retryAfter: 3_600 }) // prettier-ignore

/**
 * Rejects a delegation while an own write of the account at or above that nonce is not mined. Accepts it if the ledger
 * already has an authorization for the nonce: then the write waits for that delegation, which a reorganisation undid.
 * @param next  nonce of the authorization
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
    throw new AppError('conflict', 'A user-paid write of this account is not mined yet. Sponsors can send writes of the account after that. Nothing was sent. Retry.', { retryAfter: 5 }) // prettier-ignore
}

/**
 * Ends a row whose nonce belongs to an authorization of the account. Nothing is signed for this row, and its intent is
 * bound to another nonce. The used nonce does not mean that someone else holds the key.
 * @returns whether the nonce belongs to an authorization
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
