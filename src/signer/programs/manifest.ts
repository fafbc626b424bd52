import { createHash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { readHead } from '../ledger/ledger.ts'
import { originOf } from '../../signer-wire/verifier.ts'

/** The description of a backup of the signer's store. It is in the archive, and beside it for readers without the key. */
export type Manifest = {
  format: typeof FORMAT
  version: typeof VERSION
  /** ISO 8601: when the copy started */
  at: string
  accounts: number
  records: number
  /** hash of the last record, hexadecimal digits */
  record: string
  /** SHA-256 of all addresses in ascending order, 20 bytes each, hexadecimal digits */
  addresses: string
  /** the signer's identity, and its newest signed head; null in a store that no signer has opened yet */
  identity: string | null
  head: string | null
}

export const MANIFEST_FILE = 'manifest.json'
const FORMAT = 'chatelaine signer backup'
const VERSION = 1

/** Describes a store that no other process writes to, or inside a transaction. @throws LedgerDamaged */
export function manifestOf(db: DatabaseSync, at: number): Manifest {
  const { count, record } = readHead(db)
  const digest = createHash('sha256')
  let accounts = 0
  for (const { address } of db.prepare('SELECT address FROM accounts ORDER BY address').iterate() as Iterable<{
    address: Uint8Array
  }>) {
    // prettier-ignore
    digest.update(address)
    accounts += 1
  }
  return {
    format: FORMAT,
    version: VERSION,
    at: new Date(at).toISOString(),
    accounts,
    records: count,
    record: record.toString('hex'),
    addresses: digest.digest('hex'),
    ...signedBy(db),
  }
}

function signedBy(db: DatabaseSync): Pick<Manifest, 'identity' | 'head'> {
  const identity = db.prepare('SELECT public FROM identity').get() as { public: Uint8Array } | undefined
  const newest = db.prepare(`SELECT note FROM heads WHERE which = 'newest'`).get() as { note: string } | undefined
  return { identity: identity === undefined ? null : originOf(identity.public), head: newest?.note ?? null }
}

/** Parses a manifest; null if it is invalid or of another version. */
export function readManifest(text: string): Manifest | null {
  try {
    const manifest = JSON.parse(text) as Manifest | null
    return manifest?.format === FORMAT && manifest.version === VERSION ? manifest : null
  } catch {
    return null
  }
}

/** Lists the fields in which a store differs from its manifest. */
export function differences(said: Manifest, found: Manifest): string[] {
  const keys = ['accounts', 'records', 'record', 'addresses', 'identity', 'head'] as const
  return keys.filter((key) => said[key] !== found[key])
}
