import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from '../canonical.ts'
import { KekUnavailable, type Kek } from '../kek/provider.ts'
import { macKeyOf, openMacs, type Macs } from '../ledger/macs.ts'
import { StartError } from '../refusal.ts'
import { systemClock } from '../../clock.ts'

/** The unwrapped data keys, one per epoch. They wrap user keys, and MAC keys are derived from them. */
export type Deks = {
  /** true if the store is new, so that nothing else can be in it yet */
  isNew: boolean
  of: (epoch: number) => KeyObject | undefined
  /**
   * If the newest data key is full or old, or with `always`, has the master key wrap a new one for the next transaction. A
   * transaction itself cannot wait for a master key.
   * @throws KekUnavailable
   */
  prepare: (need?: 'always') => Promise<void>
  /** Starts the same without waiting. Until it succeeds, the newest data key wraps more accounts than its limit. */
  prepareSoon: () => void
  /** the data key for the next account: the prepared one if the newest is full or old, otherwise the newest */
  current: () => { epoch: number; dek: KeyObject }
  /** counts one more user key that is wrapped by it */
  used: (epoch: number) => void
  macs: Macs
  /** the rows of the store, oldest first */
  rows: () => KeptDek[]
  row: (epoch: number) => KeptDek
  /**
   * Makes the prepared data key the newest even if the last is not full; inside a transaction.
   * @returns its epoch; null if none is prepared
   */
  begin: () => number | null
  /**
   * Notes that a user key is now wrapped by another data key. The old data key remains, because the ledger's MACs need it.
   * `writeMoved` stores the counts.
   */
  moved: (from: number, to: number) => void
  /** writes the counts of `moved`, in the same transaction */
  writeMoved: () => void
  /** the provider of the master key, and the fault of its last use; null: it worked */
  masterKey: () => { provider: string; fault: string | null }
  /** Unwraps the newest data key, so that `masterKey` is current. */
  probe: () => Promise<void>
  /** tells whether a master key is the one that wraps them. @throws KekUnavailable */
  isBy: (kek: Kek) => Promise<boolean>
  /** Wraps all data keys by another master key; each is unwrapped again and compared. */
  wrapBy: (kek: Kek) => Promise<Takeover>
  /** Wraps all data keys by the newest version of their master key; null if its provider has no versions. */
  wrapByNewest: () => Promise<Takeover | null>
  /**
   * Applies a takeover; inside a transaction.
   * @returns false, without any change, if the other master key has not wrapped every data key or the master key has changed in
   * between
   */
  takeOver: (takeover: Takeover) => boolean
}

/** Data keys wrapped by another master key, by epoch. */
type Takeover = { from: Kek; kek: Kek; wrapped: Map<number, Buffer> }

/** The data keys of a store, unwrapped by its master key. */
export type OpenDeks = {
  kek: Kek
  deks: Map<number, KeyObject>
  /** the first data key, if the store has none yet */
  spare: SpareDek | null
}

/** A wrapped data key that is not in the store yet. */
type SpareDek = { epoch: number; dek: KeyObject; wrapped: Buffer }

/** A data key as stored: wrapped by the master key. */
export type KeptDek = {
  /** random; it does not change with the master key, and differs from any other signer's data key of the same epoch */
  id: Buffer
  epoch: number
  provider: string
  wrapped: Buffer
  /** milliseconds since 1970 */
  createdAt: number
}

/** NIST SP 800-38D §8.3 allows 2^32 random nonces per key; 2^16 limits what one leaked data key exposes. */
const KEYS_PER_EPOCH = 2 ** 16
const EPOCH_DAYS = 90
/** How long `prepareSoon` waits after a failure of the master key. */
const RETRY_MS = 10_000

type DekRow = {
  id: Uint8Array
  epoch: number
  provider: string
  wrapped: Uint8Array
  keys: number
  created_at: number
}

const readRows = (db: DatabaseSync): DekRow[] => db.prepare('SELECT * FROM deks ORDER BY epoch').all() as DekRow[]

/**
 * Unwraps every data key, so that a wrong master key is detected at the start and not at the first signature; outside a
 * transaction.
 * @throws StartError  if the master key is not the one of this store, or is unavailable
 */
export async function unwrapDeks(db: DatabaseSync, kek: Kek): Promise<OpenDeks> {
  const { deks } = await unwrapStored(db, kek)
  return { kek, deks, spare: deks.size === 0 ? await makeSpare(1, kek) : null }
}

