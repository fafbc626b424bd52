import type { DatabaseSync } from 'node:sqlite'
import { BoundedMap } from '../../bounded-map.ts'
import type { MeterCharge, ReadMeter } from '../policy/evaluate.ts'
import { charge, countFrom, usedIn, windowFromText, windowToText, type MeterWindow } from '../policy/window.ts'
import { decodeRestored } from '../ledger/restored.ts'
import { isSponsor } from '../tokens/sponsor.ts'

/** What was used of the limits of policies and of top-ups: a table that follows from the ledger and is written in the same commit. */
export type Meters = {
  /** meters as a transaction of this account, in 40 hexadecimal digits or ANY_SPONSOR, finds them at a time in milliseconds since 1970 */
  at: (at: number, account: string) => ReadMeter
  /** Charges as they are recorded: with the time from which counts what a meter held for later. */
  dated: (charges: readonly MeterCharge[]) => DatedCharge[]
  /** what is read next knows of it; inside the transaction that the record is written in */
  charge: (at: number, charges: readonly DatedCharge[]) => void
  /** Writes what was charged, at the end of that transaction: a meter that all share is written once for all of them. */
  write: () => void
}

/** What tells that the table is as this signer left it (meter-seal.ts). */
export type MeterSeal = {
  /** A row is written; inside the transaction. */
  wrote: (meter: string, window: string) => void
  /** At the end of each transaction that a record was written in. */
  write: () => void
}

/** In place of an account: a restore that lost nonces of any sponsor fills the meter. */
export const ANY_SPONSOR = 'any sponsor'

/** Meters whose windows are kept in memory: reading one of the others costs a search of the table. */
const MAX_CACHED = 100_000

/** `from`, milliseconds since 1970: what the meter held for a later time counts from then; absent where there is nothing such. */
export type DatedCharge = MeterCharge & { from?: number }

/**
 * A clock that is set back frees nothing while the signer runs. What is dated later than its start and its first use is of a clock that
 * was ahead, and would hold until that date: it counts from that use. Not from the start: a machine may start with a clock that is
 * far behind, by which no token is valid, so nothing is used by it.
 */
export function openMeters(db: DatabaseSync, now: () => number, seal: MeterSeal): Meters {
  const get = db.prepare('SELECT window FROM meters WHERE meter = ?')
  const put = db.prepare('INSERT OR REPLACE INTO meters (meter, window) VALUES (?, ?)')
  const cached = new BoundedMap<string, MeterWindow | null>(MAX_CACHED)
  const unwritten = new Map<string, MeterWindow>()
  // No earlier than anything this process has dated: a meter that is read again holds nothing later that is its own.
  let latest = now()
  const lostAt = readLostNonces(db)
  // What an operation spent shows in no nonce of its person: where a sponsor lost some, it may be anyone’s.
  const signsOperations = db.prepare(`SELECT 1 FROM ledger WHERE kind = 'operation' LIMIT 1`).get() !== undefined
  const lostOfAll = signsOperations ? lostAt.get(ANY_SPONSOR) : undefined
  // By meter: those with windows that were changed so and not charged since.
  const datedFrom = new Map<string, number>()

  function windowOf(meter: string, at: number): MeterWindow | null {
    const known = unwritten.get(meter) ?? cached.get(meter)
    if (known !== undefined) return known
    const row = get.get(meter) as { window: string } | undefined
    const stored = row === undefined ? null : windowFromText(row.window)
    const from = Math.max(latest, at)
    const window = stored === null ? null : countFrom(stored, from)
    if (window !== stored) datedFrom.set(meter, from)
    cached.set(meter, window)
    return window
  }

  return {
    at: (at, account) => (meter, period) => {
      const lost = account === ANY_SPONSOR ? lostAt.get(account) : later(lostAt.get(account), lostOfAll)
      const until = lost === undefined ? 0 : lost + period * 1_000
      if (at < until) return { used: 0n, resetsAt: until, isFull: true }
      return usedIn(windowOf(meter, at), { at, period })
    },
    dated: (charges) =>
      charges.map((each) => {
        const from = datedFrom.get(each.meter)
        return from === undefined ? each : { ...each, from }
      }),
    charge(at, charges) {
      latest = Math.max(latest, at)
      for (const { meter, amount, period } of charges) {
        unwritten.set(meter, charge(windowOf(meter, at), { at, period, amount }))
        datedFrom.delete(meter)
      }
    },
    write() {
      for (const [meter, window] of unwritten) {
        const text = windowToText(window)
        seal.wrote(meter, text)
        put.run(meter, text)
        cached.set(meter, window)
      }
      unwritten.clear()
      seal.write()
    },
  }
}

