import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { chainOf } from '../http/caller.ts'
import { readIdempotencyKey } from '../transactions/key.ts'
import { isSettled, waitUntilMined } from '../transactions/wait.ts'
import { WaitQuery } from '../transactions/wire.ts'
import * as wire from './write-wire.ts'
import { dryRunContract, writeContract, WRITE_ROUTE } from './write.ts'

/** Writes to any contract. */
export function contractWrites(server: FastifyInstance, app: App): void {
  /** POST /v1/contracts/method/write: scope `contracts:write`. 202 when `?wait=mined` waited in vain. */
  server.post<{ Body: Static<typeof wire.WriteRequest>; Querystring: Static<typeof WaitQuery> }>(
    WRITE_ROUTE,
    { schema: { ...wire.write, querystring: WaitQuery }, config: { scope: 'contracts:write' } },
    async (request, reply) => {
      const { caller, body, query } = request
      const idempotencyKey = readIdempotencyKey(request.headers)
      if (body.dryRun === true) return dryRunContract(app, caller, body)
      const { answer, isReplay } = await writeContract(app, caller, body, { idempotencyKey })
      if (isReplay) reply.header('idempotent-replayed', 'true')
      if (query.wait === undefined) return answer
      const state = await waitUntilMined(app, chainOf(app, caller), answer.id)
      if (!isSettled(state)) reply.code(202).header('location', `/v1/transactions/${answer.id}`)
      return { ...answer, state }
    },
  )
}
