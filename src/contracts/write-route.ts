import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { respondToWrite } from '../transactions/read/respond.ts'
import { WaitQuery } from '../transactions/wire.ts'
import * as wire from './write-wire.ts'
import { BATCH_ROUTE, dryRunBatch, writeBatch } from './write-batch.ts'
import { dryRunContract, writeContract, WRITE_ROUTE } from './write.ts'

/** Registers the routes that write to any contract. */
export function contractWrites(server: FastifyInstance, app: App): void {
  /** POST /v1/contracts/method/write: scope `contracts:write`. 202 if `?wait=mined` timed out. */
  server.post<{ Body: Static<typeof wire.WriteRequest>; Querystring: Static<typeof WaitQuery> }>(
    WRITE_ROUTE,
    { schema: { ...wire.write, querystring: WaitQuery }, config: { scope: 'contracts:write' } },
    async (request, reply) => {
      const { caller, body } = request
      return respondToWrite(app, request, reply, {
        target: body.address,
        send: (idempotencyKey) => writeContract(app, caller, body, { idempotencyKey, askedFrom: request.ip }),
        rehearse: () => dryRunContract(app, caller, body),
      })
    },
  )

  /** POST /v1/contracts/method/write/batch: scope `contracts:write`. 202 if `?wait=mined` timed out. */
  server.post<{ Body: Static<typeof wire.BatchRequest>; Querystring: Static<typeof WaitQuery> }>(
    BATCH_ROUTE,
    { schema: { ...wire.batch, querystring: WaitQuery }, config: { scope: 'contracts:write' } },
    async (request, reply) => {
      const { caller, body } = request
      return respondToWrite(app, request, reply, {
        send: (idempotencyKey) => writeBatch(app, caller, body, { idempotencyKey, askedFrom: request.ip }),
        rehearse: () => dryRunBatch(app, caller, body),
      })
    },
  )
}
