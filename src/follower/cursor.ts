import { sql } from 'kysely'
import type { Block } from '../chain/rpc/block.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import type { ReadFrom } from './receipt-source.ts'

/**
 * Seconds after which another process takes over from a follower that no longer renews its lease. A running follower
 * renews it every second.
 */
const LEASE_SECONDS = 4

/** The block before block 0, where a development chain's cursor starts. */
export const BEFORE_GENESIS = { number: -1, hash: `0x${'00'.repeat(32)}` as Hex }

/**
 * Identifies the process that follows. A write with another lease changes nothing. The epoch alone does not identify
 * the process: a database that lost its newest commits assigns the same epoch again. So `owner` is random.
 */
export type Lease = { epoch: number; owner: string }

/** Position of the follower, and its lease. */
export type Position = Lease & { number: number; hash: Hex; finalized: number; halted: string | null }

const COLUMNS = ['block_number', 'block_hash', 'finalized_number', 'epoch', 'lease_owner', 'halted'] as const
type CursorRow = {
  lease_owner: string | null
  block_number: number
  block_hash: Uint8Array
  finalized_number: number
  epoch: number
  halted: string | null
}

const positionOf = (row: CursorRow): Position => ({
  number: row.block_number,
  hash: toHex(row.block_hash),
  finalized: row.finalized_number,
  epoch: row.epoch,
  owner: row.lease_owner ?? '',
  halted: row.halted,
})

// Lease times are compared only with the database's clock: machines' clocks differ.
const leaseEnd = () => sql<Date>`now() + ${sql.lit(`${LEASE_SECONDS} seconds`)}::interval`
const isLeased = sql<boolean>`coalesce(lease_until > now(), false)`

/**
 * Last followed block, and why the follower does not continue: halted permanently, or blocked by the next block. If
 * both are null, it continues.
 */
export type FollowerStop = { followed: number; halted: string | null; blockedBy: string | null }

/**
 * Returns the cursor for a process that does not hold its lease: its position, and whether another process holds it.
 */
export async function readFollowerCursor(
  db: Db,
  chainId: number,
): Promise<(FollowerStop & { isLeased: boolean; block: Block | null; indexedTo: number | null }) | null> {
  const row = await db
    .selectFrom('cursors as cursor')
    .leftJoin('blocks as block', (join) =>
      join.onRef('block.chain_id', '=', 'cursor.chain_id').onRef('block.number', '=', 'cursor.block_number'),
    )
    .leftJoin('history_cursors as history', 'history.chain_id', 'cursor.chain_id')
    .select([
      'cursor.halted',
      'cursor.blocked_by',
      'cursor.block_number as followed',
      isLeased.as('is_leased'),
      'history.block_number as indexed',
    ])
    .select(['block.number', 'block.hash', 'block.parent_hash', 'block.mined_at', 'block.base_fee'])
    .where('cursor.chain_id', '=', chainId)
    .executeTakeFirst()
  if (row === undefined) return null
  const { number, hash, parent_hash, mined_at, base_fee } = row
  // If the block is not stored, the join returns null for all its columns.
  const block = number === null ? null : blockOf({ number, hash: hash!, parent_hash: parent_hash!, mined_at: mined_at!, base_fee }) // prettier-ignore
  const { halted, blocked_by: blockedBy, followed } = row
  return { isLeased: row.is_leased, halted, blockedBy, followed, block, indexedTo: row.indexed }
}

/** Converts a row of `blocks` to the header that it was made from. */
export function blockOf(row: {
  number: number
  hash: Uint8Array
  parent_hash: Uint8Array
  mined_at: Date
  base_fee: Uint8Array | null
}): Block {
  return {
    number: row.number,
    hash: toHex(row.hash),
    parentHash: toHex(row.parent_hash),
    timestamp: Math.floor(row.mined_at.getTime() / 1_000),
    baseFee: row.base_fee === null ? null : BigInt(toHex(row.base_fee)),
  }
}

/**
 * Creates the cursor of a network that was never followed. A second call changes nothing.
 * @returns whether it was created
 */
