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
 * That nothing ended a request for a key. A record says of itself that it is genuine; that there is none after it which cancels it, only the
 * whole chain from there to the head says, which is in memory: each record by its hash and its MAC. One that was removed, or is of
 * another kind or person since, leaves a chain that does not fit.
 */
export type ExportChain = {
  /**
   * Looks at the records since a request, in parts that others are served between, and remembers how far it got.
   * @throws LedgerDamaged  when one of them was altered or is missing, or ended the request
   */
  look: (asked: ExportRecord) => Promise<void>
  /** The rest, at once: what was written since `look`. @throws LedgerDamaged, export_not_ready  the second where it was not looked at before */
  assertOpen: (asked: ExportRecord) => void
}

/** A signature may wait for one part: about 8 ms. */
const PART = 400
/** requests that are remembered; of others the look begins anew */
const MAX_LOOKED = 1_000

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
  /** one at a time: several would only go over the same records */
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
      // It became ready after the token was read, or more than a thousand others were asked for meanwhile.
      if (!looked.has(asked.seq))
        throw new Refusal(
          'export_not_ready',
          'The records after the export request are not checked yet. Nothing was exported. Retry.',
        )
      while (!part(asked));
    },
  }

  /** @returns whether it got to the head */
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
