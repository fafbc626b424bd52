import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { allowedTo, type Reader } from '../http/bearer.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../http/cursor.ts'
import { eventId } from './describe.ts'
import { EVENT_TYPES, type EventType, type WireEvent } from './wire.ts'

/** Events that are looked at for one page, so that a filter that matches nothing does not read a whole feed. */
const MAX_LOOKED_AT = 5_000

/** The part of a feed that a reader sees. `accountId`: events of this account; null: those that the application sees by itself. */
export type Feed = { clientId: string; accountId: string | null }

/** Returns whether an application has a feed: without the permission, no events are written for it. */
export const hasFeed = (app: App, { clientId }: Pick<Reader, 'clientId'>): boolean =>
  allowedTo(app, clientId).permissions.has('events:read')

/** Types to read; null: all. */
export type EventFilter = readonly EventType[] | null

/** Returns the feed of a caller: a user's own account at the application, or all that the application may see. */
export const feedOf = (reader: Reader): Feed => ({
  clientId: reader.clientId,
  accountId: reader.kind === 'machine' ? null : reader.accountId,
})

/**
 * Reads a list of types, such as `transaction.*,transfer.detected`.
 * @returns null  all types
 * @throws invalid_request
 */
export function readTypes(text: string | undefined): EventFilter {
  if (text === undefined) return null
  const wanted = text.split(',')
  const types = EVENT_TYPES.filter((type) =>
    wanted.some((one) => one === type || one === '*' || one === `${type.split('.')[0]}.*`),
  )
  const unknown = wanted.find(
    (one) => one !== '*' && !EVENT_TYPES.some((type) => one === type || one === `${type.split('.')[0]}.*`),
  )
  if (unknown === undefined) return types
  throw new AppError('invalid_request', 'The list of types has an unknown one. Nothing was done. Correct `types`.', {
    errors: [
      {
        parameter: 'types',
        code: 'invalid',
        detail: `Types are separated by commas: ${EVENT_TYPES.join(', ')}, or all of a group, such as transaction.*.`,
      },
    ],
  })
}

/** Encodes the position after an event. */
export const cursorOf = (seq: number): string => writeCursor(['events', seq])

/** @throws invalid_cursor */
export function readEventCursor(cursor: string): number {
  const [name, seq] = readPageCursor(cursor, ['string', 'number'])
  if (name !== 'events' || (seq as number) < 0) throw foreignCursor()
  return seq as number
}

/** Returns the numbers of a feed's last deleted event and of its newest event; 0: there is none. */
export async function readEnds(
  { db }: Pick<App, 'db'>,
  clientId: string,
): Promise<{ trimmed: number; newest: number }> {
  const row = await db
    .selectFrom('feeds')
    .select(['seq', 'trimmed'])
    .where('client_id', '=', clientId)
    .executeTakeFirst()
  return { trimmed: row?.trimmed ?? 0, newest: row?.seq ?? 0 }
}

type EventRow = {
  seq: number
  id: string
  type: EventType
  subject: string
  account_id: string | null
  chain_id: number | null
  data: Record<string, unknown>
  at: Date
  user_id: string | null
}

/** `after`: for the next page. If there are no more events, it is the end of the feed. */
export type EventPage = { events: WireEvent[]; after: number; isEnd: boolean }

/**
 * Reads the events of a feed after a position, oldest first.
 * @param after   number of the last event that was read; null: from the oldest that is stored
 * @throws cursor_expired  events after the position were deleted
 */
