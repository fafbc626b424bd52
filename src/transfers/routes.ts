/**
 * transfers: transfers of native currency and tokens to a user or an address.
 * Owns: amounts in whole units, recipients by id or name, accounts created in advance for them, why a token rejects a
 *   transfer.
 * Does not own: sending (`transactions/`), token facts (`tokens/`), past transfers (`history/`).
 * Tables: strangers.
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { openLimit, spendBehind } from '../http/limits.ts'
import { respondToWrite } from '../transactions/read/respond.ts'
import type { WaitQuery } from '../transactions/wire.ts'
import type { SubjectForms } from './recipient.ts'
import { rehearseTransfer, transferTokens, TRANSFER_ROUTE } from './send.ts'
import * as wire from './wire.ts'

/** Look-ups of recipients per account and minute, by name or in a dry run: too few to read a directory. */
const LOOK_UPS_PER_MINUTE = 10

/** Registers the route that sends native currency and tokens to users. */
export function transfers(server: FastifyInstance, app: App, { forms }: { forms: SubjectForms }): void {
  const limit = openLimit({
    name: 'recipients',
    perSecond: LOOK_UPS_PER_MINUTE / 60,
    burst: LOOK_UPS_PER_MINUTE,
    now: () => app.clock.wall(),
  })

  /** POST /v1/tokens/transfers: scope `contracts:write`. 202 if `?wait=mined` timed out. */
  server.post<{ Body: Static<typeof wire.TransferRequest>; Querystring: Static<typeof WaitQuery> }>(
    TRANSFER_ROUTE,
    { schema: wire.transfer, config: { scope: 'contracts:write' } },
    async (request, reply) => {
      const { caller, body } = request
      const lookUp = () => {
        if (app.config.RATE_LIMITS === 'on') spendBehind(limit, caller.accountId, reply)
      }
      return respondToWrite(app, request, reply, {
        target: body.tokenAddress ?? body.toAddress,
        send: (idempotencyKey) =>
          transferTokens(app, caller, body, { forms, lookUp, idempotencyKey, askedFrom: request.ip }),
        rehearse: () => rehearseTransfer(app, caller, body, { forms, lookUp }),
      })
    },
  )
}
