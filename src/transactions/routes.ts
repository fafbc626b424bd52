/**
 * transactions: everything from a write's calldata to a final block.
 * Owns: nonces, signing through the signer, stored bytes, broadcasts, fee bumps, cancellations, states, the queue, recovery from
 *   the signer's ledger.
 * Does not own: keys and rules (`signer/`), reading blocks (`follower/`), calldata of contracts and transfers
 *   (`contracts/`, `transfers/`).
 * Start with `pipeline.ts`, `rows.ts` and docs/reference/states.md; `recovery/keeper.ts` is the worker.
 * Tables: attempts, carried, gas_spent, gas_spent_on_network, ledger_cursor, operation_sequences, operations,
 *   requested_changes, stopped_lanes, swept, top_ups, transactions, waits, withdrawals.
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { underDeadline } from '../deadline.ts'
import { AppError } from '../errors.ts'
import { chainOf } from '../http/caller.ts'
import { linkNext } from '../http/cursor.ts'
import { readPrefer } from '../http/prefer.ts'
import { NoQuery } from '../http/wire.ts'
import { cancelTransaction, speedUpTransaction } from './lanes/change.ts'
import { findTransaction, listTransactions, readTransaction } from './read/read.ts'
import { respondToWrite, TOPPED_UP_MS } from './read/respond.ts'
import { findOperation } from './read/read-operation.ts'
import { readSignatures } from './read/signatures.ts'
import * as signaturesWire from './read/signatures-wire.ts'
import { isSettled, WAIT_MS, waitUntilMined } from './read/wait.ts'
import { rehearseTransaction, submitTransaction, SUBMIT_ROUTE } from './lanes/submit.ts'
import * as wire from './wire.ts'
import { send, type TransactionRequest } from './write-wire.ts'

/**
 * Returns the error for a transaction that the database lost during the wait. It is not `transaction_not_found`,
 * because the row existed before.
 */
const lost = (): AppError =>
  new AppError(
    'database_unavailable',
    'The database has lost this transaction. The server is restoring it from the signer’s ledger. Retry.',
    {
      retryAfter: 2,
    },
  )

type Id = { Params: Static<typeof wire.IdParam> }

/** Registers the routes that send, list, read, cancel and speed up the caller's transactions. */
export function transactions(server: FastifyInstance, app: App): void {
  /** POST /v1/transactions: scope `contracts:write`. 202 if `?wait=mined` timed out. */
  server.post<{ Body: Static<typeof TransactionRequest>; Querystring: Static<typeof wire.WaitQuery> }>(
    SUBMIT_ROUTE,
    { schema: { ...send, querystring: wire.WaitQuery }, config: { scope: 'contracts:write' } },
    async (request, reply) => {
      const { caller, body } = request
      return respondToWrite(app, request, reply, {
        target: body.to,
        send: (idempotencyKey) => submitTransaction(app, caller, body, { idempotencyKey, askedFrom: request.ip }),
        rehearse: () => rehearseTransaction(app, caller, body),
      })
    },
  )

  /** GET /v1/transactions: scope `wallet:read`. Errors: invalid_cursor. */
  server.get<{ Querystring: Static<typeof wire.ListQuery> }>(
    '/v1/transactions',
    { schema: wire.list, config: { scope: 'wallet:read', admission: 'status' } },
    async (request, reply) => {
      const { limit = '50', cursor, state } = request.query
      const page = await listTransactions(app, request.caller, { limit: Number(limit), cursor, state })
      linkNext(reply, app, { path: '/v1/transactions', query: { limit, state }, cursor: page.nextCursor })
      return page.transactions
    },
  )

  /** GET /v1/me/signatures: scope `wallet:read`. Errors: invalid_cursor, overloaded, chain_unavailable, signer_unavailable. */
  server.get<{ Querystring: Static<typeof signaturesWire.SignaturesQuery> }>(
    '/v1/me/signatures',
    { schema: signaturesWire.signatures, config: { scope: 'wallet:read' } },
    async (request, reply) => {
      const page = await readSignatures(app, request.caller, request.query)
      linkNext(reply, app, { path: '/v1/me/signatures', query: {}, cursor: page.nextCursor })
      return page.signatures
    },
  )

  /**
   * GET /v1/transactions/:id: scope `wallet:read`. Errors: transaction_not_found, overloaded. 202 if `?wait=mined`
   * timed out.
   */
  server.get<Id & { Querystring: Static<typeof wire.WaitQuery> }>(
    '/v1/transactions/:id',
    { schema: wire.one, config: { scope: 'wallet:read', admission: 'status' } },
    async (request, reply) => {
      const { caller, params, query } = request
      if (query.wait !== undefined) {
        const { id } = (await findOperation(app, caller, params.id)) ?? (await findTransaction(app, caller, params.id))
        const timeoutMs = request.standAside() ? Math.min(WAIT_MS, readPrefer(request.headers, reply)) : 0
        const state = await waitUntilMined(app, chainOf(app, caller), id, timeoutMs)
        if (state === null) throw lost()
        if (!isSettled(state)) reply.code(202).header('location', `/v1/transactions/${id}`)
      }
      return readTransaction(app, caller, params.id)
    },
  )

  /** POST /v1/transactions/:id/cancel: scope `contracts:write`. Errors: transaction_not_found, not_cancellable, fee_cap_reached. */
  server.post<Id>(
    '/v1/transactions/:id/cancel',
    { schema: { ...wire.cancel, querystring: NoQuery }, config: { scope: 'contracts:write', admission: 'status' } },
    (request) => cancelTransaction(app, request.caller, request.params.id),
  )

  /** POST /v1/transactions/:id/speed-up: scope `contracts:write`. Errors: transaction_not_found, not_cancellable, fee_cap_reached. */
  server.post<Id>(
    '/v1/transactions/:id/speed-up',
    { schema: { ...wire.speedUp, querystring: NoQuery }, config: { scope: 'contracts:write', admission: 'status' } },
    (request) =>
      // A top-up for the higher fee may have to be mined first.
      underDeadline(
        app.clock.ticks() + TOPPED_UP_MS,
        () => speedUpTransaction(app, request.caller, request.params.id),
        () => request.standAside(),
      ),
  )
}
