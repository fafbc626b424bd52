/**
 * signer/ledger: all signatures in order, and the proof that no record was removed or changed.
 * Owns: the records and their MACs, the Merkle tree over them and its signed heads, the witness of the ledger's end.
 * Does not own: which signature the records allow next (`signer/rules/judge.ts`), keys (`signer/keys/deks.ts`).
 */

import type { DatabaseSync } from 'node:sqlite'
import { assertMac, type Macs } from './macs.ts'
import type { Overruled } from './heads.ts'
import { hiddenRecord } from './index-faults.ts'
import { openMessages, type MessageLedger } from './message-ledger.ts'
import { openOperations, type OperationLedger } from './operation-ledger.ts'
import {
  COLUMNS,
  GENESIS,
  isAgreed,
  OUTER,
  recordOf,
  toRow,
  type LedgerAttempt,
  type LedgerRow,
  type NewEntry,
} from './record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { decodeRestored } from './restored.ts'
import { dearerBy, type Unattended } from '../rules/unattended.ts'
import { openTree, type Tree } from './tree.ts'
import type { LedgerHead } from './witness.ts'

export type LedgerSlot = { chainId: number; address: Buffer; nonce: number }

export type Ledger = {
  tree: Tree
  /** sizes of heads that were lost with an older store; the record of each restore overrules them */
  overruled: readonly Overruled[]
  /** true if a restore was accepted and nothing was signed with a token since */
  isFreshlyRestored: boolean
  head: () => LedgerHead
  /**
   * signatures of a nonce, oldest first. Each is verified by its hash and MAC, because the agreement that it records allows fee
   * bumps without a token.
   * @throws LedgerDamaged
   */
  attempts: (slot: LedgerSlot) => LedgerAttempt[]
  operations: OperationLedger
  messages: MessageLedger
  /** true if the intent was signed under another chain, address or nonce */
  isElsewhere: (intentId: string, slot: LedgerSlot) => boolean
  lane: (slot: LedgerSlot) => { lowest: number; highest: number } | null
  unsignedBetween: (slot: LedgerSlot, low: number, high: number) => number
  unvouchedBetween: (slot: LedgerSlot, low: number, high: number) => number[]
  /** the chain's count for the account when an older copy was accepted as the store: all nonces below it are used */
  floor: (slot: LedgerSlot) => number
  /** signatures without a token since a time, newest first */
  unattendedSince: (at: number) => Iterable<Unattended>
  /** true if the key of the account was exported or imported: another holder may use its nonces */
  isHeldElsewhere: (userId: string) => boolean
  /** signatures of a user's account below a record, newest first; on all networks if `chainId` is null */
  signaturesBefore: (
    of: { userId: string; chainId: number | null; intentId: string | null },
    seq: number,
    most: number,
  ) => LedgerRow[]
  /** signatures of transactions, operations and messages after a record, oldest first */
  signaturesSince: (seq: number, most: number) => LedgerRow[]
  /** true if an account was created for the user */
  hasAccount: (userId: string) => boolean
  /** newest first */
  ofIntent: (intentId: string) => Iterable<LedgerAttempt>
  /** records after a record number, oldest first */
  since: (seq: number, most: number) => LedgerRow[]
  /** the record hash of the last restore; null if there was none */
  restored: Buffer | null
  /** the hash of a record; null if there is none */
  recordAt: (seq: number) => Buffer | null
  /** appends a record to the chain; inside a transaction */
  append: (entry: NewEntry) => void
}

/** The rule in the account record of an imported key (import-keys.ts). */
export const IMPORTED = 'imported-key'
/**
 * Rules of `export` records that replace lost ones (elsewhere.ts). Each states that a lost record shows the key as
 * exported or imported.
 */
export const TOLD = { exported: 'exported-before', imported: 'imported-before' } as const

/** consecutive records dated before a time, after which all older records count as before it */
const MAX_MISDATED = 1_000

/** Newest records verified at every start; `verify` verifies all of them. */
const TAIL = 1_000

/**
 * Opens the ledger without checking its witness (`checkWitness`).
 * @throws LedgerDamaged  if its newest records are broken or this signer did not write them
 */
