import type { DatabaseSync } from 'node:sqlite'
import { BoundedMap } from '../../bounded-map.ts'
import type { MeterCharge, ReadMeter } from '../policy/evaluate.ts'
import { charge, countFrom, usedIn, windowFromText, windowToText, type MeterWindow } from '../policy/window.ts'
import { decodeRestored } from '../ledger/restored.ts'
import { isSponsor } from '../tokens/sponsor.ts'

/**
 * Used amounts of the limits of policies, top-ups and sponsored gas. The ledger determines the table, which is written
 * in the same commit as a record.
 */
export type Meters = {
  /**
   * reads the meters for a transaction of this account; `at` in milliseconds since 1970, `account` 40 hexadecimal
   * digits or ANY_SPONSOR
   */
  at: (at: number, account: string) => ReadMeter
  /** Returns each charge with the time from which later-dated contents of its meter count; for the record. */
  dated: (charges: readonly MeterCharge[]) => DatedCharge[]
  /**
   * adds charges to the meters in memory, so that the next read includes them; inside the transaction that writes the
   * record
   */
  charge: (at: number, charges: readonly DatedCharge[]) => void
  /** writes the charged meters at the end of that transaction, each meter once */
  write: () => void
}

/** Keeps the seal of the table current (meter-seal.ts), which shows whether this signer wrote the table. */
export type MeterSeal = {
  /** notes a row that is written; inside the transaction */
  wrote: (meter: string, window: string) => void
  /** writes the seal, at the end of each transaction that appended a record */
  write: () => void
}

/**
 * Account name for meters over all sponsors. A restore that lost nonces of any sponsor counts such a meter as used up.
 */
export const ANY_SPONSOR = 'any sponsor'

/** Maximum number of meters cached in memory; reading any other costs a search of the table. */
const MAX_CACHED = 100_000

/** `from`, milliseconds since 1970: contents of the meter that are dated later count from this time; absent if there are none. */
export type DatedCharge = MeterCharge & { from?: number }

/**
 * Opens the meters. While the signer runs, setting the clock back frees nothing. Contents dated later than both the
 * signer's start and the meter's first use come from a clock that was ahead. They would last until that date, so they
 * count from that first use. They do not count from the start, because a machine may start with a clock far behind. By
 * such a clock no token is valid, so nothing is charged.
 */
export function openMeters(db: DatabaseSync, now: () => number, seal: MeterSeal): Meters {
  const get = db.prepare('SELECT window FROM meters WHERE meter = ?')
  const put = db.prepare('INSERT OR REPLACE INTO meters (meter, window) VALUES (?, ?)')
  const cached = new BoundedMap<string, MeterWindow | null>(MAX_CACHED)
  const unwritten = new Map<string, MeterWindow>()
  // The latest time of any charge of this process, or later. So `countFrom` never moves a charge that this process
  // made.
  let latest = now()
  const lostAt = readLostNonces(db)
  // An operation uses no nonce of its user. So if a sponsor lost nonces, any user's operations may be lost, and every user's meters
  // are affected.
  const signsOperations = db.prepare(`SELECT 1 FROM ledger WHERE kind = 'operation' LIMIT 1`).get() !== undefined
  const lostOfAll = later(signsOperations ? lostAt.get(ANY_SPONSOR) : undefined, readLostMessages(db))
  // By meter: the time that `countFrom` applied, until the meter is charged again.
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
      if (at < until) return { used: 0n, resetsAt: until, isFull: true, exists: false }
      const window = windowOf(meter, at)
      return { ...usedIn(window, { at, period }), exists: window !== null }
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

/** Formats the charges of a record; null if there are none. */
export const spentToText = (charges: readonly DatedCharge[]): string | null =>
  charges.length === 0
    ? null
    : JSON.stringify(charges.map(({ amount, limit, meter, period, from }) => ({ meter, amount: amount.toString(), limit: limit.toString(), period, from }))) // prettier-ignore

/** Parses the charges of a record; null if the text is malformed. */
export function readSpent(text: string): DatedCharge[] | null {
  try {
    const charges = JSON.parse(text) as { meter: string; amount: string; limit: string; period: number; from?: number }[] // prettier-ignore
    return charges.map((each) => ({ ...each, amount: BigInt(each.amount), limit: BigInt(each.limit) }))
  } catch {
    return null
  }
}

/**
 * Returns a meter's window after a record that charged it.
 * @param held  the window before that record; null if there is none
 */
export function charged(
  held: MeterWindow | null,
  at: number,
  { period, amount, from }: Pick<DatedCharge, 'period' | 'amount' | 'from'>,
): MeterWindow {
  return charge(held === null || from === undefined ? held : countFrom(held, from), { at, period, amount })
}

/** Recounts every meter from the records alone and reports how many rows of the table differ. */
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
 * Returns when the last restore was accepted in a ledger whose messages had used limits; undefined if there was none. A
 * message leaves no trace on a chain, so any restore may have lost some.
 */
function readLostMessages(db: DatabaseSync): number | undefined {
  const sql = `SELECT max(at) AS at FROM ledger AS restore WHERE kind = 'restore' AND EXISTS
    (SELECT 1 FROM ledger AS message WHERE kind = 'message' AND spent IS NOT NULL AND message.seq < restore.seq)`
  return (db.prepare(sql).get() as { at: number | null }).at ?? undefined
}

/**
 * Returns the accounts of which a restore lost nonces, with the time at which each restore was accepted. The amounts
 * spent with those nonces are unknown, so nothing more may be spent for one period. A nonce is lost if the chain had
 * counted it and the ledger at that time has no signature for it. Nonces below the account's first signature here, or
 * below the floor of an earlier restore, do not count.
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
