import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from './canonical.ts'
import type { Kek } from './kek.ts'
import { macKeyOf, openMacs, type Macs } from './macs.ts'
import { StartError } from './refusal.ts'

/** The data keys, one per epoch, unwrapped; user keys are wrapped with them, and MACs derived from them. */
export type Deks = {
  /** the store is new, or from before MACs: nothing that came with them can be in it yet */
  isNew: boolean
  of: (epoch: number) => KeyObject | undefined
  /** the data key for the next account; a new one when the last is full or old */
  current: () => { epoch: number; dek: KeyObject }
  /** one more user key is wrapped with it */
  used: (epoch: number) => void
  macs: Macs
  /** as they are in the store, oldest first */
  rows: () => KeptDek[]
  row: (epoch: number) => KeptDek
  /** A new one, however much room the last has; inside a transaction. @returns its epoch */
  begin: () => number
  /** One key less is wrapped with it. It stays: MACs of the ledger are by it. */
  released: (epoch: number) => void
  /** Wraps all of them by another master key, and compares; inside a transaction. */
  wrapBy: (kek: Kek) => void
}

/** A data key as it lies in the store: wrapped by the master key. */
export type KeptDek = {
  /** random; stays when the master key is another, and differs where another signer has the same epoch */
  id: Buffer
  epoch: number
  provider: string
  wrapped: Buffer
  /** milliseconds since 1970 */
  createdAt: number
  /** part of what it is bound to: the first record of its ledger that has a MAC */
  macedFrom: number | null
}

/** NIST SP 800-38D §8.3 allows 2^32 random nonces per key; 2^16 keeps what one data key gives away small. */
const KEYS_PER_EPOCH = 2 ** 16
const EPOCH_DAYS = 90

type DekRow = {
  id: Uint8Array
  epoch: number
  provider: string
  wrapped: Uint8Array
  keys: number
  created_at: number
  /** the first record of the ledger that has a MAC; null in a store from before there were any */
  maced_from?: number | null
}

const readRows = (db: DatabaseSync): DekRow[] => db.prepare('SELECT * FROM deks ORDER BY epoch').all() as DekRow[]

/**
 * Unwraps every data key, so that a wrong master key is noticed here and not at the first signature; inside a transaction.
 * @throws StartError  when the master key is not the one that this store was made with
 */
