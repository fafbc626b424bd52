import { sql } from 'kysely'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import type { DeliveryKind, WebhookEnd } from '../store/column-values.ts'
import { MAX_FAILURES_IN_A_ROW } from './schedule.ts'

/** milliseconds for which a webhook belongs to a process; each stored progress renews it */
export const LEASE_MS = 40_000
/** rows of a webhook that may wait for a retry; with more, the cursor stands */
export const MAX_RETRIES = 10_000
/** days without success after which a webhook is disabled */
const FAILING_DAYS = 5

/** A webhook that this process delivers for. */
export type ClaimedWebhook = {
  id: string
  client_id: string
  epoch: number
  cursor: number
  failures: number
  /** milliseconds until the next probe; null: events are sent */
  probe_ms: number | null
  is_full: boolean
  disabled_at: Date | null
} & WebhookSettings

/** What its owner may change while events are delivered. */
export type WebhookSettings = {
  url: string
  types: string[]
  secret: string
  /** null: there is none, or its time is over */
  old_secret: string | null
}

const SETTINGS = sql`url, types, secret, case when old_secret_ends_at > now() then old_secret end as old_secret`

/** Whether the operator lets an application receive its events. */
export const isAllowed = (clientId: string) =>
  sql<boolean>`exists (select from applications a where a.client_id = ${sql.ref(clientId)} and a.suspended_at is null and a.permissions ? 'events:read')`

/**
 * Claims webhooks that have something to send and belong to no process.
 * @param not  webhooks that this process delivers for already
 */
export async function claimWebhooks(root: RootDb, not: readonly string[], limit: number): Promise<ClaimedWebhook[]> {
  const { rows } = await sql<ClaimedWebhook>`
    update webhooks set epoch = epoch + 1, lease_ends_at = now() + make_interval(secs => ${LEASE_MS / 1_000}::int)
    where id in (
      select w.id from webhooks w
      where (w.lease_ends_at is null or w.lease_ends_at < now()) and ${isAllowed('w.client_id')}
        and w.id not in (select value from json_array_elements_text(${JSON.stringify(not)}::json))
        and (
          (w.disabled_at is null and w.probe_at <= now())
          or (w.disabled_at is null and w.probe_at is null and (
            (not w.is_full and exists (select from feeds f where f.client_id = w.client_id and f.seq > w.cursor))
            or exists (select from webhook_retries r where r.webhook_id = w.id and r.due_at <= now())
            or exists (select from webhook_replays p where p.webhook_id = w.id and p.due_at <= now())
          ))
          or exists (select from webhook_deliveries d where d.webhook_id = w.id and d.done_at is null)
        )
      order by random() limit ${limit}::int for update of w skip locked
    )
    returning id, client_id, epoch, cursor, failures, case when probe_at is not null then (greatest(0, extract(epoch from probe_at - now())) * 1000)::float8 end as probe_ms, is_full, disabled_at, ${SETTINGS}`.execute(
    root,
  )
  return rows
}

/** Returns how many events of each subject wait for a retry. */
export async function readWaiting(db: Db, webhookId: string): Promise<Map<string, number>> {
  const { rows } = await sql<{ subject: string; count: number }>`
    select subject, count(*)::int as count from webhook_retries
    where webhook_id = ${webhookId} and not is_dead group by subject`.execute(db)
  return new Map(rows.map(({ subject, count }) => [subject, count]))
}

/** Returns the numbers of events after a cursor that have a row: the process that stored it had not come to its cursor. */
export async function readStoredAfter(db: Db, webhookId: string, cursor: number): Promise<Set<number>> {
  const { rows } = await sql<{ seq: number }>`
    select seq from webhook_retries where webhook_id = ${webhookId} and seq > ${cursor}::bigint`.execute(db)
  return new Set(rows.map(({ seq }) => seq))
}

