import type { DatabaseSync } from 'node:sqlite'
import { BoundedMap } from '../bounded-map.ts'
import type { MeterCharge, ReadMeter } from './policy/evaluate.ts'
import { charge, usedIn, windowFromText, windowToText, type MeterWindow } from './policy/window.ts'
import { decodeRestored } from './restored.ts'

/** What was used of the limits of policies: a table that follows from the ledger and is written in the same commit. */
export type Meters = {
  /** meters as a transaction of this account, in 40 hexadecimal digits, finds them at a time in milliseconds since 1970 */
  at: (at: number, account: string) => ReadMeter
  /** what is read next knows of it; inside the transaction that the record is written in */
  charge: (at: number, charges: readonly MeterCharge[]) => void
  /** Writes what was charged, at the end of that transaction: a meter that all share is written once for all of them. */
  write: () => void
}

/** Meters whose windows are kept in memory: reading one of the others costs a search of the table. */
const MAX_CACHED = 100_000

export function openMeters(db: DatabaseSync): Meters {
  const get = db.prepare('SELECT window FROM meters WHERE meter = ?')
  const put = db.prepare('INSERT OR REPLACE INTO meters (meter, window) VALUES (?, ?)')
  const cached = new BoundedMap<string, MeterWindow | null>(MAX_CACHED)
  const unwritten = new Map<string, MeterWindow>()
  const lostAt = readLostNonces(db)

  function windowOf(meter: string): MeterWindow | null {
    const known = unwritten.get(meter) ?? cached.get(meter)
    if (known !== undefined) return known
    const row = get.get(meter) as { window: string } | undefined
    const window = row === undefined ? null : windowFromText(row.window)
    cached.set(meter, window)
    return window
  }

  return {
    at: (at, account) => (meter, period) => {
      const lost = lostAt.get(account)
      const until = lost === undefined ? 0 : lost + period * 1_000
      if (at < until) return { used: 0n, resetsAt: until, isFull: true }
      return usedIn(windowOf(meter), { at, period })
    },
    charge(at, charges) {
      for (const { meter, amount, period } of charges)
        unwritten.set(meter, charge(windowOf(meter), { at, period, amount }))
    },
    write() {
      for (const [meter, window] of unwritten) {
        put.run(meter, windowToText(window))
        cached.set(meter, window)
      }
      unwritten.clear()
    },
  }
}

/** The charges of a record, as it holds them; null for none. */
export const spentToText = (charges: readonly MeterCharge[]): string | null =>
  charges.length === 0
    ? null
    : JSON.stringify(charges.map(({ meter, amount, limit, period }) => ({ meter, amount: amount.toString(), limit: limit.toString(), period }))) // prettier-ignore

/** The reverse; null for a text that is not of this form. */
function readSpent(text: string): MeterCharge[] | null {
  try {
    const charges = JSON.parse(text) as { meter: string; amount: string; limit: string; period: number }[]
    return charges.map(({ meter, amount, limit, period }) => ({
      meter,
      amount: BigInt(amount),
      limit: BigInt(limit),
      period,
    }))
  } catch {
    return null
  }
}

/** Counts every meter again from the records alone, and says which of the table differ. */
export function verifyMeters(db: DatabaseSync): string[] {
  const known = db.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'meters'`).get()
  // A store that was not opened for writing since may lack the table.
  if (known === undefined) return []
  const counted = new Map<string, MeterWindow>()
  const rows = db.prepare('SELECT seq, at, spent FROM ledger WHERE spent IS NOT NULL ORDER BY seq').iterate()
  for (const { seq, at, spent } of rows as Iterable<{ seq: number; at: number; spent: string }>) {
    const charges = readSpent(spent)
    if (charges === null) return [`Record ${seq}: what it spent of limits cannot be read.`]
    for (const { meter, amount, period } of charges)
      counted.set(meter, charge(counted.get(meter) ?? null, { at, period, amount }))
  }
  let wrong = 0
  for (const { meter, window } of db.prepare('SELECT meter, window FROM meters').iterate() as Iterable<
    Record<'meter' | 'window', string>
  >) {
    // prettier-ignore
    const right = counted.get(meter)
    if (right === undefined || windowToText(right) !== window) wrong += 1
    counted.delete(meter)
  }
  wrong += counted.size
  return wrong === 0 ? [] : [`Meters that differ from what the ledger charged: ${wrong}.`]
}

/**
 * Accounts of which a restore lost nonces, and when that was accepted: what was spent with those is unknown, so for one period
 * nothing more is. Where the chain counted further than the ledger as it was then, some were lost.
 */
function readLostNonces(db: DatabaseSync): Map<string, number> {
  const lost = new Map<string, number>()
  const highest = db.prepare('SELECT max(nonce) AS nonce FROM ledger WHERE address = ? AND chain_id = ? AND seq < ?')
  const rows = db.prepare(`SELECT seq, at, raw FROM ledger WHERE kind = 'restore' ORDER BY seq`).iterate()
  for (const { seq, at, raw } of rows as Iterable<{ seq: number; at: number; raw: Uint8Array }>)
    for (const { address, chainId, nonce } of decodeRestored(raw).floors) {
      const { nonce: known } = highest.get(Buffer.from(address, 'hex'), chainId, seq) as { nonce: number | null }
      if (nonce > (known ?? -1) + 1) lost.set(address, Math.max(at, lost.get(address) ?? 0))
    }
  return lost
}
