/**
 * events: changes of transactions, transfers and accounts, as one ordered feed for each application.
 * Owns: the meaning of a change for applications, the order of each feed, reading and streaming it, its retention.
 * Does not own: the changes themselves: the statement that makes one also writes its fact (triggers in `migrations/`).
 * Start with `describe.ts` and `sequence.ts`.
 * Tables: denials, events, facts, feeds, final_transfers, low_balances.
 */

import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { takePlace } from './places.ts'
import { cursorOf, feedOf, hasFeed, readEnds, readEventCursor, readEvents, readTypes, type EventPage } from './read.ts'
import { endStreams, streamEvents } from './stream.ts'
import { waitForEvents } from './watch.ts'
import * as wire from './wire.ts'

/** Registers GET /v1/events: scope `wallet:read`, machines `events:read`. Errors: invalid_cursor, cursor_expired, rate_limited. */
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
      const ms = isHead ? 0 : Number(query.wait ?? '0') * 1_000
      if (page.events.length === 0 && ms > 0)
        page = await readLater(page, ms, AbortSignal.any([closing.signal, closingOf(reply)]))
      reply.header('x-next-cursor', cursorOf(page.after))
      return page.events

      /** Reads again when there are events, for so many milliseconds. */
      async function readLater(first: EventPage, waitMs: number, signal: AbortSignal): Promise<EventPage> {
        const leavePlace = takePlace(app, feed)
        try {
          const until = app.clock.ticks() + waitMs
          let next = first
          while (next.events.length === 0 && app.clock.ticks() < until && !signal.aborted && request.standAside()) {
            const left = until - app.clock.ticks()
            if (next.isEnd)
              await waitForEvents(app, { clientId: feed.clientId, after: next.after }, { ms: left, signal })
            next = await readEvents(app, feed, { after: next.after, types, limit })
          }
          return next
        } finally {
          leavePlace()
        }
      }
    },
  )
}

/** Returns a signal that is aborted when the connection of a response is closed. */
function closingOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => gone.abort())
  return gone.signal
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
