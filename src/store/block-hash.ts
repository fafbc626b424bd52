import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from './db.ts'

/** The hash of a block of the canonical chain as the follower has stored it; null when it has none of that number. */
export const storedBlockHash = (db: Db, chainId: number, number: number): Promise<Hex | null> =>
  storedHash(db, 'hash', { chainId, number })

/** The hash that the block of this number names as its parent's; null when it is not stored. */
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
