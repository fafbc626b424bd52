import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readEventsAt } from '../events/read.ts'
import type { WireEvent } from '../events/wire.ts'
import type { Db } from '../store/db.ts'
import type { Answer } from './post.ts'

/** Returns a random id for an attempt. */
export const newDeliveryId = (): string => `dlv_${randomUUID()}`

/** Attempts that are sent at a time. */
const BATCH = 8

type Request = { id: string; kind: string; event_id: string; seq: number | null; created_at: Date }

/**
 * Sends tests and repeats by hand that were requested, in any program, and stores their answers in the log.
 * @param running  ids of those that this process is sending
 */
export async function sendRequested(
  app: Pick<App, 'db' | 'networks'>,
  { id: webhookId, clientId }: { id: string; clientId: string },
  running: Set<string>,
  {
    takeSlot,
    send,
    failed,
  }: {
    takeSlot: () => (() => void) | null
    send: (event: WireEvent) => Promise<Answer>
    failed: (error: unknown) => void
  },
): Promise<void> {
  const { rows } = await sql<Request>`
    select id, kind, event_id, seq, created_at from webhook_deliveries
    where webhook_id = ${webhookId} and done_at is null order by created_at limit ${BATCH}::int`.execute(app.db)
  for (const row of rows) {
    if (running.has(row.id)) continue
    const giveBack = takeSlot()
    if (giveBack === null) return
    running.add(row.id)
    void sendOne(row).catch(failed).finally(giveBack)
  }

  async function sendOne(row: Request): Promise<void> {
    const event = row.seq === null ? testEvent(webhookId, row) : (await readEventsAt(app, clientId, [row.seq]))[0]
    if (event === undefined) return store(app.db, row.id, { status: null, error: 'the event was deleted', answer: null, durationMs: 0 }) // prettier-ignore
    const answer = await send(event)
    await store(app.db, row.id, answer)
    if (answer.isOk && row.seq !== null)
      await sql`delete from webhook_retries where webhook_id = ${webhookId} and seq = ${row.seq}::bigint and is_dead`.execute(
        app.db,
      )
  }
}

async function store(
  db: Db,
  id: string,
  { status, error, answer, durationMs }: Pick<Answer, 'status' | 'error' | 'answer' | 'durationMs'>,
): Promise<void> {
  await sql`
    update webhook_deliveries set status = ${status}::int, error = ${error}::text, answer = ${answer}::text,
      duration_ms = ${durationMs}::int, done_at = clock_timestamp()
    where id = ${id} and done_at is null`.execute(db)
}

/** Makes the event of a test, which is in no feed. */
const testEvent = (webhookId: string, { event_id: id, created_at: at }: Request): WireEvent => ({
  id,
  type: 'webhook.test',
  timestamp: at.toISOString(),
  sequence: 0,
  subject: `webhook:${webhookId}`,
  userId: null,
  network: null,
  chainId: null,
  data: { id: webhookId },
})
