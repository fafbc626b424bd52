import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app.ts'
import { underDeadline } from '../../deadline.ts'
import { gasChoiceOf } from '../../chain/network.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { chainOf } from '../../http/caller.ts'
import { readPrefer } from '../../http/prefer.ts'
import type { Hex } from '../../ids.ts'
import { readIdempotencyKey } from '../key.ts'
import { isSettled, WAIT_MS, waitUntilMined } from './wait.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { readTransaction } from './read.ts'
import type { WriteAnswer, WriteStatus } from '../write-wire.ts'

/** milliseconds in which a write that is not begun by then is refused */
const WRITE_MS = 20_000

/** the same where funds for its gas may have to be mined first: three blocks of a slow network and a moment */
export const TOPPED_UP_MS = 45_000

const NOT_BEGUN: ReadonlySet<ErrorCode> = new Set(['overloaded', 'top_up_pending', 'sponsor_empty'])

/** A write as a route sees it: sent under a key or rehearsed. */
export type Writing<Sent, Rehearsed> = {
  /** what is called, as it was written; absent where that is several, or nobody names it */
  target?: string | undefined
  send: (idempotencyKey: string | undefined) => Promise<{ answer: Sent; isReplay: boolean }>
  rehearse: () => Promise<Rehearsed>
}

/**
 * What every write has in common at the door: its key, `dryRun`, until when its client waits, `?wait=mined`, with 202 when it waited in
 * vain, and what became of it: of a repeat, which has a header, and of who waited.
 * @throws idempotency_key_invalid, overloaded, and what the write throws
 */
export async function respondToWrite<Sent extends Pick<WriteAnswer, 'id' | 'state' | 'status'>, Rehearsed>(
  app: App,
  request: FastifyRequest,
  reply: FastifyReply,
  { target, send, rehearse }: Writing<Sent, Rehearsed>,
): Promise<Sent | Rehearsed> {
  const { wait } = request.query as { wait?: 'mined' }
  const idempotencyKey = readIdempotencyKey(request.headers)
  if ((request.body as { dryRun?: boolean }).dryRun === true) return rehearse()
  const preferMs = readPrefer(request.headers, reply)
  const chain = chainOf(app, request.caller)
  const until =
    app.clock.ticks() +
    Math.min(gasChoiceOf(chain, (target ?? '').toLowerCase() as Hex) === 'topup' ? TOPPED_UP_MS : WRITE_MS, preferMs)
  const sending = underDeadline(
    until,
    () => send(idempotencyKey),
    () => request.standAside(),
  )
  const { answer, isReplay } = await sending.catch((error: unknown) => {
    // Nothing of it was done, as where the gate refuses.
    if (error instanceof AppError && NOT_BEGUN.has(error.code)) request.quotaCharge?.giveBack()
    throw error
  })
  if (isReplay) {
    reply.header('idempotent-replayed', 'true')
    request.quotaCharge?.giveBack()
  }
  if (wait === undefined && !isReplay) return answer
  // Accepted is accepted, also while the database does not know of it.
  const timeoutMs = wait !== undefined && request.standAside() ? Math.min(WAIT_MS, preferMs) : 0
  const state = (await waitUntilMined(app, chain, answer.id, timeoutMs)) ?? answer.state
  if (wait !== undefined && !isSettled(state)) reply.code(202).header('location', `/v1/transactions/${answer.id}`)
  const told = { ...answer, state, status: statusOf(state) }
  if (state !== 'REVERTED') return told
  const { revert } = await readTransaction(app, request.caller, answer.id)
  return { ...told, revert }
}

/** Whether what was asked for is on its way or done. */
const statusOf = (state: TransactionState): WriteStatus =>
  state === 'REVERTED' ? 'REVERTED' : GONE.has(state) ? 'FAILED' : 'SUCCESS'

const GONE: ReadonlySet<TransactionState> = new Set(['FAILED', 'CANCELLED', 'REPLACED'])
