import { sql } from 'kysely'
import type { Block } from '../chain/rpc/block.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import type { ReadFrom } from './receipt-source.ts'

/** Seconds a follower may be silent before another process takes over. A live one renews four times in it. */
const LEASE_SECONDS = 4

/** Before block 0: where a development chain's cursor starts. */
export const BEFORE_GENESIS = { number: -1, hash: `0x${'00'.repeat(32)}` as Hex }

/**
 * Who follows: a write that names another one changes nothing. The epoch alone does not say it, for a database that has
 * lost its newest commits gives out the same one again; the owner is random.
 */
export type Lease = { epoch: number; owner: string }

/** Where the follower is, and by which lease. */
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

// Lease times are compared with the database's clock only: machines disagree about the time.
const leaseEnd = () => sql<Date>`now() + ${sql.lit(`${LEASE_SECONDS} seconds`)}::interval`
const isLeased = sql<boolean>`coalesce(lease_until > now(), false)`

/** At which block a network is followed no further, and why: halted for good, or held up by the block behind it. Both null: it is followed. */
export type FollowerStop = { followed: number; halted: string | null; blockedBy: string | null }

/** The cursor as a process sees it that does not hold it: where it is, and whether someone does. */
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
  // Of a block that is not stored the join gives none of the columns.
  const block = number === null ? null : blockOf({ number, hash: hash!, parent_hash: parent_hash!, mined_at: mined_at!, base_fee }) // prettier-ignore
  const { halted, blocked_by: blockedBy, followed } = row
  return { isLeased: row.is_leased, halted, blockedBy, followed, block, indexedTo: row.indexed }
}

/** A row of `blocks` as the header it was made from. */
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

/** Makes the cursor of a network that was never followed; anyone who comes second changes nothing. @returns whether it was made */
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

/** Takes a free or expired lease under a new epoch; null while another process holds it. */
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

/** Keeps a lease, also an expired one that nobody took; null when it is another's, or was never given out. */
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
 * Takes the lease from its holder, and lets a stopped follower continue: for an operator's command, inside the transaction that
 * moves the cursor. Who had it is fenced.
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

/** Gives the lease back, so that another process need not wait for its end. */
export async function releaseLease(db: Db, chainId: number, { epoch, owner }: Lease): Promise<void> {
  await db
    .updateTable('cursors')
    .set({ lease_owner: null, lease_until: null })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .execute()
}

/** Ends whatever lease there is. Only for a database that has one process: then its holder is dead. */
export async function endLease(db: Db, chainId: number): Promise<void> {
  await db
    .updateTable('cursors')
    .set({ lease_owner: null, lease_until: null })
    .where('chain_id', '=', chainId)
    .execute()
}

/** The cursor was moved by another process: this one no longer follows. */
export class Fenced extends Error {
  constructor() {
    super('another process follows this chain now')
    this.name = 'Fenced'
  }
}

/**
 * Moves the cursor. First statement of every transaction of the follower: it locks the row, so that a process
 * that takes over waits for our commit or we fail here, and renews the lease.
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

/** Notes what the results of blocks are read from; nothing where another process follows. */
export const setReadFrom = (db: Db, chainId: number, lease: Lease, readFrom: ReadFrom): Promise<void> =>
  note(db, chainId, lease, { read_from: readFrom })

/** Notes what holds the follower up, or that nothing does any more (null); nothing where another process follows. */
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
 * Stops the follower for everyone, or lets it continue (null). The cursor must be at the block that was judged: a database that
 * returned to an older one has other blocks, of which nothing was compared with the node's.
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
