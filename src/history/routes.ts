/**
 * history: past transfers of tokens and native currency, from the blocks that the follower reads.
 * Owns: finding transfers in logs, and of native currency in blocks and traces, storing and retracting them, filters and pages, what is
 *   spam, backfill and audit.
 * Does not own: blocks and reorganisations (`follower/`), names of tokens (`tokens/`), transactions and their states
 *   (`transactions/`).
 * Start with `index-transfers.ts` for writing, `read.ts` for reading.
 * Tables: backfill_work, coverage, history_marks, native_coverage, transfers.
 */

import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { linkNext } from '../http/cursor.ts'
import type { HistoryParameters } from './query.ts'
import { readHistory } from './read.ts'
import * as wire from './wire.ts'

/**
 * Registers GET /v1/users/:userId/history: scope `wallet:read`, machines `users:read`. Errors: forbidden_user,
 * invalid_user_id, invalid_request, unknown_parameter, invalid_cursor.
 */
export function history(server: FastifyInstance, app: App): void {
  server.get<{ Params: { userId: string }; Querystring: HistoryParameters }>(
    '/v1/users/:userId/history',
    { schema: wire.history, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    async (request, reply) => {
      const { userId } = request.params
      const page = await readHistory(app, request.reader, userId, request.query)
      if (page.indexedFrom !== null) reply.header('x-indexed-from-block', String(page.indexedFrom))
      if (page.indexedTo !== null) reply.header('x-indexed-to-block', String(page.indexedTo))
      if (page.finalizedTo !== null) reply.header('x-finalized-to-block', String(page.finalizedTo))
      const { from = null, internalFrom = null } = page.native ?? {}
      if (from !== null) reply.header('x-native-from-block', String(from))
      if (internalFrom !== null) reply.header('x-native-internal-from-block', String(internalFrom))
      const path = `/v1/users/${encodeURIComponent(userId)}/history`
      linkNext(reply, app, { path, query: request.query, cursor: page.nextCursor })
      return page.entries
    },
  )
}
