import { sql } from 'kysely'
import { eventId } from '../events/describe.ts'
import { cutPage, foreignCursor, readPageCursor } from '../http/cursor.ts'
import type { Db } from '../store/db.ts'
import { selectWebhooks, STATE } from './manage.ts'
import { isAllowed } from './progress.ts'
import { DELAYS_MS } from './schedule.ts'
import type { WireWebhook } from './wire.ts'

export const WEBHOOK_STATES = ['enabled', 'failing', 'disabled'] as const satisfies WireWebhook['state'][]
type WebhookChoice = { state: WireWebhook['state'] | null; clientId: string | null }

/** Lists webhooks of one state or application, or all, by application and id. @throws invalid_cursor */
export async function pageWebhooks(
  db: Db,
  { state, clientId }: WebhookChoice,
  { limit, cursor }: { limit: number; cursor: string | undefined },
): Promise<{ webhooks: WireWebhook[]; nextCursor: string | null }> {
  const query = `webhooks ${state ?? ''} ${clientId ?? ''}`
  const [name, afterClient, afterId] =
    cursor === undefined ? [query, '', ''] : (readPageCursor(cursor, ['string', 'string', 'string']) as string[])
  if (name !== query || `${afterClient}${afterId}`.includes('\0')) throw foreignCursor()
  const found = await selectWebhooks(
    db,
    sql`(w.client_id, w.id) > (${afterClient}::text, ${afterId}::text) and (${clientId}::text is null or w.client_id = ${clientId}::text)
      and (${state}::text is null or ${state}::text = ${STATE})
      order by w.client_id, w.id limit ${limit + 1}::int`,
  )
  const { page, nextCursor } = cutPage(found, limit, (one) => [query, one.clientId, one.id])
  return { webhooks: page, nextCursor }
}

/** The part of a webhook's state that operators see. */
export type WebhookBacklog = {
  /** null: it does not fail */
  failingSince: Date | null
  disabledAt: Date | null
  /** time of the next attempt of a failing webhook */
  probeAt: Date | null
  /** false: its application is suspended or may not read events, so nothing is sent */
  isAllowed: boolean
  /** events that wait: new ones, and those that wait for a retry */
  behind: number
  /** further events were not counted */
  isMore: boolean
  /** time of the oldest counted event */
  oldestAt: Date | null
}

/**
 * Reads the backlogs of webhooks, by id.
 * @param looks  maximum of events that are read for one webhook: a disabled one may be millions behind
 */
export async function readBacklogs(
  db: Db,
  ids: readonly string[],
  looks: number,
): Promise<ReadonlyMap<string, WebhookBacklog>> {
  const { rows } = await sql<WebhookBacklog & { id: string }>`
    select w.id, case when w.probe_at is not null then w.failing_since end as "failingSince", w.disabled_at as "disabledAt",
      w.probe_at as "probeAt", ${isAllowed('w.client_id')} as "isAllowed",
      feed.behind + retries.behind as behind, feed.looked = ${looks}::int as "isMore", least(feed.oldest, oldest.at) as "oldestAt"
    from webhooks w
    cross join lateral (
      select count(*) filter (where is_wanted)::int as behind, count(*)::int as looked, min(at) filter (where is_wanted) as oldest
      from (
        select e.at, not e.is_own and e.subject <> 'webhook:' || w.id and exists (
          select from jsonb_array_elements_text(w.types) as types (name)
          where name in ('*', e.type) or (name like '%.*' and starts_with(e.type, left(name, -1)))
        ) as is_wanted
        from events e where e.client_id = w.client_id and e.seq > w.cursor order by e.seq limit ${looks}::int
      ) as looked
    ) as feed
    cross join lateral (
      select count(*)::int as behind from webhook_retries r where r.webhook_id = w.id and not r.is_dead
    ) as retries
    left join lateral (
      select e.at from webhook_retries r join events e on e.client_id = w.client_id and e.seq = r.seq
      where r.webhook_id = w.id and not r.is_dead order by r.seq limit 1
    ) as oldest on true
    where w.id in (select value from json_array_elements_text(${JSON.stringify(ids)}::json))`.execute(db)
  return new Map(rows.map(({ id, ...backlog }) => [id, backlog]))
}

/** An event whose last retry failed. `event`: null if it was deleted, so that it cannot be sent again. */
export type DeadEvent = {
  seq: number
  attempts: number
  event: { id: string; type: string; subject: string; at: Date } | null
}

/** Lists the dead events of a webhook, newest first. @throws invalid_cursor */
export async function listDead(
  db: Db,
  { id, clientId }: Pick<WireWebhook, 'id' | 'clientId'>,
  { limit, cursor }: { limit: number; cursor: string | undefined },
): Promise<{ page: DeadEvent[]; nextCursor: string | null }> {
  const [name, before] = cursor === undefined ? [id, null] : readPageCursor(cursor, ['string', 'number'])
  if (name !== id) throw foreignCursor()
  const { rows } = await sql<{
    seq: number
    attempts: number
    eventId: string | null
    type: string
    subject: string
    at: Date
  }>`
    select r.seq, r.attempts, e.id as "eventId", e.type, e.subject, e.at
    from webhook_retries r left join events e on e.client_id = ${clientId} and e.seq = r.seq
    where r.webhook_id = ${id} and r.is_dead and (${before}::bigint is null or r.seq < ${before}::bigint)
    order by r.seq desc limit ${limit + 1}::int`.execute(db)
  const found = rows.map(({ seq, attempts, eventId: uuid, type, subject, at }) => ({
    ...{ seq, attempts },
    event: uuid === null ? null : { id: eventId(uuid), type, subject, at },
  }))
  return cutPage(found, limit, ({ seq }) => [id, seq])
}

/** A webhook that needs an operator or its application. `dead`: events that died in the last day, and were not sent since. */
export type WebhookTrouble = {
  id: string
  clientId: string
  disabledReason: WireWebhook['disabledReason']
  /** null: it does not fail, or not for an hour yet */
  failingSince: Date | null
  dead: number
}

/** Lists webhooks that are disabled, that fail for over an hour, or that have events which died in the last day. */
export async function findTroubles(db: Db): Promise<WebhookTrouble[]> {
  // The log has the last attempt of each event that died: only its number is above that of the delays.
  const { rows } = await sql<WebhookTrouble>`
    select * from (
      select w.id, w.client_id as "clientId", w.disabled_reason as "disabledReason",
        case when w.disabled_at is null and w.probe_at is not null and w.failing_since < now() - interval '1 hour' then w.failing_since end as "failingSince",
        (select count(distinct d.seq)::int from webhook_deliveries d join webhook_retries r on r.webhook_id = w.id and r.seq = d.seq and r.is_dead
          where d.webhook_id = w.id and d.created_at > now() - interval '1 day' and d.kind = 'retry' and d.attempt > ${DELAYS_MS.length}::int) as dead
      from webhooks w
    ) as troubles where "disabledReason" is not null or "failingSince" is not null or dead > 0
    order by "disabledReason" is null, "failingSince", id`.execute(db)
  return rows
}
