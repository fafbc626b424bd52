import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app.ts'
import { underDeadline } from '../../deadline.ts'
import { gasChoiceOf } from '../../chain/network.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { chainOf } from '../../http/caller.ts'
import { readPrefer } from '../../http/prefer.ts'
import type { Hex } from '../../ids.ts'
import { readIdempotencyKey } from '../../http/idempotency-key.ts'
import { isSettled, WAIT_MS, waitUntilMined } from './wait.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { readTransaction } from './read.ts'
import type { WriteAnswer, WriteStatus } from '../write-wire.ts'

/** milliseconds after which a write that has not started is rejected */
const WRITE_MS = 20_000

/**
 * milliseconds after which a write is rejected if its gas funds may have to be mined first: three blocks of a slow
 * network and some margin
 */
export const TOPPED_UP_MS = 45_000

const NOT_BEGUN: ReadonlySet<ErrorCode> = new Set([
  'overloaded',
  'top_up_pending',
  'sponsor_empty',
  'approval_required',
])

/** A write of a route: sent under a key, or as a dry run. */
export type Writing<Sent, Rehearsed> = {
  /** called address as the caller wrote it; absent if there are several or none */
  target?: string | undefined
  send: (idempotencyKey: string | undefined) => Promise<{ answer: Sent; isReplay: boolean }>
  rehearse: () => Promise<Rehearsed>
}

/**
 * Handles the parts that all write routes share: the idempotency key, `dryRun`, the client's deadline, and
 * `?wait=mined`, with 202 if that times out. A retry, which gets a header, and a request that waited get the current
 * outcome.
 * @throws idempotency_key_invalid, overloaded, and the errors of the write
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
    // The write has not started, so it costs no quota, as if admission control had rejected it.
    if (error instanceof AppError && NOT_BEGUN.has(error.code)) request.quotaCharge?.giveBack()
    throw error
  })
  if (isReplay) {
    reply.header('idempotent-replayed', 'true')
    request.quotaCharge?.giveBack()
  }
  if (wait === undefined && !isReplay) return answer
  // An accepted write remains accepted, even if the database has temporarily lost it.
  const timeoutMs = wait !== undefined && request.standAside() ? Math.min(WAIT_MS, preferMs) : 0
  const state = (await waitUntilMined(app, chain, answer.id, timeoutMs)) ?? answer.state
  if (wait !== undefined && !isSettled(state)) reply.code(202).header('location', `/v1/transactions/${answer.id}`)
  const told = { ...answer, state, status: statusOf(state) }
  if (state !== 'REVERTED') return told
  const { revert } = await readTransaction(app, request.caller, answer.id)
  return { ...told, revert }
}

/** Returns whether the write is under way or done. */
const statusOf = (state: TransactionState): WriteStatus =>
  state === 'REVERTED' ? 'REVERTED' : GONE.has(state) ? 'FAILED' : 'SUCCESS'

const GONE: ReadonlySet<TransactionState> = new Set(['FAILED', 'CANCELLED', 'REPLACED'])
