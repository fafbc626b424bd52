import type { App } from '../../app.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { claim, notSigned, part, vacate } from './bind.ts'
import { cancelGas, type UsedUp } from './cancel-gas.ts'
import { endIfDelegation } from './own-nonces.ts'
import { gasStrategy } from './gas.ts'
import type { Attempt, Bound } from '../intent.ts'
import { marketOf } from './market.ts'
import { reconcileBound } from './store.ts'
import { reconcileNonce } from '../recovery/reconcile.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { denialOf } from '../recovery/trouble.ts'
import { tellSigned } from './unsigned.ts'

/**
 * What came of asking the signer for bytes. `nonce_taken`: its ledger gave the nonce, or the intent's id, to something that
 * the database had lost; the database has it again.
 */
export type Signing = { kind: 'signed'; attempt: Attempt } | { kind: 'nonce_taken' }

const NONCE_TAKEN = { kind: 'nonce_taken' } as const

/**
 * The first bytes of an intent.
 * @param options.mayVacate  the nonce was bound by this very request: it is given free where nothing was signed for it
 * @throws what the signer throws; conflict
 */
export async function signFirst(
  app: App,
  chain: Chain,
  bound: Bound,
  { token, mayVacate }: { token: string; mayVacate: boolean },
): Promise<Signing> {
  try {
    const { raw, hash, stored } = await gasStrategy(chain).sign(app, bound, token)
    // Bound anew, and signed before: by a request that the database has lost. A random id was never asked for before.
    if (stored && mayVacate && bound.requestHash !== null && (await reconcileNonce(app, bound))) return NONCE_TAKEN
    return { kind: 'signed', attempt: { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false } }
  } catch (error) {
    if (isTaken(error)) return makeRoom(app, chain, bound, { mayVacate })
    if (!isRefused(error)) throw error
    if (mayVacate && (await isUnsigned(app, bound)) && (await vacate(app, bound.id))) tellSigned(app, chain, bound.from)
    throw error instanceof SignerRefused && error.code === 'nonce_gap' ? notSigned(error) : error
  }
}

/** A refusal of the ledger that says: nonce or intent have a signature that our tables do not know. */
export const isTaken = (error: unknown): boolean =>
  error instanceof SignerRefused &&
  ['nonce_conflict', 'intent_conflict', 'replacement_underpriced'].includes(error.code)

/** Certainly not signed. Else it may have been. */
const isRefused = (error: unknown): boolean =>
  error instanceof SignerRefused
    ? error.code !== 'ledger_damaged'
    : error instanceof AppError && error.code !== 'signer_unavailable'

/** The ledger's own word that it holds nothing for this intent. A ledger that cannot be asked proves nothing. */
async function isUnsigned({ signer, telemetry }: App, { id }: Bound): Promise<boolean> {
  try {
    return (await signer.recall({ intentId: id })).attempts.length === 0
  } catch (error) {
    telemetry.log.warn('recall_failed', { id }, error)
    return false
  }
}

/**
 * The ledger has another signature for this intent, or for this nonce another intent: what the database lost. It is
 * restored; the nonce is that one's then, and the intent is to be bound to another, or has its answer.
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
  // The intent is a sponsor's to send, and nothing was signed for the nonce.
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

/** Other bytes for the nonce of a transaction, or newer ones that the ledger holds. @throws what the signer throws; conflict */
export async function signReplacement(app: App, chain: Chain, bound: Bound, request: ReplaceRequest): Promise<Attempt> {
  try {
    const { raw, hash, kind } = await gasStrategy(chain).replace(app, bound, request)
    return { raw, hash, gas: request.gas, fees: request.fees, isCancel: kind === 'cancel' }
  } catch (error) {
    const isBehind =
      error instanceof SignerRefused && ['replacement_underpriced', 'nonce_conflict'].includes(error.code)
    if (!isBehind) throw error
    // The ledger holds a newer attempt than our tables: signed before a crash, or beside us by another replica.
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
 * The cancel that fills the nonce of an intent without bytes, at the market's fees: what a row says of fees is nobody's
 * offer until it is signed. Where the ledger has given the nonce to something that was told, or may have been, nothing of
 * ours outbids it.
 * @returns `has_bytes`: the intent has some by now; `denied`: the signer's rules deny it for now
 */
export async function signFill(
  app: App,
  chain: Chain,
  bound: Bound,
): Promise<Signing | { kind: 'has_bytes' } | { kind: 'denied'; error: unknown }> {
  // Where it is unknown what a cancel takes, the nonce stays open for the next round: better late than stuck.
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
