import type { App } from '../../app.ts'
import { isBroken, isRateLimited, type SendRefusal } from '../../chain/rpc/errors.ts'
import { InvalidResponse, RpcError } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { gasStrategy } from './gas.ts'
import { holdBack, takeQueued, type Released } from './queue.ts'
import { noteRefusal } from './refusals.ts'
import { sendInTurn } from './send-in-turn.ts'

/**
 * `sent`: a node has the transaction. `queued`: no node was asked; the transaction is sent when earlier ones are mined.
 * `unknown`: treated as sent, and sent again soon.
 */
export type BroadcastResult = 'sent' | 'queued' | Exclude<SendRefusal, 'known'>

/**
 * Sends stored bytes to a node, if their turn has come. Never throws: the transaction exists once its bytes are stored,
 * and is rebroadcast until it is mined, whatever the node responds.
 */
export async function broadcast(app: App, chain: Chain, attempt: Released): Promise<BroadcastResult> {
  try {
    if (await holdBack(app, chain, attempt.hash)) return 'queued'
  } catch (error) {
    // It is unknown whether these bytes may be sent yet: the keeper sends them when the database is available again.
    txNotTaken(app, { chainId: chain.chainId, id: attempt.id, hash: attempt.hash, outcome: 'unknown' }, error)
    return 'unknown'
  }
  return giveToNode(app, chain, attempt)
}

/** Sends bytes whose turn it is, as determined by the statement that stored or dequeued them. Never throws. */
export async function giveToNode(app: App, chain: Chain, { id, from, raw, hash }: Released): Promise<BroadcastResult> {
  try {
    const answer = await sendInTurn(chain, { from, raw })
    // A node that accepted these bytes returns their hash. A node that returns anything else may have accepted nothing.
    if (typeof answer !== 'string' || answer.toLowerCase() !== hash)
      throw new InvalidResponse('the node did not answer the hash of what it was sent')
    return 'sent'
  } catch (error) {
    const outcome = gasStrategy(chain).classify(error)
    if (outcome === 'known') return 'sent'
    txNotTaken(app, { chainId: chain.chainId, id, hash, outcome }, error)
    await note(app, chain, { hash, outcome, error })
    return outcome
  }
}

/** Returns whether a node would give the same response again while these bytes and its pool remain the same. */
const isAboutBytes = (outcome: SendRefusal, error: RpcError): boolean =>
  outcome === 'unknown'
    ? !isRateLimited(error) && !isBroken(error)
    : outcome === 'underpriced' || outcome === 'held_back' || outcome === 'rejected'

async function note(
  app: App,
  chain: Chain,
  { hash, outcome, error }: { hash: Hex; outcome: SendRefusal; error: unknown },
): Promise<void> {
  try {
    if (error instanceof RpcError && isAboutBytes(outcome, error)) await noteRefusal(app, chain, hash, outcome, error)
    // A node may lack the transaction: the keeper sends it again in the next round, without the usual delay.
    else if (outcome === 'unknown' || outcome === 'pool_full' || outcome === 'nonce_too_high')
      await sendAgainSoon(app, chain, hash)
  } catch (failure) {
    // The note only speeds up the retry; without it, the keeper sends the bytes a little later.
    app.telemetry.log.warn('resend_not_noted', { chainId: chain.chainId, hash }, failure)
  }
}

async function sendAgainSoon({ db }: App, { chainId }: Chain, hash: Hex): Promise<void> {
  await db
    .updateTable('attempts')
    .set({ broadcast_at: null })
    .where('chain_id', '=', chainId)
    .where('hash', '=', fromHex(hash))
    .execute()
}

/**
 * Sends bytes whose turn has come, in nonce order per account. The keeper retries those that a node did not accept.
 * @throws database_unavailable
 */
export async function sendQueued(app: App, chain: Chain): Promise<void> {
  for (;;) {
    const { released, hasMore } = await takeQueued(app, chain)
    await Promise.all(released.map((one) => giveToNode(app, chain, one)))
    if (!hasMore) return
  }
}

/** Logs a broadcast that no node accepted, or whose outcome is unknown. */
function txNotTaken(
  { telemetry }: App,
  fields: { chainId: number; id: string; hash: Hex; outcome: string },
  error: unknown,
): void {
  telemetry.log.warn('broadcast_rejected', fields, error)
}
