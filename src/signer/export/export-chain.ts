import { setImmediate } from 'node:timers/promises'
import type { DatabaseSync } from 'node:sqlite'
import { BoundedMap } from '../../bounded-map.ts'
import { endsRequest, type ExportRecord } from './export-records.ts'
import { follow, type Ledger } from '../ledger/ledger.ts'
import { assertMac, type Macs } from '../ledger/macs.ts'
import type { LedgerRow } from '../ledger/record.ts'
import { LedgerDamaged, Refusal } from '../refusal.ts'
import type { LedgerHead } from '../ledger/witness.ts'

/*
 * Proves that nothing ended a request for a key. A record proves only that it is genuine itself. That no later record cancels it
 * follows only from the whole chain up to the head, which is in memory. So each record since is verified by its hash and MAC. A
 * record that was removed or altered breaks the chain.
 */
export type ExportChain = {
  /**
   * Verifies the records since a request in parts, with other requests served in between, and remembers its progress.
   * @throws LedgerDamaged  if one of them was altered or is missing, or ended the request
   */
  look: (asked: ExportRecord) => Promise<void>
  /**
   * Verifies the records appended since `look`, without interruption.
   * @throws LedgerDamaged; export_not_ready if `look` has not verified this request
   */
  assertOpen: (asked: ExportRecord) => void
}

/** Records per part: a signature may have to wait for about 8 ms. */
const PART = 400
/** requests whose progress is remembered; others are verified from the start again */
const MAX_LOOKED = 1_000

/** Opens the verification of the records since a request. */
export function openExportChain({
  db,
  macs,
  ledger,
}: {
  db: DatabaseSync
  macs: Macs
  ledger: Pick<Ledger, 'head'>
}): ExportChain {
  const after = db.prepare('SELECT * FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?')
  const looked = new BoundedMap<number, LedgerHead>(MAX_LOOKED)
  /** one at a time, because several would verify the same records */
  let turn: Promise<unknown> = Promise.resolve()

  return {
    look(asked) {
      const mine = turn.then(async () => {
        while (!part(asked)) await setImmediate()
      })
      turn = mine.catch(() => {})
      return mine
    },
    assertOpen(asked) {
      // The request became ready after the token was read, or more than 1,000 other requests have displaced its progress.
      if (!looked.has(asked.seq))
        throw new Refusal(
          'export_not_ready',
          'The records after the export request are not checked yet. Nothing was exported. Retry.',
        )
      while (!part(asked));
    },
  }

  /** Verifies one part. @returns whether it reached the head */
  function part(asked: ExportRecord): boolean {
    const head = ledger.head()
    let through = looked.get(asked.seq) ?? { count: asked.seq, record: asked.record }
    const rows = after.all(through.count, PART) as LedgerRow[]
    for (const row of rows) {
      through = follow(through, row)
      assertMac(macs, row)
      if (endsRequest(row, asked.userId))
        throw new LedgerDamaged(`Record ${row.seq} of the ledger ended a request that counted as open.`)
    }
    looked.set(asked.seq, through)
    if (through.count < head.count && rows.length > 0) return false
    if (through.count !== head.count || !through.record.equals(head.record))
      throw new LedgerDamaged('The ledger does not end where it did when it was written.')
    return true
  }
}
