import type { DatabaseSync } from 'node:sqlite'

/*
 * Hashes, MACs and the tree are over the table of the ledger; who asks for a nonce, an intent or a person goes by an index. Who can write the
 * file can make one that lacks a record and has the text that it should: the record is whole then, and not found.
 */

/** What a record is found by in each index of the ledger, and which records are in it. */
const INDEXES: Record<string, { columns: string[]; holds: string }> = {
  ledger_nonce: { columns: ['address', 'chain_id', 'nonce'], holds: 'nonce IS NOT NULL' },
  ledger_operation: { columns: ['effect', 'chain_id'], holds: `kind = 'operation'` },
  ledger_intent: { columns: ['intent_id'], holds: 'intent_id IS NOT NULL' },
  ledger_account: { columns: ['user_id'], holds: `kind = 'account'` },
  ledger_restore: { columns: [], holds: `kind = 'restore'` },
  ledger_export: { columns: ['user_id'], holds: `kind IN ('export-request', 'export-cancel', 'export')` },
  ledger_signatures: { columns: ['user_id'], holds: 'intent_id IS NOT NULL' },
}

/** The first record above a number that an index does not lead to; null where there is none. */
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

/** What in the file does not fit together, tables and their indexes among it; null where all does. Reads all of it: 8 µs a record. */
export function fileFault(db: DatabaseSync): string | null {
  const [first] = db.prepare('PRAGMA integrity_check(1)').all() as { integrity_check: string }[]
  const said = first?.integrity_check ?? 'nothing'
  return said === 'ok' ? null : `The file of the store does not fit together: ${said}.`
}