/** Unwraps the data keys of a store that is opened read-only. @throws StartError  like `unwrapDeks` */
export async function unwrapStored(db: DatabaseSync, kek: Kek): Promise<Pick<OpenDeks, 'deks'>> {
  const deks = new Map<number, KeyObject>()
  for (const row of readRows(db)) deks.set(row.epoch, await openDek(row, kek))
  return { deks }
}

/** Opens the data keys that `unwrapDeks` has unwrapped; inside a transaction. */
export function openDeks({
  db,
  unwrapped,
  now,
  keysPerEpoch = KEYS_PER_EPOCH,
}: {
  db: DatabaseSync
  unwrapped: OpenDeks
  now: () => number
  keysPerEpoch?: number
}): Deks {
  const { deks: opened } = unwrapped
  let { kek, spare } = unwrapped
  let preparing: Promise<void> | null = null
  let fault: string | null = null
  let failedAt = -Infinity
  const kept = readRows(db).map((row) => ({ ...toKept(row), keys: row.keys }))
  const isNew = kept.length === 0
  const macKeys = new Map([...opened].map(([epoch, dek]) => [epoch, macKeyOf(dek)]))
  const insert = db.prepare('INSERT INTO deks (id, epoch, provider, wrapped, created_at) VALUES (?, ?, ?, ?, ?)')
  const wrapAnew = db.prepare('UPDATE deks SET provider = ?, wrapped = ? WHERE epoch = ?')
  const addKeys = db.prepare('UPDATE deks SET keys = keys + ? WHERE epoch = ?')
  const unwritten = new Map<number, number>()
  const rowOf = (epoch: number) => kept.find((row) => row.epoch === epoch)!

  return {
    isNew,
    of: (epoch) => opened.get(epoch),
    prepare,
    prepareSoon() {
      if (preparing !== null || systemClock.ticks() - failedAt < RETRY_MS) return
      // `masterKey` reports why it failed.
      prepare().catch(() => {})
    },
    current,
    used(epoch) {
      addKeys.run(1, epoch)
      rowOf(epoch).keys += 1
    },
    rows: () => kept,
    row: rowOf,
    begin: () => (spare === null ? null : add(spare).epoch),
    moved(from, to) {
      for (const [epoch, more] of [
        [from, -1],
        [to, 1],
      ] as const) {
        rowOf(epoch).keys += more
        unwritten.set(epoch, (unwritten.get(epoch) ?? 0) + more)
      }
    },
    writeMoved() {
      for (const [epoch, more] of unwritten) addKeys.run(more, epoch)
      unwritten.clear()
    },
    masterKey: () => ({ provider: kek.provider, fault }),
    async probe() {
      const newest = kept.at(-1)!
      // `masterKey` reports the fault.
      await watched(() => openDek(newest, kek)).catch(() => {})
    },
    isBy: (other) => opensAny(db, other),
    wrapBy,
    wrapByNewest: async () => (kek.isVersioned === true ? watched(() => wrapBy(kek)) : null),
    takeOver({ from, kek: next, wrapped }) {
      if (from !== kek || kept.some(({ epoch }) => !wrapped.has(epoch))) return false
      for (const row of kept) {
        const bytes = wrapped.get(row.epoch)!
        wrapAnew.run(next.provider, bytes, row.epoch)
        Object.assign(row, { provider: next.provider, wrapped: bytes })
      }
      kek = next
      fault = null
      // The previous master key has wrapped it.
      spare = null
      return true
    },
    macs: openMacs({
      current: () => kept.at(-1)?.epoch ?? current().epoch,
      keyOf: (epoch) => macKeys.get(epoch),
    }),
  }

  async function wrapBy(next: Kek): Promise<Takeover> {
    const [from, wrapped] = [kek, new Map<number, Buffer>()]
    for (const { epoch } of kept) wrapped.set(epoch, await wrapDek(opened.get(epoch)!, epoch, next))
    return { from, kek: next, wrapped }
  }

  function current(): { epoch: number; dek: KeyObject } {
    const { epoch } = isSpent() && spare !== null ? add(spare) : kept.at(-1)!
    return { epoch, dek: opened.get(epoch)! }
  }

  function isSpent(): boolean {
    const newest = kept.at(-1)
    return newest === undefined || now() - newest.createdAt > EPOCH_DAYS * 86_400_000 || newest.keys >= keysPerEpoch
  }

  async function prepare(need?: 'always'): Promise<void> {
    if (spare !== null || (need === undefined && !isSpent())) return
    const by = kek
    preparing ??= watched(() => makeSpare((kept.at(-1)?.epoch ?? 0) + 1, by))
      // Another master key may have taken over in between.
      .then((made) => void (spare = by === kek ? made : null))
      .finally(() => (preparing = null))
    return preparing
  }

  async function watched<T>(use: () => Promise<T>): Promise<T> {
    const by = kek
    try {
      const value = await use()
      if (by === kek) fault = null
      return value
    } catch (error) {
      failedAt = systemClock.ticks()
      if (by === kek) fault = error instanceof StartError ? error.message : 'The master key (KEK) failed.'
      throw error
    }
  }

  function add({ epoch, dek, wrapped }: SpareDek): KeptDek {
    const row = { id: randomBytes(16), epoch, provider: kek.provider, wrapped, createdAt: now(), keys: 0 }
    insert.run(row.id, epoch, row.provider, wrapped, row.createdAt)
    spare = null
    opened.set(epoch, dek)
    macKeys.set(epoch, macKeyOf(dek))
    kept.push(row)
    return row
  }
}