export function openDeks({
  db,
  kek: first,
  now,
  keysPerEpoch = KEYS_PER_EPOCH,
}: {
  db: DatabaseSync
  kek: Kek
  now: () => number
  keysPerEpoch?: number
}): Deks {
  let kek = first
  const rows = readRows(db)
  const opened = new Map(rows.map((row) => [row.epoch, openDek(row, kek)]))
  const macKeys = new Map([...opened].map(([epoch, dek]) => [epoch, macKeyOf(dek)]))
  const macedFrom = rows.find(({ maced_from }) => (maced_from ?? null) !== null)?.maced_from ?? nextRecord(db)
  bindAnew()
  const insert = db.prepare(
    'INSERT INTO deks (id, epoch, provider, wrapped, created_at, maced_from) VALUES (?, ?, ?, ?, ?, ?)',
  )
  const wrapAnew = db.prepare('UPDATE deks SET provider = ?, wrapped = ? WHERE epoch = ?')
  const addKeys = db.prepare('UPDATE deks SET keys = keys + ? WHERE epoch = ?')
  // Once more: what was bound anew is wrapped otherwise.
  const kept = readRows(db).map((row) => ({ ...toKept(row), keys: row.keys }))
  const rowOf = (epoch: number) => kept.find((row) => row.epoch === epoch)!

  return {
    isNew: rows.every((row) => (row.maced_from ?? null) === null),
    of: (epoch) => opened.get(epoch),
    current,
    used: (epoch) => count(epoch, 1),
    rows: () => kept,
    row: rowOf,
    begin: () => make().epoch,
    released: (epoch) => count(epoch, -1),
    wrapBy(next) {
      // All of them before any is written: a provider that fails in between leaves a store that one master key opens.
      const wrapped = kept.map((row) => ({ row, wrapped: wrapOne(row, next) }))
      for (const { row, wrapped: bytes } of wrapped) {
        wrapAnew.run(next.provider, bytes, row.epoch)
        Object.assign(row, { provider: next.provider, wrapped: bytes })
      }
      kek = next
    },
    macs: openMacs({
      from: macedFrom,
      current: () => kept.at(-1)?.epoch ?? current().epoch,
      keyOf: (epoch) => macKeys.get(epoch),
    }),
  }

  function wrapOne({ epoch, macedFrom: maced_from }: KeptDek, next: Kek): Buffer {
    const dek = opened.get(epoch)!.export()
    try {
      const wrapped = next.wrap(dek, aadOf({ epoch, maced_from }))
      if (!openDek({ epoch, wrapped, maced_from }, next).equals(opened.get(epoch)!))
        throw new Error('a data key comes back otherwise from the new master key')
      return wrapped
    } finally {
      dek.fill(0)
    }
  }

  function count(epoch: number, more: number): void {
    addKeys.run(more, epoch)
    rowOf(epoch).keys += more
  }

  function current(): { epoch: number; dek: KeyObject } {
    const newest = kept.at(-1)
    const isOld = newest !== undefined && now() - newest.createdAt > EPOCH_DAYS * 86_400_000
    const { epoch } = newest === undefined || isOld || newest.keys >= keysPerEpoch ? make() : newest
    return { epoch, dek: opened.get(epoch)! }
  }

  function make(): KeptDek {
    const epoch = (kept.at(-1)?.epoch ?? 0) + 1
    const [id, dek, createdAt] = [randomBytes(16), randomBytes(32), now()]
    const wrapped = kek.wrap(dek, aadOf({ epoch, maced_from: macedFrom }))
    const row = { id, epoch, provider: kek.provider, wrapped, createdAt, macedFrom, keys: 0 }
    insert.run(id, epoch, row.provider, wrapped, createdAt, macedFrom)
    const key = intoKeyObject(dek)
    opened.set(epoch, key)
    macKeys.set(epoch, macKeyOf(key))
    kept.push(row)
    return row
  }

  /**
   * Wraps again what was wrapped before there were MACs, now bound to the record where they begin. From then on a store whose
   * MACs were stripped is no store from before: its data keys do not open as one.
   */
  function bindAnew(): void {
    const old = rows.filter(({ maced_from }) => (maced_from ?? null) === null)
    if (old.length === 0) return
    const bind = db.prepare('UPDATE deks SET wrapped = ?, maced_from = ? WHERE epoch = ?')
    for (const { epoch } of old) {
      const dek = opened.get(epoch)!.export()
      bind.run(kek.wrap(dek, aadOf({ epoch, maced_from: macedFrom })), macedFrom, epoch)
      dek.fill(0)
    }
  }
}

/**
 * What checks the MACs of a store that is only looked at.
 * @throws StartError  when the master key is not the one that this store was made with
 */
export function readMacs(db: DatabaseSync, kek: Kek): Macs {
  const rows = readRows(db)
  const keys = new Map(rows.map((row) => [row.epoch, macKeyOf(openDek(row, kek))]))
  return openMacs({
    from: macedFromOf(db) ?? nextRecord(db),
    current: () => rows.at(-1)!.epoch,
    keyOf: (epoch) => keys.get(epoch),
  })
}

/** Where the MACs of a store begin, by its own word, which a master key proves; null: it has none yet. */
export function macedFromOf(db: DatabaseSync): number | null {
  return readRows(db).find(({ maced_from }) => (maced_from ?? null) !== null)?.maced_from ?? null
}

function nextRecord(db: DatabaseSync): number {
  const head = db.prepare('SELECT count FROM ledger_head').get() as { count: number } | undefined
  return (head?.count ?? 0) + 1
}

const toKept = ({ id, epoch, provider, wrapped, created_at: createdAt, maced_from = null }: DekRow): KeptDek => ({
  ...{ id: Buffer.from(id), epoch, provider, wrapped: Buffer.from(wrapped), createdAt, macedFrom: maced_from },
})

/** @throws StartError  when the master key is not the one that wrapped it */
export function openDek(row: Pick<DekRow, 'epoch' | 'wrapped' | 'maced_from'>, kek: Kek): KeyObject {
  let dek: Buffer
  try {
    dek = kek.unwrap(Buffer.from(row.wrapped), aadOf(row))
  } catch (cause) {
    throw new StartError(
      'The master key (KEK) does not open this store: SIGNER_KEK_FILE is not the one it was created with, or not the one of the last `signer rotate-kek`.',
      cause,
    )
  }
  return intoKeyObject(dek)
}

const aadOf = ({ epoch, maced_from: from = null }: Pick<DekRow, 'epoch' | 'maced_from'>): Buffer =>
  from === null ? canonical('chatelaine data key 1', epoch) : canonical('chatelaine data key 2', epoch, from)

function intoKeyObject(bytes: Buffer): KeyObject {
  try {
    return createSecretKey(bytes)
  } finally {
    bytes.fill(0)
  }
}