export function openUnwitnessed(db: DatabaseSync, macs: Macs): Ledger {
  let head = readHead(db)
  checkTail(db, head, macs)
  const assertOwn = openOwnRecords(db, macs)
  const { floors, overruled } = readRestores(db, assertOwn)
  const tree = openTree(db, head.count)

  const attempts = db.prepare(
    `SELECT * FROM ledger WHERE address = ? AND chain_id = ? AND nonce = ? AND kind <> 'authorization' ORDER BY seq`,
  )
  const elsewhere = db.prepare(
    'SELECT 1 FROM ledger WHERE intent_id = ? AND NOT (address = ? AND chain_id = ? AND nonce IS ?)',
  )
  const ofIntent = db.prepare(`SELECT * FROM ledger
    WHERE intent_id = ? AND kind IN ('send', 'replace', 'cancel') ORDER BY seq DESC`)
  const since = db.prepare(
    `SELECT seq, kind, address, chain_id, nonce, intent_id, effect, hash, record FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?`,
  )
  const recordAt = db.prepare('SELECT record FROM ledger WHERE seq = ?')
  // Run two index searches: min and max in one SELECT would scan all rows of the account.
  const lane = db.prepare(`SELECT
    (SELECT min(nonce) FROM ledger WHERE address = ?1 AND chain_id = ?2 AND nonce IS NOT NULL) AS lowest,
    (SELECT max(nonce) FROM ledger WHERE address = ?1 AND chain_id = ?2 AND nonce IS NOT NULL) AS highest`)
  const signed = db.prepare(
    'SELECT count(DISTINCT nonce) AS nonces FROM ledger WHERE address = ? AND chain_id = ? AND nonce BETWEEN ? AND ?',
  )
  const unvouched = db.prepare(`SELECT nonce FROM ledger
    WHERE address = ? AND chain_id = ? AND nonce BETWEEN ? AND ? GROUP BY nonce
    HAVING count(token_id) = 0 AND count(*) FILTER (WHERE rule = '${OUTER}' AND kind = 'send') = 0`)
  const newestFirst = db.prepare('SELECT * FROM ledger ORDER BY seq DESC')
  const account = db.prepare(`SELECT 1 FROM ledger WHERE user_id = ? AND kind = 'account'`)
  const elsewhereHeld = db.prepare(
    `SELECT * FROM ledger WHERE user_id = ?1 AND kind IN ('export-request', 'export-cancel', 'export') AND kind = 'export'
      UNION ALL SELECT * FROM ledger WHERE user_id = ?1 AND kind = 'account' AND rule = '${IMPORTED}'`,
  )
  const signatures = db.prepare(`SELECT * FROM ledger
    WHERE user_id = ?1 AND intent_id IS NOT NULL AND seq < ?2 AND (?4 IS NULL OR chain_id = ?4)
    ORDER BY seq DESC LIMIT ?3`)
  const signaturesOfIntent = db.prepare(`SELECT * FROM ledger INDEXED BY ledger_intent
    WHERE intent_id = ?5 AND user_id = ?1 AND seq < ?2 AND (?4 IS NULL OR chain_id = ?4) ORDER BY seq DESC LIMIT ?3`)
  const signaturesSince = db.prepare(`SELECT * FROM ledger
    WHERE seq > ? AND kind IN ('send', 'replace', 'cancel', 'operation', 'message') ORDER BY seq LIMIT ?`)
  const insert = db.prepare(
    `INSERT INTO ledger (${COLUMNS.join(', ')}, record, mac) VALUES (${COLUMNS.map(() => '?').join(', ')}, ?, ?)`,
  )
  const moveHead = db.prepare('UPDATE ledger_head SET count = ?, record = ?')

  function isOwn(row: LedgerRow): boolean {
    try {
      assertOwn(row)
      return true
    } catch (error) {
      if (error instanceof LedgerDamaged) return false
      throw error
    }
  }

  const operations = openOperations(db)
  const attemptsAt = ({ address, chainId, nonce }: LedgerSlot) => attempts.all(address, chainId, nonce) as LedgerRow[]

  return {
    tree,
    overruled,
    restored: lastRestore(db),
    isFreshlyRestored: db.prepare(FRESHLY_RESTORED).get() !== undefined,
    head: () => head,
    attempts(slot) {
      const rows = attemptsAt(slot)
      for (const row of rows) assertOwn(row)
      return rows.map(readHeld)
    },
    operations,
    messages: openMessages(db),
    isElsewhere: (intentId, { address, chainId, nonce }) =>
      elsewhere.get(intentId, address, chainId, nonce) !== undefined,
    lane({ address, chainId }) {
      const { lowest, highest } = lane.get(address, chainId) as { lowest: number; highest: number } | Nothing
      return lowest === null ? null : { lowest, highest }
    },
    unsignedBetween({ address, chainId }, low, high) {
      if (high < low) return 0
      return high - low + 1 - (signed.get(address, chainId, low, high) as { nonces: number }).nonces
    },
    unvouchedBetween: ({ address, chainId }, low, high) =>
      (unvouched.all(address, chainId, low, high) as { nonce: number }[]).map(({ nonce }) => nonce),
    floor: ({ address, chainId }) => floors.get(slotKey(address.toString('hex'), chainId)) ?? 0,
    *unattendedSince(time) {
      let older = 0
      for (const row of newestFirst.iterate() as Iterable<LedgerRow>) {
        // A wrong clock may have misdated a few records.
        older = row.at < time ? older + 1 : 0
        if (older > MAX_MISDATED) return
        if (older > 0) continue
        if (row.token_id !== null || row.nonce === null) continue
        const held = readHeld(row)
        // The first attempt of a sponsor transaction has limits of its own (gas-limits.ts).
        if (held.isAgreed) continue
        const before = attemptsAt(held)
          .map(readHeld)
          .filter((attempt) => attempt.seq < held.seq && !attempt.isAgreed)
        yield { chainId: held.chainId, at: held.at, wei: dearerBy(held, before) }
      }
    },
    // Needed only for a nonce far ahead. The records are verified, so that an inserted record allows no such nonce.
    isHeldElsewhere: (userId) => (elsewhereHeld.all(userId) as LedgerRow[]).some(isOwn),
    signaturesBefore: ({ userId, chainId, intentId }, seq, most) =>
      (intentId === null
        ? signatures.all(userId, seq, most, chainId)
        : signaturesOfIntent.all(userId, seq, most, chainId, intentId)) as LedgerRow[],
    signaturesSince: (seq, most) => signaturesSince.all(seq, most) as LedgerRow[],
    hasAccount: (userId) => account.get(userId) !== undefined,
    *ofIntent(intentId) {
      for (const row of ofIntent.iterate(intentId) as Iterable<LedgerRow>) yield readHeld(row)
    },
    since: (seq, most) => since.all(seq, most) as LedgerRow[],
    recordAt(seq) {
      if (seq === 0) return GENESIS
      const row = recordAt.get(seq) as Pick<LedgerRow, 'record'> | undefined
      return row === undefined ? null : Buffer.from(row.record)
    },
    append(entry) {
      const row = toRow(head.count + 1, entry)
      const record = recordOf(head.record, row)
      insert.run(...COLUMNS.map((column) => row[column]), record, macs.of(record))
      moveHead.run(row.seq, record)
      tree.append(record)
      head = { count: row.seq, record }
      if ('carries' in entry) operations.carry(row.seq, entry.carries ?? [])
    },
  }
}

