import type { DatabaseSync } from 'node:sqlite'

/**
 * Hashes, MACs and the tree protect the ledger's table, but searches for a nonce, an intent or a user use an index. An
 * attacker who can write the file can create an index with the right definition that lacks a record. The record is then
 * intact, but searches do not find it.
 */

/** Each index of the ledger: its columns, and which records it contains. */
const INDEXES: Record<string, { columns: string[]; holds: string }> = {
  ledger_nonce: { columns: ['address', 'chain_id', 'nonce'], holds: 'nonce IS NOT NULL' },
  ledger_operation: { columns: ['effect', 'chain_id'], holds: `kind = 'operation'` },
  ledger_message: { columns: ['intent_id'], holds: `kind = 'message'` },
  ledger_intent: { columns: ['intent_id'], holds: 'intent_id IS NOT NULL' },
  ledger_account: { columns: ['user_id'], holds: `kind = 'account'` },
  ledger_restore: { columns: [], holds: `kind = 'restore'` },
  ledger_export: { columns: ['user_id'], holds: `kind IN ('export-request', 'export-cancel', 'export')` },
  ledger_signatures: { columns: ['user_id'], holds: 'intent_id IS NOT NULL' },
}

/** Finds the first record above a number that an index lacks; null if there is none. */
export function hiddenRecord(db: DatabaseSync, above: number): number | null {
  for (const [index, { columns, holds }] of Object.entries(INDEXES)) {
    const found = [...columns, 'seq'].map((column) => `inside.${column} = row.${column}`).join(' AND ')
    const of = (alias: string) => holds.replace(/^\w+/, (column) => `${alias}.${column}`)
    const sql = `SELECT min(seq) AS seq FROM ledger AS row NOT INDEXED WHERE seq > ? AND ${of('row')}
      AND NOT EXISTS (SELECT 1 FROM ledger AS inside INDEXED BY ${index} WHERE ${found} AND ${of('inside')})`
    const { seq } = db.prepare(sql).get(above) as { seq: number | null }
    if (seq !== null) return seq
  }
  return null
}

/**
 * Runs SQLite's integrity check on the file, including tables against their indexes; null if it passes. Reads the whole
 * file: 8 µs per record.
 */
export function fileFault(db: DatabaseSync): string | null {
  const [first] = db.prepare('PRAGMA integrity_check(1)').all() as { integrity_check: string }[]
  const said = first?.integrity_check ?? 'nothing'
  return said === 'ok' ? null : `The file of the store does not fit together: ${said}.`
}
