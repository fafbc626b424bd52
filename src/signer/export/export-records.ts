import type { DatabaseSync } from 'node:sqlite'
import { IMPORTED, openOwnRecords, TOLD } from '../ledger/ledger.ts'
import type { Macs } from '../ledger/macs.ts'
import type { LedgerRow } from '../ledger/record.ts'

/**
 * A record of the ledger about the export of a key. `readyAt` is set for requests, `recipient` for exported keys; `at` and
 * `readyAt` are milliseconds since 1970.
 */
export type ExportRecord = {
  seq: number
  userId: string
  /** the hash of the record */
  record: Buffer
  kind: 'export-request' | 'export-cancel' | 'export'
  at: number
  address: Buffer
  /** null: the record of the request that this one ended could not be read */
  request: string | null
  readyAt: number
  recipient: string | null
}

/** The export records of the ledger. Each record that counts is verified by its hash and MAC. */
export type ExportRecords = {
  /** the user's newest record; null if there is none. @throws LedgerDamaged */
  newest: (userId: string) => ExportRecord | null
  /** the user's last exported key. @throws LedgerDamaged */
  exported: (userId: string) => ExportRecord | null
  /** tells whether a record of the user used this token */
  isUsed: (userId: string, jti: string) => boolean
  /** exported and imported keys among the next `within` records, oldest first; `head`: the newest record number */
  since: (seq: number, some: { within: number; most: number }) => { left: LeftKey[]; head: number }
  /** users whose newest record is a request, expired or not, oldest first */
  open: () => string[]
}

type LeftKey = { seq: number; userId: string; at: number; address: Buffer; isBrought: boolean }

const KINDS = `('export-request', 'export-cancel', 'export')`

const IS_TOLD = `(rule IN ('${TOLD.exported}', '${TOLD.imported}'))`

/** Returns whether a record starts or ends a user's request. */
const isExportStep = ({ kind, rule }: Pick<LedgerRow, 'kind' | 'rule'>): boolean =>
  (kind === 'export-request' || kind === 'export-cancel' || kind === 'export') &&
  rule !== TOLD.exported &&
  rule !== TOLD.imported

/** The user id in the record of a freeze of a network or of everything, which ends all requests. No user has this id. */
export const EVERYONE = ''

/**
 * Returns whether a record ends an earlier request of a user. A restore ends all requests, because an older copy does not know which
 * were cancelled.
 */
export const endsRequest = (row: Pick<LedgerRow, 'kind' | 'rule' | 'user_id'>, userId: string): boolean =>
  row.kind === 'restore' || (isExportStep(row) && (row.user_id === userId || row.user_id === EVERYONE))

/** Opens the export records of a store. */
export function openExportRecords(db: DatabaseSync, macs: Macs): ExportRecords {
  // Records from statements (elsewhere.ts) are not steps of a request.
  const newest = db.prepare(
    `SELECT * FROM ledger WHERE user_id = ? AND kind IN ${KINDS} AND NOT ${IS_TOLD} ORDER BY seq DESC LIMIT 1`,
  )
  const exported = db.prepare(
    `SELECT * FROM ledger WHERE user_id = ? AND kind IN ${KINDS} AND kind = 'export'
      AND rule <> '${TOLD.imported}' ORDER BY seq DESC LIMIT 1`,
  )
  const used = db.prepare(`SELECT 1 FROM ledger WHERE user_id = ? AND kind IN ${KINDS} AND token_id = ?`)
  const open = db.prepare(`SELECT user_id FROM ledger AS asked WHERE kind = 'export-request' AND kind IN ${KINDS}
    AND NOT EXISTS (SELECT 1 FROM ledger
      WHERE user_id = asked.user_id AND kind IN ${KINDS} AND seq > asked.seq AND NOT ${IS_TOLD})
    ORDER BY seq`)
  // Scans record numbers: a call covers few records, and no index orders exports by number.
  const since = db.prepare(`SELECT * FROM ledger WHERE seq > ? AND seq <= ?
    AND (kind = 'export' OR (kind = 'account' AND rule = '${IMPORTED}')) ORDER BY seq LIMIT ?`)
  const head = db.prepare('SELECT max(seq) AS head FROM ledger')
  const assertOwn = openOwnRecords(db, macs)
  return {
    newest: (userId) => read(newest.get(userId)),
    exported: (userId) => read(exported.get(userId)),
    isUsed: (userId, jti) => used.get(userId, jti) !== undefined,
    since: (seq, { within, most }) => ({
      left: (since.all(seq, seq + within, most) as LedgerRow[]).map((row) => {
        const isAccount = row.kind === 'account'
        if (isAccount) assertOwn(row)
        const { at, address } = isAccount ? { at: row.at, address: Buffer.from(row.address) } : read(row)!
        const isBrought = isAccount || row.rule === TOLD.imported
        return { seq: row.seq, userId: row.user_id, at, address, isBrought }
      }),
      head: (head.get() as { head: number | null }).head ?? 0,
    }),
    open: () => (open.all() as { user_id: string }[]).map((row) => row.user_id),
  }

  function read(found: unknown): ExportRecord | null {
    if (found === undefined) return null
    const row = found as LedgerRow
    // A key is exported only by a record that this signer has written.
    assertOwn(row)
    const {
      request,
      ready_at: readyAt = 0,
      recipient = null,
      left_at: leftAt = row.at,
    } = JSON.parse(row.evidence!) as {
      request: string | null
      ready_at?: number
      recipient?: string
      left_at?: number
    }
    return {
      seq: row.seq,
      userId: row.user_id,
      record: Buffer.from(row.record),
      kind: row.kind as ExportRecord['kind'],
      at: leftAt,
      address: Buffer.from(row.address),
      request,
      readyAt,
      recipient,
    }
  }
}
