import type { DatabaseSync } from 'node:sqlite'
import { openDeks, unwrapDeks, type Deks, type OpenDeks } from '../keys/deks.ts'
import { openHeads, type Heads } from './heads.ts'
import { openIdentity, type SignerIdentity } from '../keys/identity.ts'
import type { Kek } from '../kek/provider.ts'
import { openUnwitnessed, type Ledger } from './ledger.ts'

/** The ledger and its proofs: MACs, tree and signed heads. */
export type SigningLog = { deks: Deks; ledger: Ledger; identity: SignerIdentity; heads: Heads }

/**
 * Opens the ledger and its proofs, and creates missing parts of a new store in one transaction. Does not check the
 * witness or the shown heads, so that a command can accept an older copy. The caller holds the store's lock, so no
 * other process writes to it.
 * @throws StartError     if the master key is not the one of this store, or is unavailable
 * @throws LedgerDamaged  if the end of the ledger is broken, if this signer did not write it, or if it differs from
 *   its newest head
 */
export async function openSigningLog(
  db: DatabaseSync,
  kek: Kek,
  now: () => number,
  keysPerEpoch?: number,
): Promise<SigningLog> {
  return openUnwrapped(db, await unwrapDeks(db, kek), now, keysPerEpoch)
}

/** Opens the ledger and its proofs like `openSigningLog`, with unwrapped data keys. @throws LedgerDamaged */
export function openUnwrapped(
  db: DatabaseSync,
  unwrapped: OpenDeks,
  now: () => number,
  keysPerEpoch?: number,
): SigningLog {
  db.exec('BEGIN IMMEDIATE')
  try {
    const deks = openDeks({ db, unwrapped, now, ...(keysPerEpoch === undefined ? {} : { keysPerEpoch }) })
    const identity = openIdentity(db, deks)
    const ledger = openUnwitnessed(db, deks.macs)
    const heads = openHeads({ db, tree: ledger.tree, identity, overruled: ledger.overruled, now })
    db.exec('COMMIT')
    return { deks, identity, ledger, heads }
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}