/** Result of an aggregate over no rows. */
type Nothing = { lowest: null; highest: null }

/** Reads the end of the ledger. @throws LedgerDamaged */
export function readHead(db: DatabaseSync): LedgerHead {
  const row = db.prepare('SELECT count, record FROM ledger_head').get() as LedgerHead | undefined
  if (row === undefined) throw new LedgerDamaged('The head record of the ledger is missing.')
  return { count: row.count, record: Buffer.from(row.record) }
}

function checkTail(db: DatabaseSync, head: LedgerHead, macs: Macs): void {
  const { lowest } = db.prepare('SELECT min(seq) AS lowest FROM ledger').get() as { lowest: number | null }
  // A record numbered below 1 is not part of the hash chain, but look-ups would find it first.
  if (lowest !== null && lowest < 1) throw broken(lowest)
  const start = Math.max(0, head.count - TAIL)
  const rows = db.prepare('SELECT * FROM ledger WHERE seq > ? ORDER BY seq').iterate(start) as Iterable<LedgerRow>
  const before = db.prepare('SELECT record FROM ledger WHERE seq = ?').get(start) as
    | Pick<LedgerRow, 'record'>
    | undefined
  if (start > 0 && before === undefined) throw new LedgerDamaged(`Record ${start} of the ledger is missing.`)
  let chained: LedgerHead = { count: start, record: Buffer.from(before?.record ?? GENESIS) }
  for (const row of rows) {
    chained = follow(chained, row)
    assertMac(macs, row)
  }
  if (chained.count !== head.count || !chained.record.equals(head.record)) {
    throw new LedgerDamaged('The ledger does not end at its head record.')
  }
  const hidden = hiddenRecord(db, start)
  if (hidden !== null)
    throw new LedgerDamaged(`Record ${hidden} of the ledger is in its table and not in an index of it.`)
}

/** Verifies that a record continues the chain, and returns the new end. @throws LedgerDamaged  naming the record that does not */
export function follow(previous: LedgerHead, row: LedgerRow): LedgerHead {
  const record = recordOf(previous.record, row)
  if (row.seq !== previous.count + 1 || !record.equals(row.record)) {
    throw broken(row.seq)
  }
  return { count: row.seq, record }
}