export async function openCursor(db: Db, chainId: number, start: { number: number; hash: Hex }): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('cursors')
    .values({
      chain_id: chainId,
      block_number: start.number,
      block_hash: fromHex(start.hash),
      finalized_number: start.number,
      epoch: 0,
      lease_owner: null,
      lease_until: null,
      halted: null,
    })
    .onConflict((on) => on.column('chain_id').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

/** Acquires a free or expired lease with a new epoch; returns null while another process holds it. */
export async function takeLease(db: Db, chainId: number, owner: string): Promise<Position | null> {
  const row = await db
    .updateTable('cursors')
    .set((eb) => ({ lease_owner: owner, lease_until: leaseEnd(), epoch: eb('epoch', '+', 1), blocked_by: null }))
    .where('chain_id', '=', chainId)
    .where(isLeased, '=', false)
    .returning(COLUMNS)
    .executeTakeFirst()
  return row === undefined ? null : positionOf(row)
}

/**
 * Renews a lease, even an expired one that nobody has acquired; returns null if another process has it, or if it never
 * existed.
 */
export async function renewLease(db: Db, chainId: number, { epoch, owner }: Lease): Promise<Position | null> {
  const row = await db
    .updateTable('cursors')
    .set({ lease_until: leaseEnd() })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .returning(COLUMNS)
    .executeTakeFirst()
  return row === undefined ? null : positionOf(row)
}

/**
 * Acquires the lease from its holder and lets a halted follower continue. For an operator's command, inside the
 * transaction that moves the cursor. The former holder is fenced.
 */
export async function seizeLease(db: Db, chainId: number, owner: string): Promise<Position | null> {
  const row = await db
    .updateTable('cursors')
    .set((eb) => ({
      lease_owner: owner,
      lease_until: leaseEnd(),
      epoch: eb('epoch', '+', 1),
      halted: null,
      blocked_by: null,
    }))
    .where('chain_id', '=', chainId)
    .returning(COLUMNS)
    .executeTakeFirst()
  return row === undefined ? null : positionOf(row)
}

/** Releases the lease, so that another process need not wait for its end. */
export async function releaseLease(db: Db, chainId: number, { epoch, owner }: Lease): Promise<void> {
  await db
    .updateTable('cursors')
    .set({ lease_owner: null, lease_until: null })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .execute()
}

/** Ends any lease. Only for a database with a single process: the holder is then dead. */
export async function endLease(db: Db, chainId: number): Promise<void> {
  await db
    .updateTable('cursors')
    .set({ lease_owner: null, lease_until: null })
    .where('chain_id', '=', chainId)
    .execute()
}

/** Another process has moved the cursor: this one no longer follows. */
export class Fenced extends Error {
  constructor() {
    super('another process follows this chain now')
    this.name = 'Fenced'
  }
}

/**
 * Moves the cursor and renews the lease. Must be the first statement of every transaction of the follower. It locks the
 * row: a process that takes over waits for this commit, or this call fails.
 * @throws Fenced
 */
export async function moveCursor(
  db: Db,
  chainId: number,
  held: Position,
  to: { number: number; hash: Hex; finalized: number },
): Promise<void> {
  const row = await db
    .updateTable('cursors')
    .set({
      block_number: to.number,
      block_hash: fromHex(to.hash),
      finalized_number: to.finalized,
      lease_until: leaseEnd(),
      blocked_by: null,
      updated_at: sql<Date>`now()`,
    })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', held.epoch)
    .where('lease_owner', '=', held.owner)
    .where('block_hash', '=', fromHex(held.hash))
    .where('halted', 'is', null)
    .returning('epoch')
    .executeTakeFirst()
  if (row === undefined) throw new Fenced()
}

/** Stores which calls the results of blocks are read from. Does nothing if another process follows. */
export const setReadFrom = (db: Db, chainId: number, lease: Lease, readFrom: ReadFrom): Promise<void> =>
  note(db, chainId, lease, { read_from: readFrom })

/** Stores why the follower is blocked; null: it is not. Does nothing if another process follows. */
export const setBlockedBy = (db: Db, chainId: number, lease: Lease, blockedBy: string | null): Promise<void> =>
  note(db, chainId, lease, { blocked_by: blockedBy })

async function note(
  db: Db,
  chainId: number,
  { epoch, owner }: Lease,
  what: { read_from: ReadFrom } | { blocked_by: string | null },
): Promise<void> {
  await db
    .updateTable('cursors')
    .set(what)
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .execute()
}

/**
 * Halts the follower in every process, or lets it continue (null). The cursor must be at the block that was compared
 * with the node's: a restored database may have other blocks.
 * @throws Fenced
 */
export async function setHalted(
  db: Db,
  chainId: number,
  { epoch, owner, hash }: Lease & Pick<Position, 'hash'>,
  halted: string | null,
): Promise<void> {
  const row = await db
    .updateTable('cursors')
    .set({ halted, updated_at: sql<Date>`now()` })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .where('block_hash', '=', fromHex(hash))
    .returning('epoch')
    .executeTakeFirst()
  if (row === undefined) throw new Fenced()
}
