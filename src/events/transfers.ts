import { sql } from 'kysely'
import type { Db } from '../store/db.ts'

/**
 * Notes transfers of all blocks from a number on, for the feeds of applications: those that the history has just stored,
 * or is about to delete. Inside a transaction that holds the history's cursor. Spam is not noted, and neither is what a
 * backfill stores.
 */
export async function noteTransfers(
  db: Db,
  chainId: number,
  verb: 'detected' | 'retracted',
  fromNumber: number,
): Promise<void> {
  await sql`select note_transfers(${chainId}::bigint, ${verb}::text, ${fromNumber - 1}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint, null)`.execute(
    db,
  )
}

/**
 * Notes transfers whose blocks have become final since the last call. A network's first call notes none: its earlier
 * transfers were not noted when they arrived. Inside a transaction that holds the history's cursor.
 */
export async function noteFinalTransfers(db: Db, chainId: number): Promise<void> {
  const { rows } = await sql<{ was: number | null; is: number }>`
    insert into final_transfers as final (chain_id, block_number)
    select cursor.chain_id, least(cursor.finalized_number, history.block_number)
      from cursors cursor join history_cursors history on history.chain_id = cursor.chain_id where cursor.chain_id = ${chainId}::bigint
    on conflict (chain_id) do update set block_number = excluded.block_number where final.block_number <> excluded.block_number
    returning block_number as is, (select block_number from final_transfers before where before.chain_id = final.chain_id) as was`.execute(
    db,
  )
  const [moved] = rows
  if (moved === undefined || moved.was === null || moved.is <= moved.was) return
  await sql`select note_transfers(${chainId}::bigint, 'finalized', ${moved.was}::bigint, ${moved.is}::bigint, null)`.execute(
    db,
  )
}
