import type { DatabaseSync } from 'node:sqlite'
import { openOwnRecords } from '../ledger/ledger.ts'
import type { Macs } from '../ledger/macs.ts'
import { readPolicyVersion, type PolicyVersion } from '../policy/accept.ts'
import { PolicyInvalid } from '../policy/json.ts'
import type { LedgerRow } from '../ledger/record.ts'

/** Number of newest records that a start searches for the latest policy; `verify` searches all records. */
export const LOOKED_AT = 100_000

/**
 * Compares the policy in force with the policy that decided the ledger's latest record. So an attacker who can write
 * the folder but lacks the master key cannot replace, change or remove the policy unnoticed.
 * @param most  how many of the newest records to search
 * @param macs  verifies the record that names the policy, for a ledger that was not verified that far back; null: no
 *   check. If an attacker removed the policy name from a record, the search finds an earlier record.
 * @returns a sentence for the operator about the problem; null if there is none
 * @throws LedgerDamaged  if this signer did not write that record
 */
export function policyFault(
  db: DatabaseSync,
  inForce: (Pick<PolicyVersion, 'hash'> & { document: { version: number } }) | null,
  { most, macs }: { most: number; macs: Macs | null } = { most: Number.MAX_SAFE_INTEGER, macs: null },
): string | null {
  const row = db
    .prepare(
      'SELECT * FROM ledger WHERE policy IS NOT NULL AND seq > (SELECT max(seq) FROM ledger) - ? ORDER BY seq DESC LIMIT 1',
    )
    .get(most) as (LedgerRow & { policy: string }) | undefined
  if (row === undefined) return null
  if (macs !== null) openOwnRecords(db, macs)(row)
  const [version = '', hash] = row.policy.split(' ')
  const said = `the ledger's records were decided by version ${version}, ${hash}`
  if (inForce === null) return `The policy that was kept is gone: ${said}.`
  if (inForce.document.version < Number(version))
    return `The policy that was kept, version ${inForce.document.version}, is older: ${said}.`
  if (inForce.document.version === Number(version) && inForce.hash !== hash)
    return `The policy that was kept was changed: ${said}, and it is ${inForce.hash}.`
  return null
}

/** Compares the policies like `policyFault`, for a store that is opened read-only. */
export function verifyKeptPolicy(db: DatabaseSync): string[] {
  const kept = db.prepare('SELECT document FROM policy').get() as { document: string } | undefined
  try {
    const fault = policyFault(db, kept === undefined ? null : readPolicyVersion(kept.document))
    return fault === null ? [] : [fault]
  } catch (error) {
    if (!(error instanceof PolicyInvalid)) throw error
    return [`The policy that was kept cannot be read: ${error.message}.`]
  }
}
