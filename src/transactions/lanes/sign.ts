import type { App } from '../../app.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { claim, notSigned, part, vacate } from './bind.ts'
import { cancelGas, type UsedUp } from './cancel-gas.ts'
import { endIfDelegation } from './own-nonces.ts'
import { gasStrategy, type SigningEvidence } from './gas.ts'
import type { Attempt, Bound } from '../intent.ts'
import { marketOf } from './market.ts'
import { reconcileBound } from './store.ts'
import { reconcileNonce } from '../recovery/reconcile.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { denialOf } from '../recovery/trouble.ts'
import { tellSigned } from './unsigned.ts'

/**
 * Outcome of asking the signer for bytes. `nonce_taken`: the ledger has another record for the nonce or for the
 * intent's id, which the database had lost; the record is restored.
 */
export type Signing = { kind: 'signed'; attempt: Attempt } | { kind: 'nonce_taken' }

const NONCE_TAKEN = { kind: 'nonce_taken' } as const

/**
 * Signs the first bytes of an intent.
 * @param options.mayVacate  this request bound the nonce, and vacates it if nothing was signed for it
 * @throws the errors of the signer; conflict
 */
export async function signFirst(
  app: App,
  chain: Chain,
  bound: Bound,
  { mayVacate, ...shown }: SigningEvidence & { mayVacate: boolean },
): Promise<Signing> {
  try {
    const { raw, hash, stored } = await gasStrategy(chain).sign(app, bound, shown)
    // The nonce is newly bound, but may already be signed for a request that the database has lost. An intent with a
    // random id was never signed before.
    if (stored && mayVacate && bound.requestHash !== null && (await reconcileNonce(app, bound))) return NONCE_TAKEN
    return { kind: 'signed', attempt: { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false } }
  } catch (error) {
    if (isTaken(error)) return makeRoom(app, chain, bound, { mayVacate })
    if (!isRefused(error)) throw error
    if (mayVacate && (await isUnsigned(app, bound)) && (await vacate(app, bound.id))) tellSigned(app, chain, bound.from)
    throw error instanceof SignerRefused && error.code === 'nonce_gap' ? notSigned(error) : error
  }
}

/** Returns whether the ledger refused because nonce or intent have a signature that the database does not know. */
export const isTaken = (error: unknown): boolean =>
  error instanceof SignerRefused &&
  ['nonce_conflict', 'intent_conflict', 'replacement_underpriced'].includes(error.code)

/** Returns whether certainly nothing was signed. */
const isRefused = (error: unknown): boolean =>
  error instanceof SignerRefused
    ? error.code !== 'ledger_damaged'
    : error instanceof AppError && error.code !== 'signer_unavailable'

/** Returns whether the ledger has no record of this intent. Returns false if the ledger cannot be read. */
async function isUnsigned({ signer, telemetry }: App, { id }: Bound): Promise<boolean> {
  try {
    return (await signer.recall({ intentId: id })).attempts.length === 0
  } catch (error) {
    telemetry.log.warn('ledger_lookup_failed', { id }, error)
    return false
  }
}

/**
 * Restores a record that the database has lost: the ledger has another signature for this intent, or has this nonce for
 * another intent. The nonce then belongs to that record. The intent is bound to another nonce, or already has its
 * response.
 */
async function makeRoom(
  app: App,
  chain: Chain,
  bound: Bound,
  { mayVacate }: { mayVacate: boolean },
): Promise<typeof NONCE_TAKEN> {
  const signed = await reconcileIntent(app, chain, bound.id)
  const isHeld = signed === 'transaction' || (await reconcileNonce(app, bound)) || (await endIfDelegation(app, bound))
  if (isHeld) return NONCE_TAKEN
  // A sponsor sends this intent as an operation, and nothing was signed for the nonce.
  if (signed === 'operation' && mayVacate && (await vacate(app, bound.id))) tellSigned(app, chain, bound.from)
  else await part(app, bound.id)
  return NONCE_TAKEN
}

export type ReplaceRequest = {
  kind: 'replace' | 'cancel'
  gas: bigint
  fees: Fees
  accessToken?: string
  usesUp?: UsedUp
}

/**
 * Signs a replacement of a transaction, or returns a newer attempt from the ledger.
 * @throws the errors of the signer; conflict
 */
export async function signReplacement(app: App, chain: Chain, bound: Bound, request: ReplaceRequest): Promise<Attempt> {
  try {
    const { raw, hash, kind } = await gasStrategy(chain).replace(app, bound, request)
    return { raw, hash, gas: request.gas, fees: request.fees, isCancel: kind === 'cancel' }
  } catch (error) {
    const isBehind =
      error instanceof SignerRefused && ['replacement_underpriced', 'nonce_conflict'].includes(error.code)
    if (!isBehind) throw error
    // The ledger has a newer attempt than the database: signed before a crash, or just now by another replica.
    const found = await reconcileBound(app, chain, bound)
    if (found === null) throw error
    if (request.kind === 'cancel' && !found.newest.isCancel) {
      throw new AppError(
        'conflict',
        'A fee bump of this transaction was signed at the same time. This request had no effect. Retry.',
        {
          cause: error,
          retryAfter: 1,
        },
      )
    }
    return found.newest
  }
}

/**
 * Signs the cancellation that fills the nonce of an intent without bytes. Uses the market's fees, because the fees in
 * the row were never signed. If the ledger has given the nonce to a record that a caller may know, nothing outbids that
 * record.
 * @returns `has_bytes`: the intent has bytes now; `denied`: the signer's rules do not allow it at present
 */
export async function signFill(
  app: App,
  chain: Chain,
  bound: Bound,
): Promise<Signing | { kind: 'has_bytes' } | { kind: 'denied'; error: unknown }> {
  // While the gas of a cancellation is unknown, leave the nonce open for the next round: a limit that is too low would
  // block the nonce permanently.
  const [gas, fees] = await Promise.all([cancelGas(chain, bound.from), marketOf(chain)])
  if (!(await claim(app.db, bound.id))) return { kind: 'has_bytes' }
  try {
    const { raw, hash } = await gasStrategy(chain).replace(app, bound, { kind: 'cancel', gas, fees })
    return { kind: 'signed', attempt: { raw, hash, gas, fees, isCancel: true } }
  } catch (error) {
    if (denialOf(error) !== null) return { kind: 'denied', error }
    if (!isTaken(error)) throw error
    if (!(await reconcileNonce(app, bound))) await endIfDelegation(app, bound)
    return NONCE_TAKEN
  }
}
