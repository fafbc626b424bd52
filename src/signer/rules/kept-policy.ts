import type { DatabaseSync } from 'node:sqlite'
import { openOwnRecords } from '../ledger/ledger.ts'
import type { Macs } from '../ledger/macs.ts'
import { readPolicyVersion, type PolicyVersion } from '../policy/accept.ts'
import { PolicyInvalid } from '../policy/json.ts'
import type { LedgerRow } from '../ledger/record.ts'

/** Records that a start looks back over for the policy that decided last; `verify` looks over all of them. */
export const LOOKED_AT = 100_000

/**
 * Whether the policy in force is at least the one by which the ledger's records were decided last. Who can write the
 * folder and lacks the master key cannot put an older one there, change that one, or remove it, and not be found.
 * @param most  records from the end that are looked at
 * @param macs  where the ledger was not checked as far: check the record that names the policy. One from which the name was taken
 *              away is not found so, and the one before it is asked
 * @returns what is wrong, for people; null where nothing is
 * @throws LedgerDamaged  when that record is not as this signer wrote it
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

/** The same of a store that is only looked at. */
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
