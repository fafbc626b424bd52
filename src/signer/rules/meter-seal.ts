import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { BoundedMap } from '../../bounded-map.ts'
import type { Logger } from '../../log.ts'
import { canonical } from '../canonical.ts'
import { follow, type Ledger } from '../ledger/ledger.ts'
import { assertMac, type Macs } from '../ledger/macs.ts'
import { charged, readSpent, type MeterSeal } from './meters.ts'
import { windowFromText, windowToText, type MeterWindow } from '../policy/window.ts'
import { GENESIS, type LedgerRow } from '../ledger/record.ts'
import { LedgerDamaged } from '../refusal.ts'
import type { LedgerHead } from '../ledger/witness.ts'

/**
 * A seal over all meters. It is the HMAC over two values: the XOR of the HMACs of all rows, and the end of the ledger.
 * The sum remains in memory; the store holds the seal: epoch (4 bytes), record count (8), HMAC (32). Without the master
 * key, nobody can lower, remove, exchange or restore a row and preserve the sum. The seal does not reveal the sum,
 * which would help to find other rows with the same sum. If an older table with its older seal is restored, the seal
 * names an older end of the ledger. The records since then are counted again.
 */

const EPOCH_BYTES = 4
const COUNT_BYTES = 8
const PURPOSE = 'chatelaine meters key 1'
/** maximum number of rows whose HMAC is cached: the meters in use */
const MAX_REMEMBERED = 100_000
/** maximum number of meters held in memory during a recount */
const MAX_COUNTED = 50_000

/**
 * Checks that the table is unchanged since the last seal. If it was changed or never sealed, counts its meters again
 * from the ledger, and verifies each record by its hash and MAC. So lowering a meter while the signer is stopped has no
 * effect. Call it outside a transaction.
 * @throws LedgerDamaged  if this signer did not write a record that has to be counted
 */
export function openMeterSeal({
  db,
  macs,
  ledger,
  log,
}: {
  db: DatabaseSync
  macs: Macs
  ledger: Pick<Ledger, 'head' | 'recordAt'>
  log: Logger
}): MeterSeal {
  const get = db.prepare('SELECT window FROM meters WHERE meter = ?')
  const put = db.prepare('UPDATE ledger_head SET meters = ?')
  const epoch = macs.epoch()
  const key = macs.keyFor(PURPOSE, epoch)!
  const remembered = new BoundedMap<string, Buffer>(MAX_REMEMBERED)
  let sum: Buffer
  let sealed: LedgerHead | null = null
  open()

  return {
    wrote(meter, window) {
      const known = remembered.get(meter)
      const before = known === undefined ? (get.get(meter) as { window: string } | undefined) : undefined
      const old = known ?? (before === undefined ? null : macOfRow(key, meter, before.window))
      const mac = macOfRow(key, meter, window)
      if (old !== null) addTo(sum, old)
      addTo(sum, mac)
      remembered.set(meter, mac)
    },
    write() {
      const head = ledger.head()
      if (head === sealed) return
      put.run(sealOf(key, { epoch, head, sum }))
      sealed = head
    },
  }

  function open(): void {
    const head = ledger.head()
    db.exec('BEGIN IMMEDIATE')
    try {
      const found = readSealed(db, { macs, ledger, key })
      const from = found?.head ?? { count: 0, record: GENESIS }
      if (found === null) db.exec('DELETE FROM meters')
      const counted = from.count === head.count ? 0 : countAgain(db, macs, from)
      if (found === null && counted > 0) log.warn('meters_recounted', { records: head.count, charges: counted })
      sum = found !== null && counted === 0 ? found.sum : sumOf(db, key)!
      put.run(sealOf(key, { epoch, head, sum }))
      sealed = head
      db.exec('COMMIT')
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK')
      throw error
    }
  }
}

/**
 * Returns the end of the ledger at the time of the seal, and the table's sum under the current key.
 * @returns null if there is no valid seal of this table
 */
