import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Attempt, Bound } from '../intent.ts'
import { toAttempt } from './recalled.ts'
import { ledgerAttempts, reconcileNonce, type NonceSlot } from './reconcile.ts'
import { storeFill, storeFirst, storeReplacement } from '../lanes/store.ts'

/**
 * Stores whatever the signer's ledger holds for an intent and our tables may lack: bytes that were signed before a
 * crash, or beside us. Safe to repeat, and beside anyone who is storing the same.
 * @returns the oldest and the newest attempt; null when it signed none, and when it signed the intent under another nonce:
 *          then that row is taken in, and this one has lost its intent
 * @throws signer_unavailable, database_unavailable
 */
export async function adopt(app: App, chain: Chain, bound: Bound): Promise<{ first: Attempt; newest: Attempt } | null> {
  const attempts = await ledgerAttempts(app, { intentId: bound.id })
  const [signed] = attempts
  if (signed !== undefined && !isAt(signed, bound)) {
    await reconcileNonce(app, signed)
    return null
  }
  const [first, ...later] = attempts.map(toAttempt).toReversed()
  if (first === undefined) return null
  await (first.isCancel ? storeFill : storeFirst)(app, chain, bound, first)
  for (const attempt of later) await storeReplacement(app, chain, bound, attempt)
  return { first, newest: later.at(-1) ?? first }
}

const isAt = ({ chainId, from, nonce }: NonceSlot, bound: NonceSlot): boolean =>
  chainId === bound.chainId && from === bound.from && nonce === bound.nonce
