import type { App } from '../app.ts'
import { isAbsent, readHash, readObject } from '../chain/answers.ts'
import { BadAnswer, RpcError } from '../chain/failures.ts'
import type { Chain } from '../chain/network.ts'
import { provenCount } from '../follower/proof.ts'
import { headerHash } from '../follower/strict.ts'
import type { Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { retrying } from '../store/db.ts'

/**
 * Whether a nonce is used for good: the chain that our own follower has followed proves it, at the newest final block
 * that it has passed. A count is no proof, and giving something up for one that was wrong makes its caller do it twice:
 * what this does not prove stays as it is, and is looked at again.
 * @throws RpcUnavailable
 */
export async function isUsedForGood(
  app: App,
  chain: Chain,
  { id, from, nonce }: { id: string; from: Hex; nonce: number },
): Promise<boolean> {
  const block = await followedFinal(app, chain)
  if (block === null) return false
  try {
    const [header, proof] = await chain.rpc.batch([
      { method: 'eth_getBlockByHash', params: [block.hash, false] },
      { method: 'eth_getProof', params: [from, [], `0x${block.number.toString(16)}`] },
    ])
    if (header instanceof RpcError) throw header
    if (proof instanceof RpcError) throw proof
    return provenCount(stateRootOf(header, block.hash), from, proof) > BigInt(nonce)
  } catch (error) {
    if (!(error instanceof RpcError) && !(error instanceof BadAnswer)) throw error
    unproven(app, { chainId: chain.chainId, id, sender: from, nonce }, error)
    return false
  }
}

function stateRootOf(answer: unknown, hash: Hex): Hex {
  if (isAbsent(answer)) throw new BadAnswer('the node does not have the block that was followed')
  const header = readObject(answer, 'a block')
  if (headerHash(header) !== hash) throw new BadAnswer('the header has another hash')
  return readHash(header.stateRoot, 'state root of a block')
}

/** What is final for the node only may hold our hash in a block that is not read yet. */
async function followedFinal({ db }: App, { chainId }: Chain): Promise<{ number: number; hash: Hex } | null> {
  const cursor = await retrying(() =>
    db.selectFrom('cursors').select('finalized_number').where('chain_id', '=', chainId).executeTakeFirst(),
  )
  if (cursor === undefined) return null
  const hash = await retrying(() => storedBlockHash(db, chainId, cursor.finalized_number))
  return hash === null ? null : { number: cursor.finalized_number, hash }
}

/** Business event: a node counts a nonce as used and cannot prove it. Alarm: the transaction waits for an operator. */
function unproven(
  { telemetry }: App,
  fields: { chainId: number; id: string; sender: Hex; nonce: number },
  error: unknown,
): void {
  telemetry.log.error('nonce_used_unproven', fields, error)
}