function readSealed(
  db: DatabaseSync,
  { macs, ledger, key }: { macs: Macs; ledger: Pick<Ledger, 'head' | 'recordAt'>; key: KeyObject },
): { head: LedgerHead; sum: Buffer } | null {
  const { meters } = db.prepare('SELECT meters FROM ledger_head').get() as { meters: Uint8Array | null }
  if (meters === null) return null
  const seal = Buffer.from(meters)
  if (seal.length !== EPOCH_BYTES + COUNT_BYTES + 32) return null
  const epoch = seal.readUInt32BE()
  const count = Number(seal.readBigUInt64BE(EPOCH_BYTES))
  const own = macs.keyFor(PURPOSE, epoch)
  const record = count <= ledger.head().count ? ledger.recordAt(count) : null
  if (own === undefined || record === null) return null
  const head = { count, record }
  const sum = sumOf(db, own)
  if (sum === null || !timingSafeEqual(sealOf(own, { epoch, head, sum }), seal)) return null
  return { head, sum: own.equals(key) ? sum : sumOf(db, key)! }
}

/** Charges the table again with the records after `from`. @returns the number of charges */
function countAgain(db: DatabaseSync, macs: Macs, from: LedgerHead): number {
  const get = db.prepare('SELECT window FROM meters WHERE meter = ?')
  const put = db.prepare('INSERT OR REPLACE INTO meters (meter, window) VALUES (?, ?)')
  const windows = new Map<string, MeterWindow>()
  const flush = () => {
    for (const [meter, window] of windows) put.run(meter, windowToText(window))
    windows.clear()
  }
  const windowOf = (meter: string): MeterWindow | null => {
    const row = windows.has(meter) ? undefined : (get.get(meter) as { window: string } | undefined)
    return windows.get(meter) ?? (row === undefined ? null : windowFromText(row.window))
  }
  let counted = 0
  let last = from
  const rows = db.prepare('SELECT * FROM ledger WHERE seq > ? ORDER BY seq').iterate(from.count)
  for (const row of rows as Iterable<LedgerRow>) {
    // The start verifies only the newest records, so verify these here.
    last = follow(last, row)
    assertMac(macs, row)
    if (row.spent === null) continue
    const charges = readSpent(row.spent)
    if (charges === null)
      throw new LedgerDamaged(`What record ${row.seq} of the ledger spent of limits cannot be read.`)
    for (const each of charges) windows.set(each.meter, charged(windowOf(each.meter), row.at, each))
    counted += charges.length
    if (windows.size > MAX_COUNTED) flush()
  }
  flush()
  return counted
}

/**
 * Sums the HMACs of all rows.
 * @returns null if a meter appears twice, which cancels out in the sum, or if the rows are not in ascending order,
 *   which searches need
 */
function sumOf(db: DatabaseSync, key: KeyObject): Buffer | null {
  const sum = Buffer.alloc(32)
  let before: Buffer | null = null
  const rows = db.prepare('SELECT meter, window FROM meters').iterate()
  for (const { meter, window } of rows as Iterable<Record<'meter' | 'window', string>>) {
    const name = Buffer.from(meter)
    if (before !== null && before.compare(name) >= 0) return null
    before = name
    addTo(sum, macOfRow(key, meter, window))
  }
  return sum
}

function sealOf(key: KeyObject, { epoch, head, sum }: { epoch: number; head: LedgerHead; sum: Buffer }): Buffer {
  const seal = Buffer.alloc(EPOCH_BYTES + COUNT_BYTES)
  seal.writeUInt32BE(epoch)
  seal.writeBigUInt64BE(BigInt(head.count), EPOCH_BYTES)
  return Buffer.concat([seal, hmac(key, canonical('chatelaine meters 1', head.count, head.record, sum))])
}

const macOfRow = (key: KeyObject, meter: string, window: string): Buffer =>
  hmac(key, canonical('chatelaine meter 1', meter, window))

const hmac = (key: KeyObject, bytes: Buffer): Buffer => createHmac('sha256', key).update(bytes).digest()

function addTo(sum: Buffer, mac: Buffer): void {
  for (let n = 0; n < sum.length; n++) sum[n]! ^= mac[n]!
}