const broken = (seq: number): LedgerDamaged =>
  new LedgerDamaged(`Record ${seq} of the ledger was altered, or one before it is missing.`)

/**
 * Compares the ledger with its witness. @throws LedgerDamaged  if the store is older than the signatures that the
 * signer has returned
 */
export function checkWitness(db: DatabaseSync, head: LedgerHead, witness: LedgerHead | null): void {
  if (witness === null) {
    if (head.count === 0) return
    throw new LedgerDamaged('The witness of the ledger is missing or incomplete.')
  }
  if (witness.count > head.count) {
    const lost = witness.count - head.count
    throw new LedgerDamaged(`The store was rolled back: ${lost} of ${witness.count} records are missing.`)
  }
  const row = db.prepare('SELECT record FROM ledger WHERE seq = ?').get(witness.count) as LedgerRow | undefined
  if (!witness.record.equals(Buffer.from(row?.record ?? GENESIS))) {
    throw new LedgerDamaged(`The store is another one: record ${witness.count} is not the one that was witnessed.`)
  }
}

function lastRestore(db: DatabaseSync): Buffer | null {
  const row = db.prepare(`SELECT record FROM ledger WHERE kind = 'restore' ORDER BY seq DESC LIMIT 1`).get()
  return row === undefined ? null : Buffer.from((row as Pick<LedgerRow, 'record'>).record)
}

const FRESHLY_RESTORED = `SELECT 1 FROM (SELECT max(seq) AS seq FROM ledger WHERE kind = 'restore') AS restore
  WHERE restore.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.seq > restore.seq AND token_id IS NOT NULL)`

/**
 * Returns a function that verifies one record anywhere in the ledger: the hash of its fields and of the record before
 * it, and its MAC. It is needed because the start verifies only the newest records. The function throws LedgerDamaged.
 */
export function openOwnRecords(db: DatabaseSync, macs: Macs): (row: LedgerRow) => void {
  const recordAt = db.prepare('SELECT record FROM ledger WHERE seq = ?')
  return (row) => {
    if (row.seq < 1) throw broken(row.seq)
    const before =
      row.seq === 1 ? GENESIS : (recordAt.get(row.seq - 1) as Pick<LedgerRow, 'record'> | undefined)?.record
    if (before === undefined) throw broken(row.seq)
    follow({ count: row.seq - 1, record: Buffer.from(before) }, row)
    assertMac(macs, row)
  }
}

/** Collects from all restores the highest floor of every account and chain, and the heads that they overruled. @throws LedgerDamaged */
function readRestores(
  db: DatabaseSync,
  assertOwn: (row: LedgerRow) => void,
): { floors: Map<string, number>; overruled: Overruled[] } {
  const floors = new Map<string, number>()
  const overruled: Overruled[] = []
  const rows = db.prepare(`SELECT * FROM ledger WHERE kind = 'restore'`).iterate()
  for (const row of rows as Iterable<LedgerRow>) {
    assertOwn(row)
    const { seq, at, raw } = row
    const restored = decodeRestored(raw!)
    // The restore's own record is the first in which the lost and the current ledger differ.
    overruled.push({ from: seq, to: Math.max(restored.witness?.count ?? 0, restored.shown ?? 0), before: at })
    for (const { address, chainId, nonce } of restored.floors) {
      const key = slotKey(address, chainId)
      floors.set(key, Math.max(floors.get(key) ?? 0, nonce))
    }
  }
  return { floors, overruled }
}

const slotKey = (address: string, chainId: number): string => `${address} ${chainId}`

/** These columns are never null for the kinds of signatures: the table checks it. */
function readHeld(row: LedgerRow): LedgerAttempt {
  return {
    seq: row.seq,
    at: row.at,
    kind: row.kind as LedgerAttempt['kind'],
    isAgreed: isAgreed({ tokenId: row.token_id, rule: row.rule, kind: row.kind }),
    userId: row.user_id,
    clientId: row.client_id,
    requestHash: row.request_hash === null ? null : Buffer.from(row.request_hash),
    intentId: row.intent_id!,
    chainId: row.chain_id!,
    address: Buffer.from(row.address),
    nonce: row.nonce!,
    effect: Buffer.from(row.effect!),
    feeType: row.fee_type!,
    gas: BigInt(row.gas!),
    max: BigInt(row.max_fee!),
    priority: BigInt(row.priority_fee!),
    hash: Buffer.from(row.hash!),
    raw: Buffer.from(row.raw!),
    rule: row.rule,
  }
}
