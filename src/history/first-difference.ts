import type { Chain } from '../chain/network.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import type { Db } from '../store/db.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { TokenStandards } from '../tokens/ask.ts'
import { countedOf } from '../tokens/moved.ts'
import { fetchPast, TooMuch } from './past-logs.ts'
import { DIRECTION, onceEach } from './rows.ts'
import { standardsOf } from './select.ts'
import { balanceCall, readBalance, readRows, type Sum } from './sums.ts'

/**
 * Finds the first block at which the entries of an asset no longer sum up to its balance. The binary search makes about
 * two calls per doubling of the range. Blocks are requested by number, so they should be final.
 * @returns `block`: null if the node lacks the data. `isOfToken`: the chain's own logs of that block match the
 *   entries, so the token itself deviates
 * @throws RpcUnavailable
 */
export async function findDifference(
  { db }: { db: Db },
  { chainId }: Pick<Chain, 'chainId'>,
  { sum, rpc }: { sum: Sum; rpc: Rpc },
): Promise<{ block: number | null; isOfToken: boolean }> {
  const changes = await changesOf(db, chainId, sum)
  const heldBy = (block: number): bigint =>
    changes.reduce((all, change) => (change.block <= block ? all + change.net : all), sum.opening!)
  const ask = async (block: number): Promise<bigint | null> =>
    readBalance((await rpc.batch([balanceCall(sum, sum.address, block)]))[0])
  let [right, wrong] = [sum.from, sum.block]
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2)
    const balance = await ask(middle)
    if (balance === null) return { block: null, isOfToken: false }
    if (balance === heldBy(middle)) right = middle
    else wrong = middle
  }
  const { token } = sum
  if (token === null) return { block: wrong, isOfToken: false }
  const logged = await loggedAt(rpc, { ...sum, token }, wrong, await readStandards(db, chainId, token))
  return { block: wrong, isOfToken: logged === heldBy(wrong) - heldBy(right) }
}

type Change = { block: number; net: bigint }

async function changesOf(db: Db, chainId: number, sum: Sum): Promise<Change[]> {
  const changes: Change[] = []
  for await (const row of readRows(db, { accountId: sum.accountId, chainId, to: sum.block })) {
    if (row.token !== sum.token || row.tokenId !== sum.tokenId || row.block <= sum.from) continue
    const net = row.direction === DIRECTION.SELF ? 0n : row.direction === DIRECTION.IN ? row.value : -row.value
    changes.push({ block: row.block, net })
  }
  return changes
}

/**
 * Returns the change of an asset by the chain's logs of a block; null if the node does not answer. Excludes old-style
 * logs, because only whole blocks show them.
 */
async function loggedAt(
  rpc: Rpc,
  { address, token, tokenId }: Sum & { token: Hex },
  block: number,
  standards: TokenStandards,
): Promise<bigint | null> {
  try {
    const found = await fetchPast(rpc, { from: block, to: block, addresses: [address] })
    return onceEach(found)
      .filter((one) => one.token === token && one.from !== one.to)
      .map(({ from, ...one }) => ({ from, counted: countedOf(one, standards) }))
      .filter(({ counted }) => counted !== null && (tokenId === null || counted.tokenId === tokenId))
      .reduce((all, { from, counted }) => (from === address ? all - counted!.value : all + counted!.value), 0n)
  } catch (error) {
    if (error instanceof RpcError || error instanceof TooMuch) return null
    throw error
  }
}

async function readStandards(db: Db, chainId: number, token: Hex): Promise<TokenStandards> {
  const row = await db
    .selectFrom('tokens')
    .select(['is_fungible', 'is_collection', 'is_wrapper'])
    .where('chain_id', '=', chainId)
    .where('address', '=', fromHex(token))
    .executeTakeFirst()
  return standardsOf(row ?? { is_fungible: null, is_collection: null, is_wrapper: null })
}
