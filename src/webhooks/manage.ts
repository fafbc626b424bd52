import { randomBytes, randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import { sql, type Selectable } from 'kysely'
import { AppError } from '../errors.ts'
import { eventId } from '../events/describe.ts'
import { readTypes } from '../events/read.ts'
import { cutPage, foreignCursor, isMoment, readPageCursor } from '../http/cursor.ts'
import { isPublicAddress } from '../http/outbound.ts'
import { isId } from '../ids.ts'
import type { DeliveryKind } from '../store/column-values.ts'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import { momentText } from '../store/read-time.ts'
import type { Database } from '../store/rows.ts'
import { holdName, inTransaction } from '../store/transaction.ts'
import { encryptSecret, type SecretKeys } from '../store/secret-keys.ts'
import { newDeliveryId } from './requested.ts'
import { newSigningSecret, showSecret } from './sign.ts'
import type { WebhookWithSecret, WireDelivery, WireWebhook } from './wire.ts'

const MAX_WEBHOOKS = 20
/** hours for which the former secret signs as well after a rotation */
const OLD_SECRET_HOURS = 24
/** tests and repeats by hand that may wait to be sent */
const MAX_REQUESTED = 20

/** A webhook. `clientId`: it must belong to this application; null: an operator asks. */
export type WhichWebhook = { id: string; clientId: string | null }

/** What the settings say about URLs. */
export type UrlRules = { privateHosts: ReadonlySet<string> }

/**
 * Creates a webhook that receives what happens from now on.
 * @throws invalid_request, not_found, already_exists
 */
export async function createWebhook(
  root: RootDb,
  { keys, privateHosts }: { keys: SecretKeys } & UrlRules,
  { clientId, url, types = ['*'] }: { clientId: string; url: string; types?: string[] | undefined },
): Promise<WebhookWithSecret> {
  assertUrl(url, privateHosts)
  assertTypes(types)
  const [id, secret] = [`whk_${randomUUID()}`, newSigningSecret()]
  const encrypted = encryptSecret(keys, secret, id)
  await retrying(() =>
    inTransaction(root, async (db) => {
      await holdName(db, `webhooks of ${clientId}`)
      const { rows } = await sql<{ reads: boolean; count: number }>`
        select permissions ? 'events:read' as reads, (select count(*)::int from webhooks w where w.client_id = a.client_id) as count
        from applications a where client_id = ${clientId}`.execute(db)
      const [application] = rows
      if (application === undefined) throw noApplication(clientId)
      if (!application.reads) throw withoutEvents()
      if (application.count >= MAX_WEBHOOKS) throw tooMany()
      await sql`
        insert into webhooks (id, client_id, url, types, secret, cursor)
        values (${id}, ${clientId}, ${url}, ${JSON.stringify(types)}::text::jsonb, ${encrypted},
          coalesce((select seq from feeds where client_id = ${clientId}), 0))`.execute(db)
    }),
  )
  return { webhook: await readWebhook(root, { id, clientId }), secret: showSecret(secret) }
}

/** Lists webhooks, the oldest first. @param clientId  null: of all applications */
export async function listWebhooks(db: Db, clientId: string | null): Promise<WireWebhook[]> {
  return selectWebhooks(
    db,
    sql`${clientId}::text is null or w.client_id = ${clientId}::text order by w.created_at, w.id`,
  )
}

/** @throws not_found */
export async function readWebhook(db: Db, { id, clientId }: WhichWebhook): Promise<WireWebhook> {
  if (!isId(id)) throw noWebhook()
  const [one] = await selectWebhooks(
    db,
    sql`w.id = ${id} and (${clientId}::text is null or w.client_id = ${clientId}::text)`,
  )
  if (one === undefined) throw noWebhook()
  return one
}

type WebhookRow = Omit<WireWebhook, 'lastSuccessAt' | 'lastFailureAt' | 'oldSecretEndsAt' | 'createdAt' | 'replay'> & {
  lastSuccessAt: Date | null
  lastFailureAt: Date | null
  oldSecretEndsAt: Date | null
  createdAt: Date
  replayed: number | null
  replayFailures: number | null
  replayAt: Date | null
}

/** SQL for the state of a webhook `w`. */
export const STATE = sql<
  WireWebhook['state']
>`case when w.disabled_at is not null then 'disabled' when w.probe_at is not null then 'failing' else 'enabled' end`

/** Reads webhooks `w`. @param which  condition, and what may follow it in a statement */
export async function selectWebhooks(db: Db, which: ReturnType<typeof sql>): Promise<WireWebhook[]> {
  const { rows } = await sql<WebhookRow>`
    select w.id, w.client_id as "clientId", w.url, w.types,
      ${STATE} as state,
      w.disabled_reason as "disabledReason", w.delivered,
      (select count(*)::int from webhook_retries r where r.webhook_id = w.id and not r.is_dead) as waiting,
      (select count(*)::int from webhook_retries r where r.webhook_id = w.id and r.is_dead) as dead,
      w.last_success_at as "lastSuccessAt", w.last_failure_at as "lastFailureAt", w.last_failure as "lastFailure",
      case when w.old_secret_ends_at > now() then w.old_secret_ends_at end as "oldSecretEndsAt", w.created_at as "createdAt",
      p.delivered as replayed, p.failures as "replayFailures", p.created_at as "replayAt"
    from webhooks w left join webhook_replays p on p.webhook_id = w.id
    where ${which}`.execute(db)
  return rows.map(
    ({ replayed, replayFailures, replayAt, lastSuccessAt, lastFailureAt, oldSecretEndsAt, createdAt, ...row }) => ({
      ...row,
      lastSuccessAt: lastSuccessAt?.toISOString() ?? null,
      lastFailureAt: lastFailureAt?.toISOString() ?? null,
      oldSecretEndsAt: oldSecretEndsAt?.toISOString() ?? null,
      createdAt: createdAt.toISOString(),
      replay:
        replayAt === null
          ? null
          : { delivered: replayed!, failures: replayFailures!, createdAt: replayAt.toISOString() },
    }),
  )
}

/** Changes URL or types. @throws invalid_request, not_found */
export async function updateWebhook(
  db: Db,
  which: WhichWebhook,
  { url, types }: { url?: string | undefined; types?: string[] | undefined },
  { privateHosts }: UrlRules,
): Promise<WireWebhook> {
  await readWebhook(db, which)
  if (url !== undefined) assertUrl(url, privateHosts)
  if (types !== undefined) assertTypes(types)
  await sql`
    update webhooks set url = coalesce(${url ?? null}::text, url),
      types = coalesce(${types === undefined ? null : JSON.stringify(types)}::text::jsonb, types)
    where id = ${which.id}`.execute(db)
  return readWebhook(db, which)
}

/** Deletes a webhook with everything about it. @throws not_found */
export async function deleteWebhook(root: RootDb, which: WhichWebhook): Promise<{ id: string }> {
  await readWebhook(root, which)
  const { id } = which
  await retrying(() =>
    inTransaction(root, async (db) => {
      // First: a process that is delivering finds no webhook, and stores nothing.
      await sql`delete from webhooks where id = ${id}`.execute(db)
      await sql`delete from webhook_retries where webhook_id = ${id}`.execute(db)
      await sql`delete from webhook_deliveries where webhook_id = ${id}`.execute(db)
      await sql`delete from webhook_replays where webhook_id = ${id}`.execute(db)
    }),
  )
  return { id }
}

/** Issues a new secret. For 24 hours the former one signs as well. @throws not_found */
export async function rotateWebhookSecret(db: Db, keys: SecretKeys, which: WhichWebhook): Promise<WebhookWithSecret> {
  await readWebhook(db, which)
  const secret = newSigningSecret()
  await sql`
    update webhooks set old_secret = secret, old_secret_ends_at = now() + make_interval(hours => ${OLD_SECRET_HOURS}::int),
      secret = ${encryptSecret(keys, secret, which.id)}
    where id = ${which.id}`.execute(db)
  return { webhook: await readWebhook(db, which), secret: showSecret(secret) }
}

/** Continues a disabled or failing webhook where it stood. @throws not_found */
export async function enableWebhook(db: Db, which: WhichWebhook): Promise<WireWebhook> {
  await readWebhook(db, which)
  await sql`
    update webhooks set disabled_at = null, disabled_reason = null, failures = 0, failing_since = null, probe_at = null
    where id = ${which.id}`.execute(db)
  await sql`update webhook_retries set due_at = now() where webhook_id = ${which.id} and due_at > now()`.execute(db)
  return readWebhook(db, which)
}

/** Requests a test, which the process that delivers sends. @throws not_found, rate_limited */
export async function requestTest(db: Db, which: WhichWebhook): Promise<WireDelivery> {
  const id = eventId(randomBytes(16).toString('hex'))
  return request(db, which, { kind: 'test', id, seq: null, type: 'webhook.test' })
}

/** Requests that one stored event is sent again. @throws not_found, rate_limited */
export async function redeliverEvent(db: Db, which: WhichWebhook, event: string): Promise<WireDelivery> {
  const { clientId } = await readWebhook(db, which)
  const uuid = /^evt_[0-9a-f]{32}$/.test(event) ? event.slice(4) : '0'.repeat(32)
  // Ids are not indexed: what failed, and what is in the log, is found by its number.
  const { rows } = await sql<{ seq: number; type: string }>`
    select seq, type from events where client_id = ${clientId} and not is_own and id = ${uuid}::uuid and seq in (
      select seq from webhook_retries where webhook_id = ${which.id}
      union all select seq from webhook_deliveries where webhook_id = ${which.id} and event_id = ${event})
    order by seq desc limit 1`.execute(db)
  const [found] = rows
  if (found === undefined)
    throw new AppError(
      'not_found',
      'No attempt of this webhook in the last seven days was for this event, or the event was deleted. Nothing was done. To send older events, use a replay.',
    )
  return request(db, which, { kind: 'redelivery', id: event, ...found })
}

async function request(
  db: Db,
  which: WhichWebhook,
  { kind, id: event, seq, type }: { kind: 'test' | 'redelivery'; id: string; seq: number | null; type: string },
): Promise<WireDelivery> {
  await readWebhook(db, which)
  const id = newDeliveryId()
  await retrying(() =>
    inTransaction(db, async (transaction) => {
      await holdName(transaction, `requests of ${which.id}`)
      const { numAffectedRows } = await sql`
        insert into webhook_deliveries (id, webhook_id, kind, event_id, seq, type, attempt)
        select ${id}, ${which.id}, ${kind}, ${event}, ${seq}::bigint, ${type}, 1
        where (select count(*) from webhook_deliveries where webhook_id = ${which.id} and done_at is null) < ${MAX_REQUESTED}::int`.execute(
        transaction,
      )
      if (numAffectedRows === 0n) throw tooManyRequested()
    }),
  )
  return readDelivery(db, id)
}

/** Returns an attempt. @throws not_found */
export async function readDelivery(db: Db, id: string): Promise<WireDelivery> {
  const row = await db.selectFrom('webhook_deliveries').selectAll().where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw noWebhook()
  return toDelivery(row)
}

type DeliveryRow = Selectable<Database['webhook_deliveries']>
const readRows = (
  db: Db,
  webhookId: string,
  { kind, before, limit }: { kind: DeliveryKind | undefined; before: [string, string] | null; limit: number },
) =>
  db
    .selectFrom('webhook_deliveries')
    .selectAll()
    .select(momentText('created_at').as('since'))
    .where('webhook_id', '=', webhookId)
    .$if(kind !== undefined, (query) => query.where('kind', '=', kind!))
    .$if(before !== null, (query) =>
      query.where(sql<boolean>`(created_at, id) < (${before![0]}::timestamptz, ${before![1]}::text)`),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()

/**
 * Lists the log of a webhook, newest first.
 * @param kind  attempts of this kind only
 * @throws not_found, invalid_cursor
 */
export async function listDeliveries(
  db: Db,
  which: WhichWebhook,
  { limit, cursor, kind }: { limit: number; cursor: string | undefined; kind?: DeliveryKind | undefined },
): Promise<{ deliveries: WireDelivery[]; nextCursor: string | null }> {
  await readWebhook(db, which)
  const before = cursor === undefined ? null : (readPageCursor(cursor, ['string', 'string']) as [string, string])
  if (before !== null && (!isMoment(before[0]) || before[1].includes('\0'))) throw foreignCursor()
  const rows = await readRows(db, which.id, { kind, before, limit: limit + 1 })
  const { page, nextCursor } = cutPage(rows, limit, ({ since, id }) => [since, id])
  return { deliveries: page.map(toDelivery), nextCursor }
}

const toDelivery = (row: DeliveryRow): WireDelivery => ({
  id: row.id,
  kind: row.kind,
  eventId: row.event_id,
  type: row.type,
  attempt: row.attempt,
  status: row.status,
  error: row.error,
  answer: row.answer,
  durationMs: row.duration_ms,
  createdAt: row.created_at.toISOString(),
  doneAt: row.done_at?.toISOString() ?? null,
})

/** Sends the events of a time range again. @throws not_found, invalid_request, already_exists */
export async function replayWebhook(
  db: Db,
  which: WhichWebhook,
  { from, until }: { from: string; until?: string | undefined },
): Promise<WireWebhook> {
  const { clientId } = await readWebhook(db, which)
  for (const [name, text] of Object.entries({ from, until }))
    if (text !== undefined && !isMoment(text)) throw wrong(`/${name}`, 'Expected a time, such as 2026-01-31T12:00:00Z.')
  const { rows } = await sql<{ first: number | null; last: number | null }>`
    select min(seq) as first, max(seq) as last from events where client_id = ${clientId} and at >= ${from}::timestamptz
      and (${until ?? null}::timestamptz is null or at <= ${until ?? null}::timestamptz)`.execute(db)
  const { first, last } = rows[0]!
  if (first === null || last === null) throw wrong('/from', 'There are no stored events in this range.')
  const { numAffectedRows } = await sql`
    insert into webhook_replays (webhook_id, cursor, until_seq) values (${which.id}, ${first - 1}::bigint, ${last}::bigint)
    on conflict (webhook_id) do nothing`.execute(db)
  if (numAffectedRows === 0n)
    throw new AppError('already_exists', 'This webhook has a replay that is not over. Nothing was done. Wait for its end.') // prettier-ignore
  return readWebhook(db, which)
}

/** Rejects a URL to which nothing would ever be sent. Names are resolved and judged at each delivery. @throws invalid_request */
function assertUrl(text: string, privateHosts: ReadonlySet<string>): void {
  if (!URL.canParse(text) || text.includes('\0')) throw wrong('/url', 'Expected an https URL.')
  const { protocol, hostname, username, password, hash } = new URL(text)
  const isOwn = privateHosts.has(hostname)
  if (protocol !== 'https:' && !(protocol === 'http:' && isOwn)) throw wrong('/url', 'Expected an https URL.')
  if (username !== '' || password !== '') throw wrong('/url', 'The URL must not have a user name or a password.')
  if (hash !== '') throw wrong('/url', 'The URL must not have a fragment.')
  const host = hostname.replace(/^\[|\]$/g, '')
  if (!isOwn && ((isIP(host) !== 0 && !isPublicAddress(host)) || /(^|\.)localhost$/.test(host)))
    throw wrong('/url', 'The host must be on the public internet. An operator can allow others: WEBHOOK_PRIVATE_HOSTS.')
}

function assertTypes(types: readonly string[]): void {
  for (const [index, type] of types.entries())
    try {
      readTypes(type)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      throw wrong(`/types/${index}`, error.errors?.[0]?.detail ?? error.message)
    }
}

const wrong = (pointer: string, detail: string): AppError =>
  // The detail as well: a command prints only this text.
  new AppError('invalid_request', `${detail} Nothing was done.`, { errors: [{ pointer, code: 'invalid', detail }] })
const noWebhook = (): AppError => new AppError('not_found', 'There is no webhook with this id. Nothing was done.')
const noApplication = (clientId: string): AppError =>
  new AppError('not_found', `There is no application ${clientId}. Nothing was done.`)
const withoutEvents = (): AppError =>
  new AppError(
    'invalid_request',
    'The application has no feed of events. Nothing was done. Ask the operator to grant it the permission `events:read`.',
  )
const tooMany = (): AppError =>
  new AppError(
    'already_exists',
    `The application has ${MAX_WEBHOOKS} webhooks already. Nothing was done. Delete one, or change its types.`,
  )
const tooManyRequested = (): AppError =>
  new AppError('rate_limited', 'Too many tests of this webhook wait to be sent. Nothing was done. Retry.', {
    retryAfter: 5,
  })
