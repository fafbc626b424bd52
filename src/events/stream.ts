import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ServerResponse } from 'node:http'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { holds, verifyAccessToken, type Reader } from '../http/bearer.ts'
import { slot } from '../state.ts'
import { takePlace } from './places.ts'
import { cursorOf, feedOf, hasFeed, readEvents, type EventFilter, type Feed } from './read.ts'
import { waitForEvents } from './watch.ts'
import type { WireEvent } from './wire.ts'

/** milliseconds without an event after which a ping shows that the stream lives */
const PING_MS = 15_000
/** milliseconds after which a stream ends; the client continues where it was, perhaps at another replica */
const LIFE_MS = 900_000
/** milliseconds between two looks at whether the token still holds */
const CHECK_MS = 5_000
/** bytes that may wait for a slow client; nothing more is read for it until they are sent */
const MAX_UNSENT = 262_144
/** milliseconds for which a client may leave them unread */
const MAX_STALLED_MS = 60_000
/** milliseconds for a client to read the rest of a stream that has ended */
const LINGER_MS = 5_000
/** events per read */
const PAGE = 200

/** Open streams of this process. */
const streams = slot('streams of events', (_app: App) => new Set<AbortController>())

/** Ends all streams, so that the program can end: clients continue at another replica. */
export function endStreams(app: App): void {
  for (const end of streams.of(app)) end.abort()
}

/**
 * Sends the events of a feed as they happen (server-sent events). Each has its cursor as id.
 * @param after  number of the last event that the client has
 * @throws rate_limited, cursor_expired  before the stream begins
 * Source: WHATWG HTML, server-sent events
 */
export async function streamEvents(
  app: App,
  request: FastifyRequest,
  reply: FastifyReply,
  { after, types }: { after: number | null; types: EventFilter },
): Promise<void> {
  const { reader } = request
  const open = streams.of(app)
  const feed = feedOf(reader)
  // Taken before the first read: those that are opened meanwhile count it. Left when the connection is done with it: what a
  // client has not read takes memory until then.
  const leavePlace = takePlace(app, feed)
  const end = new AbortController()
  open.add(end)
  const { raw } = reply
  const leave = () => {
    leavePlace()
    open.delete(end)
    end.abort()
  }
  raw.once('close', leave)
  if (raw.destroyed) leave()
  // An expired cursor is an error response, not a stream.
  const first = await readTogether(app, feed, { after, types }).catch((error: unknown) => {
    leave()
    throw error
  })
  await request.answerPast(reply, async () => {
    raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    raw.write(`retry: 1000\n\n`)
  })
  void send(app, reader, raw, { first, types, signal: end.signal })
    .catch((error: unknown) => app.telemetry.log.debug('event_stream_ended', { clientId: reader.clientId }, error))
    .finally(() => endInTime(app, raw))
}

/** Ends a response. A client that does not read the rest would hold the connection, and a server that wants to end. */
function endInTime({ clock }: App, raw: ServerResponse): void {
  raw.end()
  if (raw.closed) return
  const late = clock.after(LINGER_MS, () => raw.destroy()).unref()
  raw.once('close', () => late.cancel())
}

/** A page as it is sent. */
type FeedPage = { bytes: Buffer; after: number; isEnd: boolean }

/** Pages that are being read, by what is read. */
const pages = slot('pages of streams that are being read', (_app: App) => new Map<string, Promise<FeedPage>>())

/**
 * Reads the next page of a feed. Streams that are at the same position share one read and its bytes: an event wakes all
 * streams of an application at once. A stream that joins a read which began before an event is woken again.
 */
function readTogether(
  app: App,
  feed: Feed,
  { after, types }: { after: number | null; types: EventFilter },
): Promise<FeedPage> {
  const reading = pages.of(app)
  const key = JSON.stringify([feed.clientId, feed.accountId, after, types])
  const joined = reading.get(key)
  if (joined !== undefined) return joined
  const page = (async () => {
    try {
      const { events, ...place } = await readEvents(app, feed, { after, types, limit: PAGE })
      return { ...place, bytes: Buffer.from(events.map(textOf).join('')) }
    } finally {
      reading.delete(key)
    }
  })()
  reading.set(key, page)
  return page
}

async function send(
  app: App,
  reader: Reader,
  raw: ServerResponse,
  { first, types, signal }: { first: FeedPage; types: EventFilter; signal: AbortSignal },
): Promise<void> {
  const { clock } = app
  const until = clock.ticks() + LIFE_MS
  let checkAt = clock.ticks() + CHECK_MS
  let pingAt = clock.ticks() + PING_MS
  for (let page = first; !signal.aborted && clock.ticks() < until;) {
    if (page.bytes.length > 0) {
      raw.write(page.bytes)
      pingAt = clock.ticks() + PING_MS
    }
    await untilSent(app, raw, signal)
    if (page.isEnd) await waitForEvents(app, { clientId: reader.clientId, after: page.after }, { ms: CHECK_MS, signal })
    if (signal.aborted) return
    if (clock.ticks() >= checkAt) {
      checkAt = clock.ticks() + CHECK_MS
      if (!(await isAllowed(app, reader))) return
    }
    if (clock.ticks() >= pingAt) {
      pingAt = clock.ticks() + PING_MS
      raw.write(`id: ${cursorOf(page.after)}\nevent: ping\ndata: {}\n\n`)
    }
    page = await readTogether(app, feedOf(reader), { after: page.after, types })
  }
}

const textOf = (event: WireEvent): string =>
  `id: ${cursorOf(event.sequence)}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** Waits until a slow client has read what was sent, or the signal is aborted. A client that takes too long is cut off. */
async function untilSent({ clock }: App, raw: ServerResponse, signal: AbortSignal): Promise<void> {
  if (raw.writableLength <= MAX_UNSENT || signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const late = clock.after(MAX_STALLED_MS, () => raw.destroy())
  const gone = () => resolve()
  raw.once('drain', resolve)
  signal.addEventListener('abort', gone)
  await promise
  late.cancel()
  raw.off('drain', resolve)
  signal.removeEventListener('abort', gone)
}

/** Returns whether the token of a stream has neither expired nor been revoked, and still has its permission. */
async function isAllowed(app: App, reader: Reader): Promise<boolean> {
  try {
    await verifyAccessToken(app, reader.token)
    return hasFeed(app, reader) && holds(app, reader, reader.kind === 'machine' ? 'events:read' : 'wallet:read')
  } catch (error) {
    if (error instanceof AppError && error.statusCode < 500) return false
    throw error
  }
}
