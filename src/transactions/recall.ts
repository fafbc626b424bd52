import type { App } from '../app.ts'
import type { Fees } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import type { Recalled } from '../signer/wire.ts'
import type { Bound } from './intent.ts'
import { storeFill, storeFirst, storeReplacement, type Attempt } from './store.ts'

/**
 * Stores whatever the signer's ledger holds for an intent and our tables may lack: bytes that were signed before a
 * crash, or beside us. Safe to repeat, and beside whoever is storing the same.
 * @returns the oldest and the newest attempt, or null when it signed none
 * @throws signer_unavailable, database_unavailable
 */
export async function adopt(app: App, chain: Chain, bound: Bound): Promise<{ first: Attempt; newest: Attempt } | null> {
  const { attempts } = await app.signer.recall({ intentId: bound.id })
  const [first, ...later] = attempts.map(readRecalled).toReversed()
  if (first === undefined) return null
  await (first.isCancel ? storeFill : storeFirst)(app, chain, bound, first)
  for (const attempt of later) await storeReplacement(app, chain, bound, attempt)
  return { first, newest: later.at(-1) ?? first }
}

export function readRecalled(recalled: Recalled): Attempt {
  const { raw, hash, gas, kind } = recalled
  return { raw, hash, gas: BigInt(gas), fees: readFees(recalled), isCancel: kind === 'cancel' }
}

function readFees({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }: Recalled): Fees {
  if (gasPrice !== undefined) return { type: 'legacy', gasPrice: BigInt(gasPrice) }
  return { type: 'eip1559', maxFeePerGas: BigInt(maxFeePerGas!), maxPriorityFeePerGas: BigInt(maxPriorityFeePerGas!) }
}
