import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from './db.ts'

/** Returns the hash of a block of the canonical chain, as the follower stored it; null if that number is not stored. */
export const storedBlockHash = (db: Db, chainId: number, number: number): Promise<Hex | null> =>
  storedHash(db, 'hash', { chainId, number })

/** Returns the parent hash of the block with this number; null if it is not stored. */
export const storedParentHash = (db: Db, chainId: number, number: number): Promise<Hex | null> =>
  storedHash(db, 'parent_hash', { chainId, number })

async function storedHash(
  db: Db,
  which: 'hash' | 'parent_hash',
  { chainId, number }: { chainId: number; number: number },
): Promise<Hex | null> {
  const row = await db
    .selectFrom('blocks')
    .select(`${which} as hash`)
    .where('chain_id', '=', chainId)
    .where('number', '=', number)
    .executeTakeFirst()
  return row === undefined ? null : toHex(row.hash)
}
