import { Busy } from './errors.ts'
import type { CallOptions, Requests } from './request.ts'
import type { FeedEvent, EventType } from './wire.ts'

/** `transaction.*` stands for all types of a group. */
type EventGroup = EventType extends infer T ? (T extends `${infer Group}.${string}` ? `${Group}.*` : never) : never

/** Which events to read, and from where. */
export type EventsOptions = CallOptions & {
  /**
   * the `cursor` of the last page whose events are done; `'now'`: events from now on. If absent, from the oldest event that the
   * service stores
   */
  cursor?: string | undefined
  /** all types if absent; `transaction.*` stands for all of a group */
  types?: readonly (EventType | EventGroup)[]
  /** false: long polling only. Without it, a stream is tried first */
  stream?: boolean
}

/** Events in their order. Store `cursor` together with their effects: the next page begins after them. */
export type EventPage = { events: FeedEvent[]; cursor: string }

const MAX_PAGE = 1_000
/** seconds for which the service waits for an event */
const WAIT_SECONDS = 30
/** a pause is up to half longer than its delay, so that clients of a server that was restarted do not return together */
const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 30_000
/** The service sends something every 15 seconds. A stream that is silent for longer is cut. */
const MAX_SILENCE_MS = 40_000
/** milliseconds within which a stream without an event has ended at once: a server or a proxy that closes it */
const SHORT_STREAM_MS = 5_000
/** streams in a row without a byte, as behind a proxy that collects responses, after which only long polling is used */
const MAX_EMPTY_STREAMS = 2

/**
 * Reads a feed for as long as the caller iterates: stored events in large pages, then a stream or, where streams do not arrive, long
 * polling. It continues after failures of the network or the service.
 * @throws CursorExpired, ClientError
 */
export async function* readFeed(
  { get, open, sleep, random }: Requests,
  { cursor, types, signal, stream = true }: EventsOptions = {},
): AsyncGenerator<EventPage> {
  let at = cursor
  let delayMs = FIRST_DELAY_MS
  let isAtEnd = false
  let emptyStreams = stream ? 0 : MAX_EMPTY_STREAMS
  const isOver = (): boolean => signal?.aborted === true
  while (!isOver()) {
    let isQuick = false
    const isStream = isAtEnd && emptyStreams < MAX_EMPTY_STREAMS
    try {
      const filter = { cursor: at, types: types?.join(',') }
      const began = performance.now()
      if (isStream) {
        const response = await open('/v1/events', filter, { signal })
        let isSilent = true
        emptyStreams += 1
        if (response === null) emptyStreams = MAX_EMPTY_STREAMS
        else
          for await (const page of readStream(response, { sleep, signal })) {
            emptyStreams = 0
            if (page.cursor !== undefined) {
              at = page.cursor
              isSilent = false
              delayMs = FIRST_DELAY_MS
            }
            if (page.events.length > 0) yield { events: page.events, cursor: at! }
          }
        isQuick = emptyStreams > 0 || (isSilent && performance.now() - began < SHORT_STREAM_MS)
      } else {
        const wait: number = isAtEnd ? WAIT_SECONDS : 0
        const { body, headers } = await get<FeedEvent[]>('/v1/events', { ...filter, wait, limit: MAX_PAGE }, { signal })
        at = headers.get('x-next-cursor')!
        // A service that is ending or overloaded does not wait.
        isQuick = isAtEnd && body.length === 0 && performance.now() - began < FIRST_DELAY_MS
        isAtEnd = body.length < MAX_PAGE
        if (body.length > 0) yield { events: body, cursor: at }
      }
    } catch (error) {
      if (isOver()) return
      // Another attempt helps only if the service did not respond, or asked for a later one.
      if (!(error instanceof Busy)) throw error
      // Too many streams are open, or a proxy lets none through: soon the pages come without one.
      if (isStream && (error.code === 'rate_limited' || error.code === 'no_stream')) emptyStreams += 1
      // It took a while: a page shows what has happened since.
      if (isStream && error.code !== 'rate_limited') isAtEnd = false
      isQuick = true
    }
    if (!isQuick) delayMs = FIRST_DELAY_MS
    else if (!isOver()) {
      await sleep(delayMs * (1 + random() / 2), signal)
      delayMs = Math.min(MAX_DELAY_MS, delayMs * 2)
    }
  }
}

/**
 * Reads server-sent events until the stream ends, fails or is silent. A piece without an event has no cursor, or that of a ping.
 * Source: WHATWG HTML, server-sent events
 */
async function* readStream(
  response: Response,
  { sleep, signal }: { sleep: Requests['sleep']; signal: AbortSignal | undefined },
): AsyncGenerator<{ events: FeedEvent[]; cursor: string | undefined }> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  const aborted = new Promise<null>((resolve) => signal?.addEventListener('abort', () => resolve(null), { once: true }))
  let text = ''
  try {
    for (;;) {
      const heard = new AbortController()
      const silence = sleep(MAX_SILENCE_MS, heard.signal).then(() => null)
      const piece = await Promise.race([reader.read().catch(() => null), silence, aborted])
      heard.abort()
      if (piece === null || piece.done || signal?.aborted === true) return
      text += decoder.decode(piece.value, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop()!
      let cursor: string | undefined
      const events: FeedEvent[] = []
      for (const block of blocks) {
        const fields = new Map(block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)])) // prettier-ignore
        cursor = fields.get('id') ?? cursor
        if (fields.has('data') && fields.get('event') !== 'ping')
          events.push(JSON.parse(fields.get('data')!) as FeedEvent)
      }
      yield { events, cursor }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