export async function readEvents(
  app: Pick<App, 'db' | 'networks'>,
  { clientId, accountId }: Feed,
  { after, types, limit }: { after: number | null; types: EventFilter; limit: number },
): Promise<EventPage> {
  const whose: RawBuilder<unknown> = accountId === null ? sql`true` : sql`account_id = ${accountId}::uuid`
  const shown: RawBuilder<unknown> = accountId === null ? sql`not is_own` : sql`true`
  const wanted = types === null ? sql`true` : sql`type in (${sql.join(types.map((type) => sql.lit(type)))})`
  // One statement, so that no event is deleted or numbered between its parts.
  const { rows } = await sql<EventRow & FeedEnds>`
    with feed as (select seq, trimmed from feeds where client_id = ${clientId}), looked as (
      select * from events where client_id = ${clientId} and seq > coalesce(${after}::bigint, (select trimmed from feed)) and ${whose}
      order by seq limit ${MAX_LOOKED_AT}::int
    ), found as (select * from looked where ${shown} and ${wanted} order by seq limit ${limit}::int)
    select found.*, account.user_id, ends.newest, ends.trimmed, ends.looked_to, ends.looked_at
    from (select max(seq) as looked_to, count(*)::int as looked_at, (select seq from feed) as newest, (select trimmed from feed) as trimmed
      from looked) as ends
    left join found on true left join accounts account on account.account_id = found.account_id
    order by found.seq`.execute(app.db)
  const { newest, trimmed, looked_to: lookedTo, looked_at: lookedAt } = rows[0]!
  if (newest === null || trimmed === null) return { events: [], after: after ?? 0, isEnd: true }
  if (after !== null && after < trimmed) throw expired(trimmed)
  const events = rows.filter(({ seq }) => seq !== null)
  if (events.length === limit)
    return { events: events.map((row) => toWire(app, row)), after: events.at(-1)!.seq, isEnd: false }
  const isEnd = lookedAt < MAX_LOOKED_AT
  const end = isEnd ? Math.max(newest, after ?? 0) : lookedTo!
  return { events: events.map((row) => toWire(app, row)), after: end, isEnd }
}

/** Reads like `readEvents`. If events after the position were deleted (`isCut`), from the oldest that is stored. */
export async function readStored(
  app: Pick<App, 'db' | 'networks'>,
  feed: Feed,
  place: { after: number; types: EventFilter; limit: number },
): Promise<EventPage & { isCut: boolean }> {
  try {
    return { ...(await readEvents(app, feed, place)), isCut: false }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'cursor_expired') throw error
    return { ...(await readEvents(app, feed, { ...place, after: null })), isCut: true }
  }
}

/** The numbers of the feed; null: no event was ever written for it. `looked_to`: of the last event that was looked at. */
type FeedEnds = { newest: number | null; trimmed: number | null; looked_to: number | null; looked_at: number }

/**
 * Reads events of a feed by their numbers, as the application sees them by itself. Events that were deleted are missing.
 */
export async function readEventsAt(
  app: Pick<App, 'db' | 'networks'>,
  clientId: string,
  seqs: readonly number[],
): Promise<WireEvent[]> {
  if (seqs.length === 0) return []
  const { rows } = await sql<EventRow>`
    select events.*, account.user_id from events left join accounts account on account.account_id = events.account_id
    where client_id = ${clientId} and not is_own
      and seq in (select value::int8 from json_array_elements_text(${JSON.stringify(seqs)}::json))
    order by seq`.execute(app.db)
  return rows.map((row) => toWire(app, row))
}

const expired = (trimmed: number): AppError =>
  new AppError(
    'cursor_expired',
    'Events after this cursor were deleted because of their age. Nothing was done. Read the present state from the API, then continue with `resumeAt`.',
    { resumeAt: cursorOf(trimmed) },
  )

function toWire({ networks }: Pick<App, 'networks'>, row: EventRow): WireEvent {
  return {
    id: eventId(row.id),
    type: row.type,
    timestamp: row.at.toISOString(),
    sequence: row.seq,
    subject: row.subject.startsWith('account:') ? `user:${row.user_id}` : row.subject,
    userId: row.user_id,
    network: row.chain_id === null ? null : (networks.get(row.chain_id)?.name ?? null),
    chainId: row.chain_id,
    data: row.data,
  }
}
