import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db, RootDb } from '../store/db.ts'
import { Fenced, openCursor, takeLease, type Lease, type Position } from './cursor.ts'

/** Position of the history's index, and its lease. */
export type HistoryCursor = Lease & { number: number; hash: Hex }

const COLUMNS = ['block_number', 'block_hash', 'epoch', 'lease_owner'] as const
type HistoryCursorRow = { block_number: number; block_hash: Uint8Array; epoch: number; lease_owner: string | null }

const cursorOf = (row: HistoryCursorRow): HistoryCursor => ({
  number: row.block_number,
  hash: toHex(row.block_hash),
  epoch: row.epoch,
  owner: row.lease_owner ?? '',
})

/**
 * Returns the block to which a network's history is indexed, and the one to which it is final; null before its first
 * block. `followedTo` is the newest stored block, which the index may lag behind. `halted` is a message for the
 * operator while the follower is halted below finality.
 */
export async function indexedTo(
  db: Db,
  chainId: number,
): Promise<{
  indexedTo: number | null
  finalizedTo: number | null
  followedTo: number | null
  halted: string | null
}> {
  const row = await db
    .selectFrom('cursors as cursor')
    .innerJoin('history_cursors as history', 'history.chain_id', 'cursor.chain_id')
    .select(['cursor.block_number as followed', 'history.block_number as indexed', 'finalized_number', 'halted'])
    .where('cursor.chain_id', '=', chainId)
    .executeTakeFirst()
  // A negative number is before the first block.
  const known = (number: number) => (number < 0 ? null : number)
  if (row === undefined) return { indexedTo: null, finalizedTo: null, followedTo: null, halted: null }
  return {
    indexedTo: known(row.indexed),
    finalizedTo: known(Math.min(row.finalized_number, row.indexed)),
    followedTo: known(row.followed),
    halted: row.halted,
  }
}

/** Creates both cursors of a network that was never followed. A second call changes nothing. */
export async function openCursors(root: RootDb, chainId: number, start: { number: number; hash: Hex }): Promise<void> {
  await root.transaction().execute(async (db) => {
    if (!(await openCursor(db, chainId, start))) return
    const place = { block_number: start.number, block_hash: fromHex(start.hash) }
    await db
      .insertInto('history_cursors')
      .values({ chain_id: chainId, ...place, epoch: 0, lease_owner: null })
      .execute()
  })
}

/** Acquires the follower's lease together with the history's. */
export async function takeLeaseAndHistory(root: RootDb, chainId: number, owner: string): Promise<Position | null> {
  return root.transaction().execute(async (db) => {
    const held = await takeLease(db, chainId, owner)
    if (held === null) return null
    await db.updateTable('history_cursors').set({ lease_owner: owner }).where('chain_id', '=', chainId).execute()
    return held
  })
}

/**
 * Acquires the history's lease, with a new epoch, for the process that holds the follower's lease; returns null if
 * another process holds the follower's lease.
 */
export async function takeHistory(db: Db, chainId: number, { epoch, owner }: Lease): Promise<HistoryCursor | null> {
  const row = await db
    .updateTable('history_cursors')
    .set((eb) => ({ epoch: eb('epoch', '+', 1), lease_owner: owner }))
    .where('chain_id', '=', chainId)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('cursors')
          .select('cursors.chain_id')
          .where('cursors.chain_id', '=', chainId)
          .where('cursors.epoch', '=', epoch)
          .where('cursors.lease_owner', '=', owner),
      ),
    )
    .returning(COLUMNS)
    .executeTakeFirst()
  return row === undefined ? null : cursorOf(row)
}

/** Returns the current cursor, which a reorganisation may have moved back; null if another process has the lease. */
export async function readHistory(db: Db, chainId: number, { epoch, owner }: Lease): Promise<HistoryCursor | null> {
  const row = await db
    .selectFrom('history_cursors')
    .select(COLUMNS)
    .where('chain_id', '=', chainId)
    .where('epoch', '=', epoch)
    .where('lease_owner', '=', owner)
    .executeTakeFirst()
  return row === undefined ? null : cursorOf(row)
}

/**
 * Moves the cursor. Must be the first statement of every transaction that stores transfers. It locks the row: a
 * reorganisation waits for this commit, or this call fails.
 * @throws Fenced
 */
export async function moveHistory(
  db: Db,
  chainId: number,
  held: HistoryCursor,
  to: { number: number; hash: Hex },
): Promise<void> {
  const row = await db
    .updateTable('history_cursors')
    .set({ block_number: to.number, block_hash: fromHex(to.hash), updated_at: sql<Date>`now()` })
    .where('chain_id', '=', chainId)
    .where('epoch', '=', held.epoch)
    .where('lease_owner', '=', held.owner)
    .where('block_hash', '=', fromHex(held.hash))
    .returning('epoch')
    .executeTakeFirst()
  if (row === undefined) throw new Fenced()
}

/**
 * Locks the history's cursor, so that no transfer is stored until this transaction ends. Returns its block; null before
 * the first one.
 */
export async function lockHistory(db: Db, chainId: number): Promise<{ number: number; hash: Hex } | null> {
  const row = await db
    .selectFrom('history_cursors')
    .select(['block_number', 'block_hash'])
    .where('chain_id', '=', chainId)
    .forUpdate()
    .executeTakeFirst()
  return row === undefined ? null : { number: row.block_number, hash: toHex(row.block_hash) }
}

/** Moves the cursor back to a lower block. The caller has locked it. */
export async function setHistoryBack(db: Db, chainId: number, to: { number: number; hash: Hex }): Promise<void> {
  await db
    .updateTable('history_cursors')
    .set({ block_number: to.number, block_hash: fromHex(to.hash), updated_at: sql<Date>`now()` })
    .where('chain_id', '=', chainId)
    .execute()
}