/** An attempt for the log. */
type LoggedAttempt = {
  id: string
  kind: DeliveryKind
  eventId: string
  seq: number
  type: string
  attempt: number
  status: number | null
  error: string | null
  answer: string | null
  durationMs: number
}

/** What happened since the last time that it was stored. */
export type Unstored = {
  /** events that now wait: failed ones, and those behind one of their subject, which are due never (null) */
  parked: { seq: number; subject: string; attempts: number; dueMs: number | null }[]
  /** retries that were delivered, or whose event was deleted */
  done: { seq: number; subject: string }[]
  /** retries that failed again; due never: they are dead */
  failed: { seq: number; subject: string; attempts: number; dueMs: number | null }[]
  attempts: LoggedAttempt[]
  delivered: number
  lastFailure: string | null
}

export const nothingUnstored = (): Unstored => ({
  parked: [],
  done: [],
  failed: [],
  attempts: [],
  delivered: 0,
  lastFailure: null,
})

/** The present state of a webhook, to store. */
export type Standing = {
  cursor: number
  failures: number
  /** milliseconds until the next probe; null: events are sent */
  probeMs: number | null
  /** events that wait for a retry */
  waiting: number
  ends: WebhookEnd | null
  /** gives the webhook back to all processes */
  isReleased: boolean
}

/** A webhook after its progress was stored. */
export type StoredProgress = WebhookSettings & { disabled_at: Date | null; is_allowed: boolean }

/**
 * Stores what happened, in one transaction, and renews the lease. Every statement is behind that of the webhook's row: a
 * process that has lost the webhook changes nothing.
 * @returns null  the webhook was deleted or belongs to another process
 */
export async function storeProgress(
  root: RootDb,
  { id, epoch }: Pick<ClaimedWebhook, 'id' | 'epoch'>,
  { parked, done, failed, attempts, delivered, lastFailure }: Unstored,
  { cursor, failures, probeMs, waiting, ends, isReleased }: Standing,
): Promise<StoredProgress | null> {
  const isFailing = failures >= MAX_FAILURES_IN_A_ROW && delivered === 0
  return retrying(() =>
    root.transaction().execute(async (db) => {
      const { rows } = await sql<StoredProgress>`
        update webhooks set
          cursor = greatest(cursor, ${cursor}::bigint),
          lease_ends_at = case when ${isReleased}::boolean then null else now() + make_interval(secs => ${LEASE_MS / 1_000}::int) end,
          failures = ${failures}::int,
          failing_since = case when ${failures}::int = 0 then null when ${delivered > 0}::boolean then now() else coalesce(failing_since, now()) end,
          probe_at = now() + make_interval(secs => ${probeMs === null ? null : probeMs / 1_000}::float8),
          is_full = ${waiting >= MAX_RETRIES}::boolean,
          delivered = delivered + ${delivered}::bigint,
          last_success_at = case when ${delivered > 0}::boolean then now() else last_success_at end,
          last_failure_at = case when ${lastFailure !== null}::boolean then now() else last_failure_at end,
          last_failure = coalesce(${lastFailure}::text, last_failure),
          disabled_reason = case when disabled_at is not null then disabled_reason
            when ${ends}::text is not null then ${ends}::text
            when ${isFailing}::boolean and failing_since < now() - make_interval(days => ${FAILING_DAYS}::int) then 'failing' end,
          disabled_at = case when disabled_at is not null then disabled_at
            when ${ends}::text is not null
              or (${isFailing}::boolean and failing_since < now() - make_interval(days => ${FAILING_DAYS}::int)) then now() end
        where id = ${id} and epoch = ${epoch}::bigint
        returning disabled_at, ${isAllowed('webhooks.client_id')} as is_allowed, ${SETTINGS}`.execute(db)
      const [row] = rows
      if (row === undefined) return null
      if (parked.length > 0)
        await sql`
          insert into webhook_retries (webhook_id, seq, subject, attempts, due_at)
          select ${id}, seq, subject, attempts, now() + make_interval(secs => "dueMs" / 1000.0)
          from json_to_recordset(${JSON.stringify(parked)}::json) as rows (seq int8, subject text, attempts int, "dueMs" float8)
          on conflict (webhook_id, seq) do nothing`.execute(db)
      if (done.length > 0)
        await sql`
          delete from webhook_retries where webhook_id = ${id}
            and seq in (select value::int8 from json_array_elements_text(${JSON.stringify(done.map(({ seq }) => seq))}::json))`.execute(
          db,
        )
      if (failed.length > 0)
        await sql`
          update webhook_retries r set attempts = rows.attempts, is_dead = rows."dueMs" is null,
            due_at = now() + make_interval(secs => rows."dueMs" / 1000.0)
          from json_to_recordset(${JSON.stringify(failed)}::json) as rows (seq int8, attempts int, "dueMs" float8)
          where r.webhook_id = ${id} and r.seq = rows.seq`.execute(db)
      const freed = [...done, ...failed.filter(({ dueMs }) => dueMs === null)].map(({ subject }) => subject)
      // Also where an event failed for the first time: others of its subject may be waiting only since the same moment.
      if (freed.length > 0) await makeNextDue(db, id, freed)
      if (attempts.length > 0) await logAttempts(db, id, attempts)
      return row
    }),
  )
}

