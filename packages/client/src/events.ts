import type { CallOptions, Requests } from './request.ts'
import type { FeedEvent, EventType } from './wire.ts'

/** Which events to read, and from where. */
export type EventsOptions = CallOptions & {
  /**
   * the `cursor` of the last page whose events are done; `'now'`: events from now on. If absent, from the oldest event that the
   * service stores
   */
  cursor?: string | undefined
  /** all types if absent; `transaction.*` stands for all of a group */
  types?: readonly (EventType | `${string}.*`)[]
}

/** Events in their order. Store `cursor` together with their effects: the next page begins after them. */
export type EventPage = { events: FeedEvent[]; cursor: string }

/** seconds for which the service waits for an event */
const WAIT_SECONDS = 30
const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 30_000

/**
 * Reads a feed page by page, for as long as the caller iterates: it waits for the next events, and continues after failures of the
 * network or the service.
 */
export async function* readFeed(
  { get, sleep, now }: Requests,
  { cursor, types, signal }: EventsOptions = {},
): AsyncGenerator<EventPage> {
  let at = cursor
  let wait = 0
  for (let delayMs = FIRST_DELAY_MS; !isOver(signal);) {
    try {
      const askedAt = now()
      const query = { cursor: at, types: types?.join(','), wait, limit: 1_000 }
      const { body, headers } = await get<FeedEvent[]>('/v1/events', query, { signal })
      at = headers.get('x-next-cursor')!
      // The service did not wait, because too many requests wait already.
      const isEarly = wait > 0 && body.length === 0 && now() - askedAt < FIRST_DELAY_MS
      wait = WAIT_SECONDS
      delayMs = FIRST_DELAY_MS
      if (body.length > 0) yield { events: body, cursor: at }
      if (isEarly) await sleep(FIRST_DELAY_MS, signal)
    } catch (error) {
      // What another attempt can mend: the service did not respond, or said when to come again.
      if (isOver(signal) || (error as { name?: string }).name !== 'Busy') throw error
      await sleep(delayMs, signal)
      delayMs = Math.min(MAX_DELAY_MS, delayMs * 2)
    }
  }
}

const isOver = (signal: AbortSignal | undefined): boolean => signal?.aborted === true
