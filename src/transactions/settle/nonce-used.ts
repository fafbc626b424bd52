import type { App } from '../../app.ts'
import { isAbsent, readHash, readObject } from '../../chain/rpc/answers.ts'
import { InvalidResponse, RpcError } from '../../chain/rpc/failures.ts'
import { newestBlock } from '../../chain/latest-block.ts'
import { isDevelopment, type Chain } from '../../chain/network.ts'
import { fetchBlock } from '../../follower/fetch.ts'
import { sourceOf } from '../../follower/receipt-source.ts'
import { provenCount } from '../../follower/proof.ts'
import { headerHash } from '../../follower/strict.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { storedBlockHash } from '../../store/block-hash.ts'
import { countAt } from './nonce-count.ts'

/**
 * Returns whether a nonce is used for good, proven by the state of the newest final block that our follower has passed.
 * A node's count is no proof, and a write that is wrongly marked as failed would be sent twice. Without a proof nothing
 * changes, and the nonce is checked again later.
 * @returns the block that proves it; null if none does
 * @throws RpcUnavailable
 */
export async function usedForGood(
  app: App,
  chain: Chain,
  { id, from, nonce }: { id: string; from: Hex; nonce: number },
): Promise<Followed | null> {
  const block = await followedFinal(app, chain)
  if (block === null) return null
  const isUsed = await proving(app, chain, { id, from, nonce }, async () => (await countIn(chain, block, from)) > nonce)
  return isUsed === true ? block : null
}

/**
 * Returns how many nonces an account has used for good; 0 without a proof. Raises no alarm.
 * @throws RpcUnavailable
 */
export async function provenLeast(app: App, chain: Chain, from: Hex): Promise<number> {
  const block = await followedFinal(app, chain)
  if (block === null) return 0
  try {
    return Number(await countIn(chain, block, from))
  } catch (error) {
    if (error instanceof RpcError || error instanceof InvalidResponse) return 0
    throw error
  }
}

/** Use of a nonce by a transaction in a final block. */
export type Use = { hash: Hex; blockNumber: number; blockHash: Hex }

/**
 * Finds the transaction that has used a nonce for good. The node's counts lead to a final, followed block. That whole
 * block is verified against its hash, and the sender by the signature.
 * A transaction that the node hides or invents is not found. So neither a hidden write nor a wrong count can make a
 * write FAILED.
 * @returns null if the nonce is not used, or if there is no proof
 * @throws RpcUnavailable
 */
export async function findUse(
  app: App,
  chain: Chain,
  { id, from, nonce }: { id: string; from: Hex; nonce: number },
): Promise<Use | null> {
  const final = await followedFinal(app, chain)
  if (final === null) return null
  return proving(app, chain, { id, from, nonce }, async () => {
    const block = await firstAbove(app, chain, { from, nonce, final })
    if (block === null) return null
    const verification = chain.verification === 'hash' ? 'hash' : 'bloom'
    const whole = await fetchBlock(chain.rpc, block.hash, { ...sourceOf(chain), verification })
    const claimed = whole.receipts.filter((receipt) => receipt.from === from).map((one) => one.transactionHash)
    const { nonces, doubt } = await whole.prove({ signed: new Map(), claimed })
    if (doubt !== null) throw new InvalidResponse(doubt)
    const hash = claimed.find((one) => nonces.get(one) === nonce)
    if (hash === undefined) throw new InvalidResponse('the block that used the nonce holds no such transaction')
    return { hash, blockNumber: block.number, blockHash: block.hash }
  })
}

/** A block that the follower has applied. */
export type Followed = { number: number; hash: Hex }

/**
 * Returns the first stored block at which the node counts the nonce as used; null if there is no such block.
 * @throws InvalidResponse
 */
async function firstAbove(
  { db }: App,
  chain: Chain,
  { from, nonce, final }: { from: Hex; nonce: number; final: Followed },
): Promise<Followed | null> {
  const { chainId } = chain
  const isAbove = async (number: number) => (await countAt(chain, from, quantityOf(number))) > nonce
  const followed = async (number: number): Promise<Followed> => {
    const hash = await storedBlockHash(db, chainId, number)
    if (hash === null) throw new InvalidResponse('a block between those that are kept is not')
    return { number, hash }
  }
  const row = await db
    .selectFrom('blocks')
    .select((eb) => eb.fn.min('number').as('number'))
    .where('chain_id', '=', chainId)
    .executeTakeFirstOrThrow()
  let [below, above] = [Number(row.number) - 1, final.number]
  if (!(await isAbove(above))) return null
  while (above - below > 1) {
    const middle = Math.floor((below + above) / 2)
    if (await isAbove(middle)) above = middle
    else below = middle
  }
  return followed(above)
}

