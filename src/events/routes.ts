/**
 * events: changes of transactions, transfers and accounts, as one ordered feed for each application.
 * Owns: the meaning of a change for applications, the order of each feed, reading and streaming it, its retention.
 * Does not own: the changes themselves: the statement that makes one also writes its fact (triggers in `migrations/`).
 * Start with `describe.ts` and `sequence.ts`.
 * Tables: denials, events, facts, feeds, final_transfers, low_balances.
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { cursorOf, feedOf, hasFeed, readEnds, readEventCursor, readEvents, readTypes } from './read.ts'
import { endStreams, streamEvents } from './stream.ts'
import { waitForEvents } from './watch.ts'
import * as wire from './wire.ts'

/** Registers GET /v1/events: scope `wallet:read`, machines `events:read`. Errors: invalid_cursor, cursor_expired. */
export function events(server: FastifyInstance, app: App): void {
  const closing = new AbortController()
  server.addHook('preClose', (done) => {
    closing.abort()
    endStreams(app)
    done()
  })
  server.get<{ Querystring: Static<typeof wire.EventsQuery> }>(
    '/v1/events',
    { schema: wire.events, config: { scope: 'wallet:read', machineScope: 'events:read', admission: 'status' } },
    async (request, reply) => {
      const { reader, query, headers } = request
      chainOf(app, reader)
      assertHasFeed(app, reader)
      const feed = feedOf(reader)
      const types = readTypes(query.types)
      // HEAD has no body: it would hold the connection as an empty stream, or as a request that waits.
      const isHead = request.method === 'HEAD'
      const isStream = !isHead && /\btext\/event-stream\b/.test(headers.accept ?? '')
      const last = isStream ? headers['last-event-id'] : undefined
      const cursor = typeof last === 'string' && last !== '' ? last : query.cursor
      const after = cursor === undefined ? null : cursor === 'now' ? (await readEnds(app, feed.clientId)).newest : readEventCursor(cursor) // prettier-ignore
      if (isStream) {
        await streamEvents(app, request, reply, { after, types })
        return reply
      }
      const limit = Number(query.limit ?? '100')
      let page = await readEvents(app, feed, { after, types, limit })
      const until = app.clock.ticks() + (isHead ? 0 : Number(query.wait ?? '0')) * 1_000
      const gone = new AbortController()
      reply.raw.once('close', () => gone.abort())
      const signal = AbortSignal.any([closing.signal, gone.signal])
      while (page.events.length === 0 && app.clock.ticks() < until && !signal.aborted && request.standAside()) {
        if (page.isEnd) await waitForEvents(app, { clientId: feed.clientId, after: page.after }, { ms: until - app.clock.ticks(), signal }) // prettier-ignore
        page = await readEvents(app, feed, { after: page.after, types, limit })
      }
      reply.header('x-next-cursor', cursorOf(page.after))
      return page.events
    },
  )
}

/**
 * Checks that an application has a feed, instead of responding with an empty list.
 * @throws insufficient_scope
 */
function assertHasFeed(app: App, reader: Reader): void {
  if (hasFeed(app, reader)) return
  throw new AppError(
    'insufficient_scope',
    'The application has no feed of events. Nothing was done. Ask the operator to give it the permission events:read.',
    reader.jkt === undefined ? {} : { challenge: 'DPoP' },
  )
}
