import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every } from '../clock.ts'
import { slot } from '../state.ts'
import { keyIdOf } from '../store/seal.ts'
import { encryptSecret, decryptSecret } from '../store/secret-keys.ts'
import { deliverWebhook } from './deliver.ts'
import { readWebhookKeys } from './keys.ts'
import { openPost, openWebhookOutbound, type SendEvent } from './post.ts'
import { claimWebhooks } from './progress.ts'
import { openSlots, type Slots } from './slots.ts'

/** milliseconds between two looks for webhooks with something to send */
const LOOK_MS = 150
/** webhooks that a process delivers for at a time */
const MAX_CLAIMED = 256
/** webhooks per look: other replicas take theirs, too */
const BATCH = 32
/** milliseconds between two rounds of clean-up and metrics */
const SWEEP_MS = 30_000
/** days for which attempts are in the log */
const LOG_DAYS = 7

export type Deliveries = {
  /** Claims what has something to send, and starts to send it. @returns number of webhooks */
  look(): Promise<number>
  /** Resolves when nothing is being sent. */
  idle(): Promise<void>
  /** Ends what is being sent. What was answered is stored. */
  stop(): Promise<void>
}

const started = slot('delivery of webhooks', (_app: App): { look: (() => void) | null } => ({ look: null }))

/** Looks at once for something to send, because a request of this process has added it. */
export const lookForDeliveries = (app: App): void => started.of(app).look?.()

/** Opens the delivery of webhooks. Any number of replicas may deliver: each webhook belongs to one at a time. */
export function openDeliveries(
  app: App,
  { post = openPost(app, openWebhookOutbound(app)), slots = openSlots() }: { post?: SendEvent; slots?: Slots } = {},
): Deliveries {
  let isStopping = false
  // Each has a signal of its own: listeners on one for all would stay until the process ends.
  const running = new Map<string, { end: AbortController; done: Promise<void> }>()
  const allDone = () => Promise.all([...running.values()].map(({ done }) => done))
  return {
    look: async () => {
      const free = MAX_CLAIMED - running.size
      if (isStopping || free <= 0) return 0
      const claimed = await claimWebhooks(app.db, [...running.keys()], Math.min(free, BATCH))
      for (const webhook of claimed) {
        const end = new AbortController()
        if (isStopping) end.abort()
        const done = deliverWebhook(app, webhook, { post, slots, signal: end.signal })
          .catch((error: unknown) => app.telemetry.log.warn('webhook_not_delivered', { webhook: webhook.id }, error))
          .finally(() => running.delete(webhook.id))
        running.set(webhook.id, { end, done })
      }
      return claimed.length
    },
    idle: async () => {
      while (running.size > 0) await allDone()
    },
    stop: async () => {
      isStopping = true
      for (const { end } of running.values()) end.abort()
      await allDone()
    },
  }
}

/** Delivers webhooks until the process stops, deletes what is old, and measures. */
export function startDelivering(app: App): { stop(): Promise<void> } {
  const deliveries = openDeliveries(app)
  let failures = 0
  const looks = every(app.clock, LOOK_MS, async () => {
    try {
      await deliveries.look()
      failures = 0
    } catch (error) {
      if (failures++ % 60 === 0) app.telemetry.log.warn('webhooks_not_claimed', {}, error)
    }
  })
  started.of(app).look = () => void looks.round()
  const sweeps = every(app.clock, SWEEP_MS, async () => {
    try {
      await sweepWebhooks(app)
      await measureWebhooks(app)
      await encryptAgain(app)
    } catch (error) {
      app.telemetry.log.warn('webhooks_not_swept', {}, error)
    }
  })
  return {
    stop: async () => {
      started.of(app).look = null
      await Promise.all([looks.stop(), sweeps.stop()])
      await deliveries.stop()
    },
  }
}

/** Deletes old attempts, and dead events that left the feed. */
export async function sweepWebhooks({ db, config }: Pick<App, 'db' | 'config'>): Promise<void> {
  await sql`delete from webhook_deliveries where created_at < now() - make_interval(days => ${LOG_DAYS}::int)`.execute(
    db,
  )
  await sql`delete from webhook_retries where is_dead and created_at < now() - make_interval(days => ${config.EVENTS_DAYS}::int)`.execute(
    db,
  )
}

/** Measures how long the oldest event waits for its webhook, and how many webhooks are disabled. */
export async function measureWebhooks({ db, telemetry }: Pick<App, 'db' | 'telemetry'>): Promise<void> {
  const { rows } = await sql<{ oldest: number | null; disabled: number }>`
    select
      (select extract(epoch from now() - min(at))::float8 from (
        select (select e.at from events e where e.client_id = w.client_id and e.seq > w.cursor and not e.is_own order by e.seq limit 1) as at
        from webhooks w where w.disabled_at is null
        union all
        select min(r.created_at) from webhook_retries r join webhooks w on w.id = r.webhook_id where not r.is_dead and w.disabled_at is null
      ) as waiting) as oldest,
      (select count(*)::int from webhooks where disabled_at is not null) as disabled`.execute(db)
  telemetry.webhookOldest.set(Math.max(0, rows[0]?.oldest ?? 0))
  telemetry.webhooksDisabled.set(rows[0]?.disabled ?? 0)
}

/** Encrypts secrets again that an older key encrypted, so that it can be removed from AUTH_KEYS_FILE. */
export async function encryptAgain(app: App): Promise<number> {
  const { rows } = await sql<{ id: string; secret: string; old_secret: string | null }>`
    select id, secret, old_secret from webhooks order by id`.execute(app.db)
  const [first] = rows
  if (first === undefined) return 0
  const keys = await readWebhookKeys(app, keyIdOf(first.secret))
  const [newest] = keys.keys()
  let count = 0
  for (const { id, ...row } of rows) {
    for (const column of ['secret', 'old_secret'] as const) {
      const text = row[column]
      if (text === null || keyIdOf(text) === newest) continue
      const plain = decryptSecret(keys, text, id)
      if (plain === null) continue
      await app.db
        .updateTable('webhooks')
        .set({ [column]: encryptSecret(keys, plain, id) })
        .where('id', '=', id)
        .where(column, '=', text)
        .execute()
      count++
    }
  }
  return count
}
