/**
 * contracts: calls of any contract by its ABI: reads here, writes in `write-route.ts`.
 * Owns: the way from ABI text and strings to calldata, results on the wire, the caches of parsed ABIs and of responses
 *   of one block.
 * Does not own: parsing and coding (`abi/`), and everything after a write's calldata (`transactions/`).
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { textsOf } from '../http/page.ts'
import { nameLanguage } from '../http/problems.ts'
import { NoQuery } from '../http/wire.ts'
import { readContract, readContracts } from './read.ts'
import * as wire from './wire.ts'

/** Registers the routes that read from any contract. */
export function contractReads(server: FastifyInstance, app: App): void {
  /** POST /v1/contracts/method/read: scope `contracts:read`. */
  server.post<{ Body: Static<typeof wire.ReadRequest> }>(
    '/v1/contracts/method/read',
    { schema: { ...wire.read, querystring: NoQuery }, config: { scope: 'contracts:read' } },
    async (request, reply) => {
      const { text, blockNumber } = await readContract(
        app,
        request.caller,
        request.body,
        (answer) => reply.serialize(answer) as string,
      )
      reply.header('x-block-number', blockNumber).header('content-type', 'application/json; charset=utf-8')
      return text
    },
  )

  /** POST /v1/contracts/method/read/batch: scope `contracts:read`. */
  server.post<{ Body: Static<typeof wire.BatchRequest> }>(
    '/v1/contracts/method/read/batch',
    { schema: { ...wire.readBatch, querystring: NoQuery }, config: { scope: 'contracts:read' } },
    async (request, reply) => {
      request.weigh(request.body.calls.length)
      await request.chargeReads(request.body.calls.length - 1, reply)
      const words = textsOf(request)
      const answer = await readContracts(app, request.caller, request.body, {
        instance: '/v1/contracts/method/read/batch',
        requestId: request.id,
        words,
      })
      nameLanguage(reply, words).header('x-block-number', answer.blockNumber)
      return answer
    },
  )
}
