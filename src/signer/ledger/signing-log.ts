import type { DatabaseSync } from 'node:sqlite'
import { openDeks, unwrapDeks, type Deks, type OpenDeks } from '../keys/deks.ts'
import { openHeads, type Heads } from './heads.ts'
import { openIdentity, type SignerIdentity } from '../keys/identity.ts'
import type { Kek } from '../kek/provider.ts'
import { openUnwitnessed, type Ledger } from './ledger.ts'

/** The ledger with what proves it: its MACs, its tree and the signed heads of that. */
export type SigningLog = { deks: Deks; ledger: Ledger; identity: SignerIdentity; heads: Heads }

/**
 * Opens all of it, and makes in one transaction what a new store lacks.
 * Does not look at the witness, nor whether the ledger continues the heads that were shown: an older copy is to be accepted so.
 * Nobody else may write to the store meanwhile: its lock is held.
 * @throws StartError     when the master key is not the one that this store was made with, or is not to be had
 * @throws LedgerDamaged  when the end of the ledger is broken, not by this signer, or not where its newest head says
 */
export async function openSigningLog(
  db: DatabaseSync,
  kek: Kek,
  now: () => number,
  keysPerEpoch?: number,
): Promise<SigningLog> {
  return openUnwrapped(db, await unwrapDeks(db, kek), now, keysPerEpoch)
}

/** The same with data keys that are open. */
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
