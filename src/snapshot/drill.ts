import type { KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isAttested } from '../http/proven-address.ts'
import { readVerifierKey, type Verifier } from '../signer-wire/verifier.ts'
import { toHex } from '../hex.ts'
import type { CopySession } from '../store/copy.ts'
import { BackupError } from './fault.ts'
import { restoreDatabase, type RestoredSnapshot } from './restore.ts'
import { findDangling } from './tables.ts'
import { systemClock } from '../clock.ts'

/** Results of inspecting a restored database. */
export type SnapshotFindings = {
  accounts: number
  /** accounts whose address the signer's identity signed; null: the identity is unknown */
  attested: number | null
  /** users whose address the signer's identity did not sign, although it has a signature */
  false: string[]
  /** accounts whose address has no signature */
  notAttested: number
  /**
   * users without a copy of their wrapped key: if the signer loses its disk, it cannot recover their keys from this
   * backup
   */
  withoutKey: string[]
  dangling: { place: string; rows: number }[]
}

export type SnapshotDrill = RestoredSnapshot & SnapshotFindings & { seconds: number }

/**
 * Restores a backup into a temporary embedded database and inspects it, as a restore after a disaster would.
 * @param within    folder with enough disk space for the database
 * @param verifier  SIGNER_KEY; undefined: use the key in the database, which the backup itself contains
 * @throws BackupError, AgeError, ArchiveError
 */
export async function drillBackup({
  file,
  identities,
  within,
  verifier,
}: {
  file: string
  identities: KeyObject[]
  within: string
  verifier: string | undefined
}): Promise<SnapshotDrill> {
  const began = systemClock.ticks()
  const folder = mkdtempSync(join(within, 'chatelaine-drill-'))
  const clear = () => rmSync(folder, { recursive: true, force: true })
  // Delete the folder even if the process exits in the middle.
  process.once('exit', clear)
  try {
    const place = { dir: join(folder, 'db') }
    const { seen, ...restored } = await restoreDatabase(place, { file, identities, folder: null }, (session) =>
      inspect(session, verifier),
    )
    return { ...restored, ...seen, seconds: (systemClock.ticks() - began) / 1_000 }
  } finally {
    process.off('exit', clear)
    clear()
  }
}

/**
 * Inspects a restored database.
 * @param verifier  as in `drillBackup`
 */
export async function inspect(session: CopySession, verifier: string | undefined): Promise<SnapshotFindings> {
  return {
    ...(await lookAtAddresses(session, verifier)),
    withoutKey: await findWithoutKey(session),
    dangling: await findDangling(session),
  }
}

/**
 * Returns whether an installation is complete. If the operator gave SIGNER_KEY, an address that could not be checked
 * counts as missing.
 */
export function isWhole(found: SnapshotFindings, verifier: string | undefined): boolean {
  const hasAll = found.false.length === 0 && found.dangling.length === 0 && found.withoutKey.length === 0
  return hasAll && (verifier === undefined || countUnchecked(found) === 0)
}

/** Counts the addresses that could not be checked against the signer's identity. */
export const countUnchecked = ({ accounts, attested, notAttested }: SnapshotFindings): number =>
  attested === null ? accounts : notAttested

const PAGE = 1_000
type AddressRow = { account_id: string; user_id: string; address: Uint8Array; attestation: Uint8Array | null }

async function lookAtAddresses(
  { query }: CopySession,
  verifier: string | undefined,
): Promise<Pick<SnapshotFindings, 'accounts' | 'attested' | 'false' | 'notAttested'>> {
  const [kept] = await query<{ key: string | null }>('select key from signing_log_head')
  const identity = identityOf(verifier ?? kept?.key ?? null)
  let [accounts, attested, notAttested] = [0, 0, 0]
  const wrong: string[] = []
  for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
    const rows = await query<AddressRow>(
      'select account_id, user_id, address, attestation from accounts where account_id > $1 order by account_id limit $2',
      [after, PAGE],
    )
    for (const { user_id: userId, address, attestation } of rows) {
      accounts++
      if (attestation === null) notAttested++
      else if (identity === null) continue
      else if (isAttested(identity, { userId, address: toHex(address), attestation })) attested++
      else wrong.push(userId)
    }
    if (rows.length < PAGE)
      return { accounts, attested: identity === null ? null : attested, false: wrong, notAttested }
    after = rows.at(-1)!.account_id
  }
}

function identityOf(text: string | null): Verifier | null {
  if (text === null) return null
  const read = readVerifierKey(text)
  if (read === null) throw new BackupError('SIGNER_KEY, or the key in the database, is not a verifier key.')
  return read
}

async function findWithoutKey({ query }: CopySession): Promise<string[]> {
  const rows = await query<{ user_id: string }>(
    `select user_id from accounts a where not exists (select from wrapped_keys k where k.user_id = a.user_id and k.address = a.address)
     order by user_id`,
  )
  return rows.map(({ user_id: userId }) => userId)
}