/**
 * Returns the nonce at which an account without a row starts. A nonce that is too high cannot be corrected: lower ones
 * would have to be used first. So a count above 0 is verified against the newest block, if that has an Ethereum header
 * and the node supports proofs. Otherwise the node's count is used.
 * @throws InvalidResponse  if the proof has another count than the node reported
 * @throws RpcError | RpcUnavailable
 */
export async function firstNonce(chain: Chain, from: Hex): Promise<number> {
  const count = await countAt(chain, from, 'latest')
  // On a development chain, developers change state between blocks, so a block proves nothing.
  if (count === 0 || isDevelopment(chain)) return count
  const block = await newestBlock(chain, { maxAgeMs: 0 })
  const { header, proof } = await askProof(chain, block, from)
  if (proof instanceof RpcError || !isEthereums(header, block.hash)) return count
  if (provenCount(stateRootOf(header, block.hash), from, proof) === BigInt(count)) return count
  throw new InvalidResponse('the node proves another count of transactions than it says')
}

/** Returns whether the header exists and hashes like an Ethereum header. */
function isEthereums(header: unknown, hash: Hex): boolean {
  try {
    return !(header instanceof RpcError) && headerHash(readObject(header, 'a block')) === hash
  } catch (error) {
    if (error instanceof InvalidResponse) return false
    throw error
  }
}

/**
 * Returns an account's proven number of mined transactions at a followed block.
 * @throws RpcError | InvalidResponse
 */
async function countIn(chain: Chain, block: Followed, from: Hex): Promise<bigint> {
  const { header, proof } = await askProof(chain, block, from)
  if (header instanceof RpcError) throw header
  if (proof instanceof RpcError) throw proof
  return provenCount(stateRootOf(header, block.hash), from, proof)
}

/**
 * Returns a header, and the node's proof of an account at that block number.
 * @throws RpcUnavailable
 */
async function askProof(
  { rpc }: Chain,
  { number, hash }: Followed,
  from: Hex,
): Promise<{ header: unknown; proof: unknown }> {
  const [header, proof] = await rpc.batch([
    { method: 'eth_getBlockByHash', params: [hash, false] },
    { method: 'eth_getProof', params: [from, [], quantityOf(number)] },
  ])
  return { header, proof }
}

/** Runs `work`. Raises an alarm and returns null if a node refuses or responds incorrectly. */
async function proving<T>(
  app: App,
  { chainId }: Chain,
  { id, from, nonce }: { id: string; from: Hex; nonce: number },
  work: () => Promise<T>,
): Promise<T | null> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof RpcError) && !(error instanceof InvalidResponse)) throw error
    unproven(app, { chainId, id, sender: from, nonce }, error)
    return null
  }
}

function stateRootOf(answer: unknown, hash: Hex): Hex {
  if (isAbsent(answer)) throw new InvalidResponse('the node does not have the block that was followed')
  const header = readObject(answer, 'a block')
  if (headerHash(header) !== hash) throw new InvalidResponse('the header has another hash')
  return readHash(header.stateRoot, 'state root of a block')
}

/**
 * Returns the newest final block that was followed. A block that only the node considers final may include our
 * transaction and not be applied yet.
 */
async function followedFinal({ db }: App, { chainId }: Chain): Promise<Followed | null> {
  const cursor = await db
    .selectFrom('cursors')
    .select('finalized_number')
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  if (cursor === undefined) return null
  const hash = await storedBlockHash(db, chainId, cursor.finalized_number)
  return hash === null ? null : { number: cursor.finalized_number, hash }
}

/** Logs an alarm: a node counts a nonce as used and cannot prove it, so the transaction waits for an operator. */
function unproven(
  { telemetry }: App,
  fields: { chainId: number; id: string; sender: Hex; nonce: number },
  error: unknown,
): void {
  telemetry.log.error('nonce_used_unproven', fields, error)
}
