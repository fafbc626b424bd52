/**
 * json-rpc: Ethereum JSON-RPC for the reads of applications and of wallet libraries.
 * Owns: the offered methods, validation of their parameters, limits of ranges and results, errors in the form of
 *   JSON-RPC.
 * Does not own: reads at a block and calls to nodes (`chain/`), calls by an ABI (`contracts/`), anything that signs or
 *   sends.
 * Start with `methods.ts`.
 */

import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { textsOf } from '../http/page.ts'
import { nameLanguage } from '../http/problems.ts'
import { NoQuery } from '../http/wire.ts'
import { answerCalls } from './answer.ts'
import * as wire from './wire.ts'

/** POST /v1/rpc: scope `contracts:read`. Every call counts as a read, whether its method is offered or not. */
export function jsonRpc(server: FastifyInstance, app: App): void {
  server.post<{ Body: object | unknown[] }>(
    '/v1/rpc',
    { schema: { ...wire.rpc, querystring: NoQuery }, config: { scope: 'contracts:read' } },
    async (request, reply) => {
      const { body } = request
      const calls = Array.isArray(body) ? body : [body]
      request.weigh(calls.length)
      await request.chargeReads(calls.length - 1, reply)
      const words = textsOf(request)
      const context = { origin: app.origin, instance: '/v1/rpc', requestId: request.id, words }
      const texts = await answerCalls(app, request.caller, calls, context)
      nameLanguage(reply, words).header('content-type', 'application/json; charset=utf-8')
      return Array.isArray(body) ? `[${texts.join()}]` : texts[0]
    },
  )
}