/** Makes the oldest waiting event of each subject due. */
async function makeNextDue(db: Db, webhookId: string, subjects: readonly string[]): Promise<void> {
  await sql`
    update webhook_retries set due_at = now()
    where webhook_id = ${webhookId} and due_at is null and not is_dead and seq in (
      select min(seq) from webhook_retries
      where webhook_id = ${webhookId} and not is_dead
        and subject in (select value from json_array_elements_text(${JSON.stringify([...new Set(subjects)])}::json))
      group by subject)`.execute(db)
}

async function logAttempts(db: Db, webhookId: string, attempts: readonly LoggedAttempt[]): Promise<void> {
  await sql`
    insert into webhook_deliveries (id, webhook_id, kind, event_id, seq, type, attempt, status, error, answer, duration_ms, done_at)
    select id, ${webhookId}, kind, "eventId", seq, type, attempt, status, error, answer, "durationMs", clock_timestamp()
    from json_to_recordset(${JSON.stringify(attempts)}::json) as rows (id text, kind text, "eventId" text, seq int8, type text,
      attempt int, status int, error text, answer text, "durationMs" int)`.execute(db)
}

/** A retry that is due, with the events that wait behind it. */
export type RetryChain = { subject: string; rows: { seq: number; attempts: number }[] }

/** Returns due retries, each with what waits behind it, at most 64 of a subject. */
export async function readDueRetries(db: Db, webhookId: string, limit: number): Promise<RetryChain[]> {
  const { rows } = await sql<{ seq: number; subject: string; attempts: number }>`
    select seq, subject, attempts from (
      select seq, subject, attempts, row_number() over (partition by subject order by seq) as place
      from webhook_retries where webhook_id = ${webhookId} and not is_dead and subject in (
        select subject from webhook_retries where webhook_id = ${webhookId} and due_at <= now() order by due_at limit ${limit}::int)
    ) as waiting where place <= 64 order by subject, seq`.execute(db)
  return [...Map.groupBy(rows, ({ subject }) => subject)].map(([subject, list]) => ({ subject, rows: list }))
}

/** Returns the oldest event that waits for a retry, which is the first of its subject. */
export async function readOldestRetry(
  db: Db,
  webhookId: string,
): Promise<{ seq: number; subject: string; attempts: number } | undefined> {
  const { rows } = await sql<{ seq: number; subject: string; attempts: number }>`
    select seq, subject, attempts from webhook_retries where webhook_id = ${webhookId} and not is_dead
    order by seq limit 1`.execute(db)
  return rows[0]
}
