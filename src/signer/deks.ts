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
}

/** NIST SP 800-38D §8.3 allows 2^32 random nonces per key; 2^16 keeps what one data key gives away small. */
const KEYS_PER_EPOCH = 2 ** 16
const EPOCH_DAYS = 90

type DekRow = {
  epoch: number
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
  kek,
  now,
  keysPerEpoch = KEYS_PER_EPOCH,
}: {
  db: DatabaseSync
  kek: Kek
  now: () => number
  keysPerEpoch?: number
}): Deks {
  const rows = readRows(db)
  const opened = new Map(rows.map((row) => [row.epoch, unwrap(kek, row)]))
  const macKeys = new Map([...opened].map(([epoch, dek]) => [epoch, macKeyOf(dek)]))
  const macedFrom = rows.find(({ maced_from }) => (maced_from ?? null) !== null)?.maced_from ?? nextRecord(db)
  bindAnew()
  const insert = db.prepare(
    'INSERT INTO deks (epoch, provider, wrapped, created_at, maced_from) VALUES (?, ?, ?, ?, ?)',
  )
  const addKey = db.prepare('UPDATE deks SET keys = keys + 1 WHERE epoch = ?')
  const last = rows.at(-1)
  let newest = last === undefined ? null : { epoch: last.epoch, keys: last.keys, createdAt: last.created_at }

  return {
    isNew: rows.every((row) => (row.maced_from ?? null) === null),
    of: (epoch) => opened.get(epoch),
    current,
    used(epoch) {
      addKey.run(epoch)
      if (newest?.epoch === epoch) newest.keys += 1
    },
    macs: openMacs({
      from: macedFrom,
      current: () => newest?.epoch ?? current().epoch,
      keyOf: (epoch) => macKeys.get(epoch),
    }),
  }

  function current(): { epoch: number; dek: KeyObject } {
    const isOld = newest !== null && now() - newest.createdAt > EPOCH_DAYS * 86_400_000
    if (newest === null || isOld || newest.keys >= keysPerEpoch) newest = make((newest?.epoch ?? 0) + 1)
    return { epoch: newest.epoch, dek: opened.get(newest.epoch)! }
  }

  function make(epoch: number) {
    const [dek, createdAt] = [randomBytes(32), now()]
    insert.run(epoch, kek.provider, kek.wrap(dek, aadOf({ epoch, maced_from: macedFrom })), createdAt, macedFrom)
    const key = intoKeyObject(dek)
    opened.set(epoch, key)
    macKeys.set(epoch, macKeyOf(key))
    return { epoch, keys: 0, createdAt }
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
  const keys = new Map(rows.map((row) => [row.epoch, macKeyOf(unwrap(kek, row))]))
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

function unwrap(kek: Kek, row: DekRow): KeyObject {
  let dek: Buffer
  try {
    dek = kek.unwrap(Buffer.from(row.wrapped), aadOf(row))
  } catch (cause) {
    throw new StartError(
      'The master key (KEK) does not open this store: SIGNER_KEK_FILE is not the one it was created with.',
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