const later = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b)

/** The charges of a record, as it holds them; null for none. */
export const spentToText = (charges: readonly DatedCharge[]): string | null =>
  charges.length === 0
    ? null
    : JSON.stringify(charges.map(({ amount, limit, meter, period, from }) => ({ meter, amount: amount.toString(), limit: limit.toString(), period, from }))) // prettier-ignore

/** The reverse; null for a text that is not of this form. */
export function readSpent(text: string): DatedCharge[] | null {
  try {
    const charges = JSON.parse(text) as { meter: string; amount: string; limit: string; period: number; from?: number }[] // prettier-ignore
    return charges.map((each) => ({ ...each, amount: BigInt(each.amount), limit: BigInt(each.limit) }))
  } catch {
    return null
  }
}

/**
 * The window of a meter after a record that charged it.
 * @param held  the one before; null for none
 */
export function charged(
  held: MeterWindow | null,
  at: number,
  { period, amount, from }: Pick<DatedCharge, 'period' | 'amount' | 'from'>,
): MeterWindow {
  return charge(held === null || from === undefined ? held : countFrom(held, from), { at, period, amount })
}

/** Counts every meter again from the records alone, and says which of the table differ. */
export function verifyMeters(db: DatabaseSync): string[] {
  const counted = new Map<string, MeterWindow>()
  const rows = db.prepare('SELECT seq, at, spent FROM ledger WHERE spent IS NOT NULL ORDER BY seq').iterate()
  for (const { seq, at, spent } of rows as Iterable<{ seq: number; at: number; spent: string }>) {
    const charges = readSpent(spent)
    if (charges === null) return [`Record ${seq}: what it spent of limits cannot be read.`]
    for (const each of charges) counted.set(each.meter, charged(counted.get(each.meter) ?? null, at, each))
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
 * nothing more is. Lost is what a chain had counted and the ledger as it was then has no signature for; what an account did before
 * its first signature here, or before an earlier restore, is not.
 */
function readLostNonces(db: DatabaseSync): Map<string, number> {
  const lost = new Map<string, number>()
  const floors = new Map<string, number>()
  const lowest = db.prepare(
    'SELECT min(nonce) AS nonce FROM ledger WHERE address = ? AND chain_id = ? AND nonce IS NOT NULL AND seq < ?',
  )
  const signed = db.prepare(
    'SELECT count(DISTINCT nonce) AS nonces FROM ledger WHERE address = ? AND chain_id = ? AND nonce >= ? AND nonce < ? AND seq < ?',
  )
  const whose = db.prepare('SELECT user_id AS userId FROM accounts WHERE address = ?')
  const lose = (account: string, at: number) => lost.set(account, Math.max(at, lost.get(account) ?? 0))
  const rows = db.prepare(`SELECT seq, at, raw FROM ledger WHERE kind = 'restore' ORDER BY seq`).iterate()
  for (const { seq, at, raw } of rows as Iterable<{ seq: number; at: number; raw: Uint8Array }>)
    for (const { address, chainId, nonce } of decodeRestored(raw).floors) {
      const account = Buffer.from(address, 'hex')
      const lane = `${address} ${chainId}`
      const first = floors.get(lane) ?? (lowest.get(account, chainId, seq) as { nonce: number | null }).nonce ?? 0
      const { nonces } = signed.get(account, chainId, first, nonce, seq) as { nonces: number }
      if (nonces < nonce - first) {
        lose(address, at)
        const owner = whose.get(account) as { userId: string } | undefined
        if (owner !== undefined && isSponsor(owner.userId)) lose(ANY_SPONSOR, at)
      }
      floors.set(lane, Math.max(nonce, floors.get(lane) ?? 0))
    }
  return lost
}
