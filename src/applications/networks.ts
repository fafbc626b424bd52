import { fromHex, toHex } from '../store/bytes.ts'
import { retrying, type RootDb } from '../store/db.ts'
import type { Hex } from '../ids.ts'

export type NetworkIdentity = { chainId: number; name: string; genesisHash: Hex }

/**
 * Ties a network's name and chain id to one chain, told by its genesis block, for ever: a database that knows
 * transactions of one chain must not meet another under the same number.
 * @param mayBegin  true for the embedded chain, which may have lost everything in a crash: its new genesis replaces
 *   the old one, and the follower treats it as the deepest of reorganisations
 * @throws Error when the chain is another one
 */
export async function bindNetwork(
  db: RootDb,
  { chainId, name, genesisHash }: NetworkIdentity,
  { mayBegin }: { mayBegin: boolean },
): Promise<void> {
  const genesis = fromHex(genesisHash)
  await retrying(() =>
    db
      .insertInto('networks')
      .values({ chain_id: chainId, name, genesis_hash: genesis })
      .onConflict((on) => on.doNothing())
      .execute(),
  )
  const known = await retrying(() =>
    db.selectFrom('networks').selectAll().where('chain_id', '=', chainId).executeTakeFirst(),
  )
  if (known === undefined) throw new Error(`the network name ${name} belongs to another chain id in this database`)
  if (known.name !== name)
    throw new Error(
      `chain id ${chainId} is known to this database as ${known.name}, not ${name}: a network keeps its name`,
    )
  if (toHex(known.genesis_hash) === genesisHash) return
  if (!mayBegin)
    throw new Error(
      `the node is on another chain: the genesis block of chain id ${chainId} is not the one this database was made for`,
    )
  await retrying(() =>
    db.updateTable('networks').set({ genesis_hash: genesis }).where('chain_id', '=', chainId).execute(),
  )
}
