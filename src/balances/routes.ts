import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { readNativeBalance, readTokenBalance } from './read.ts'
import * as wire from './wire.ts'

/** Balances of the caller's own account. */
export function balances(server: FastifyInstance, app: App): void {
  /** GET /v1/users/:userId/balance: scope `wallet:read`. */
  server.get<{ Params: { userId: string } }>('/v1/users/:userId/balance', { schema: wire.nativeBalance, config: { scope: 'wallet:read' } }, async (request, reply) => {
    const { blockNumber, entries } = await readNativeBalance(app, request.caller, request.params)
    reply.header('x-block-number', blockNumber)
    return entries
  })

  /** GET /v1/users/:userId/balance/:tokenAddress: scope `wallet:read`. */
  server.get<{ Params: { userId: string; tokenAddress: string } }>(
    '/v1/users/:userId/balance/:tokenAddress',
    { schema: wire.tokenBalance, config: { scope: 'wallet:read' } },
    async (request, reply) => {
      const { blockNumber, entries } = await readTokenBalance(app, request.caller, request.params)
      reply.header('x-block-number', blockNumber)
      return entries
    },
  )
}
