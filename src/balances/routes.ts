/**
 * balances: balances of an account, at one block.
 * Owns: balances of native currency and tokens on the wire, the list over all tokens that the history has seen, NFTs.
 * Does not own: names and decimals of tokens (`tokens/`), reads pinned to a block (`chain/reads.ts`), transfers
 *   (`history/`).
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { linkNext } from '../http/cursor.ts'
import { listBalances } from './list.ts'
import { listNfts, type NftsParameters } from './nfts.ts'
import { readNativeBalance, readTokenBalance } from './read.ts'
import * as wire from './wire.ts'

/** Registers the routes for balances of the caller's own account, or of a user of the calling application. */
export function balances(server: FastifyInstance, app: App): void {
  /** GET /v1/users/:userId/balance: scope `wallet:read`, machines `users:read`. */
  server.get<{ Params: { userId: string } }>(
    '/v1/users/:userId/balance',
    { schema: wire.nativeBalance, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    async (request, reply) => {
      const { blockNumber, entries } = await readNativeBalance(app, request.reader, request.params)
      reply.header('x-block-number', blockNumber)
      return entries
    },
  )

  /** GET /v1/users/:userId/balance/:tokenAddress: scope `wallet:read`, machines `users:read`. */
  server.get<{ Params: { userId: string; tokenAddress: string } }>(
    '/v1/users/:userId/balance/:tokenAddress',
    { schema: wire.tokenBalance, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    async (request, reply) => {
      const { blockNumber, entries } = await readTokenBalance(app, request.reader, request.params)
      reply.header('x-block-number', blockNumber)
      return entries
    },
  )

  /** GET /v1/users/:userId/balances: scope `wallet:read`, machines `users:read`. Errors: invalid_cursor. */
  server.get<{ Params: { userId: string }; Querystring: Static<typeof wire.BalancesQuery> }>(
    '/v1/users/:userId/balances',
    { schema: wire.balances, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    async (request, reply) => {
      const { userId } = request.params
      const { limit, cursor, includeSpam } = request.query
      const page = await listBalances(app, request.reader, {
        userId,
        cursor,
        limit: limit === undefined ? undefined : Number(limit),
        includesSpam: includeSpam !== 'false',
      })
      reply.header('x-block-number', page.blockNumber).header('x-unanswered-tokens', page.unanswered)
      if (page.indexedTo !== null) reply.header('x-indexed-to-block', page.indexedTo)
      const path = `/v1/users/${encodeURIComponent(userId)}/balances`
      linkNext(reply, app, { path, query: request.query, cursor: page.nextCursor })
      return page.entries
    },
  )

  /** GET /v1/users/:userId/nfts: scope `wallet:read`, machines `users:read`. Errors: invalid_request, invalid_cursor. */
  server.get<{ Params: { userId: string }; Querystring: NftsParameters }>(
    '/v1/users/:userId/nfts',
    { schema: wire.nfts, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    async (request, reply) => {
      const { userId } = request.params
      const page = await listNfts(app, request.reader, { ...request.query, userId })
      reply.header('x-block-number', page.blockNumber)
      if (page.indexedFrom !== null) reply.header('x-indexed-from-block', page.indexedFrom)
      if (page.indexedTo !== null) reply.header('x-indexed-to-block', page.indexedTo)
      const path = `/v1/users/${encodeURIComponent(userId)}/nfts`
      linkNext(reply, app, { path, query: request.query, cursor: page.nextCursor })
      return page.entries
    },
  )
}
