import type { Hex } from '../ids.ts'
import { toHex } from './bytes.ts'
import type { Db } from './db.ts'

/** The hash of a block of the canonical chain as the follower has stored it; null when it has none of that number. */
export async function storedBlockHash(db: Db, chainId: number, number: number): Promise<Hex | null> {
  const row = await db
    .selectFrom('blocks')
    .select('hash')
    .where('chain_id', '=', chainId)
    .where('number', '=', number)
    .executeTakeFirst()
  return row === undefined ? null : toHex(row.hash)
}
