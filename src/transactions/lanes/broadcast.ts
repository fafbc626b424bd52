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
 * `sent`: a node took it, or has it already. `queued`: no node was asked, it is sent when those before it are mined.
 * `unknown` counts as sent too, and is sent again soon.
 */
export type BroadcastResult = 'sent' | 'queued' | Exclude<SendRefusal, 'known'>

/**
 * Gives stored bytes to a node when it is their turn. Never throws: whatever the node says, the transaction exists from the
 * moment its bytes are stored, and is kept alive until it is mined.
 */
export async function broadcast(app: App, chain: Chain, attempt: Released): Promise<BroadcastResult> {
  try {
    if (await holdBack(app, chain, attempt.hash)) return 'queued'
  } catch (error) {
    // Whether it is their turn nobody knows: the keeper sends them when the database is there again.
    txNotTaken(app, { chainId: chain.chainId, id: attempt.id, hash: attempt.hash, outcome: 'unknown' }, error)
    return 'unknown'
  }
  return giveToNode(app, chain, attempt)
}

/** As `broadcast`, of bytes whose turn it is: by the statement that stored them, or that took them out of the queue. */
export async function giveToNode(app: App, chain: Chain, { id, from, raw, hash }: Released): Promise<BroadcastResult> {
  try {
    const answer = await sendInTurn(chain, { from, raw })
    // A node that took these bytes says their hash; one that says anything else may have taken nothing.
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

/** Whether a node would answer so again while these bytes and its pool are what they are. */
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
    // Nobody is sure that a node has it: the keeper sends it again at its next turn, not only after a while.
    else if (outcome === 'unknown' || outcome === 'pool_full' || outcome === 'nonce_too_high')
      await sendAgainSoon(app, chain, hash)
  } catch (failure) {
    // It is only a hint; without it the keeper comes by a little later.
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
 * Sends what was queued and is not any more, of each account in the order of its nonces. What a node did not take is sent
 * again by the keeper. @throws database_unavailable
 */
export async function sendQueued(app: App, chain: Chain): Promise<void> {
  for (;;) {
    const { released, hasMore } = await takeQueued(app, chain)
    await Promise.all(released.map((one) => giveToNode(app, chain, one)))
    if (!hasMore) return
  }
}

/** Business event: a node did not take a broadcast, or nobody knows. */
function txNotTaken(
  { telemetry }: App,
  fields: { chainId: number; id: string; hash: Hex; outcome: string },
  error: unknown,
): void {
  telemetry.log.warn('transaction_not_taken', fields, error)
}