/** Returns the MACs of a store that is opened read-only, to verify them. */
export function readMacs({ deks }: Pick<OpenDeks, 'deks'>): Macs {
  const keys = new Map([...deks].map(([epoch, dek]) => [epoch, macKeyOf(dek)]))
  return openMacs({ current: () => Math.max(...keys.keys()), keyOf: (epoch) => keys.get(epoch) })
}

/**
 * Returns whether a master key opens a store. It tries one data key, because one master key wraps them all. False if there is none.
 * @throws KekUnavailable
 */
export async function opensAny(db: DatabaseSync, kek: Kek): Promise<boolean> {
  const row = db.prepare('SELECT * FROM deks ORDER BY epoch LIMIT 1').get() as DekRow | undefined
  if (row === undefined) return false
  try {
    await openDek(row, kek)
    return true
  } catch (error) {
    if (error instanceof KekUnavailable) throw error
    return false
  }
}

const toKept = ({ id, epoch, provider, wrapped, created_at: createdAt }: DekRow): KeptDek => ({
  id: Buffer.from(id),
  epoch,
  provider,
  wrapped: Buffer.from(wrapped),
  createdAt,
})

/** Unwraps a data key. @throws StartError  if the master key did not wrap it, or is unavailable */
export async function openDek({ epoch, wrapped }: Pick<DekRow, 'epoch' | 'wrapped'>, kek: Kek): Promise<KeyObject> {
  let dek: Buffer
  try {
    dek = await kek.unwrap(Buffer.from(wrapped), aadOf(epoch))
  } catch (cause) {
    if (cause instanceof KekUnavailable) throw cause
    throw new StartError(
      'The master key (KEK) does not open this store. Use the key that created the store, or the key of the last `signer rotate-kek`.',
      cause,
    )
  }
  return intoKeyObject(dek)
}

async function makeSpare(epoch: number, kek: Kek): Promise<SpareDek> {
  const dek = intoKeyObject(randomBytes(32))
  return { epoch, dek, wrapped: await wrapDek(dek, epoch, kek) }
}

/**
 * Wraps a data key, then unwraps it again before it is used. A data key that does not unwrap would make the store unreadable.
 * @throws KekUnavailable
 */
async function wrapDek(dek: KeyObject, epoch: number, kek: Kek): Promise<Buffer> {
  const bytes = dek.export()
  try {
    const wrapped = await kek.wrap(bytes, aadOf(epoch))
    const again = await openDek({ epoch, wrapped }, kek).catch((error: unknown) => {
      throw error instanceof KekUnavailable ? error : new NotComingBack()
    })
    if (!again.equals(dek)) throw new NotComingBack()
    return wrapped
  } finally {
    bytes.fill(0)
  }
}

class NotComingBack extends KekUnavailable {
  constructor() {
    super('The master key (KEK) cannot decrypt a value that it has just encrypted. It is not used.')
  }
}

const aadOf = (epoch: number): Buffer => canonical('chatelaine data key 1', epoch)

function intoKeyObject(bytes: Buffer): KeyObject {
  try {
    return createSecretKey(bytes)
  } finally {
    bytes.fill(0)
  }
}
