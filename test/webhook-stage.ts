import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { saveApplication } from '../src/applications/registry.ts'
import type { WireEvent } from '../src/events/wire.ts'
import { openState } from '../src/state.ts'
import type { RootDb } from '../src/store/db.ts'
import { webhookKeysOf } from '../src/webhooks/keys.ts'
import { createWebhook } from '../src/webhooks/manage.ts'
import type { Answer, Letter, SendEvent } from '../src/webhooks/post.ts'
import { openDeliveries, type Deliveries } from '../src/webhooks/worker.ts'
import { fakeApp } from './fake-app.ts'
import { madeSealKeys } from './seal-keys.ts'

/** What an endpoint answers: a status, or an answer with more in it. */
export type Replies = (letter: Letter) => number | Partial<Answer> | Promise<number | Partial<Answer>>

/** A process that delivers. */
export type Courier = Deliveries & {
  app: App
  /** Looks and delivers until there is nothing that is due now. */
  work(): Promise<void>
  /** From now on nothing that it does reaches the database, as if it had died at this moment. */
  kill(): void
}

export type WebhookStage = Awaited<ReturnType<typeof webhookStage>>

/** A real database with an application and its feed, endpoints that answer as a test says, and processes that deliver. */
export async function webhookStage(settings: Record<string, string> = {}) {
  const fake = await fakeApp({ WEBHOOK_PRIVATE_HOSTS: 'hook.test', ...settings })
  const { db } = fake
  const app: App = { ...fake.app, sealKeys: madeSealKeys() }
  const application = {
    ...{ name: 'Demo', chainId: 31_337, kind: 'confidential' as const, redirectUris: ['https://demo.example/back'] },
    ...{ allowedOrigins: [], secretHashes: ['ab'.repeat(32)], logoUri: null, isSuspended: false },
  }
  const addApplication = (clientId: string, permissions: string[]) =>
    saveApplication(app, { ...application, clientId, permissions } as Parameters<typeof saveApplication>[1])
  await addApplication('demo', ['wallet:read', 'events:read', 'webhooks:manage'])

  let number = Date.now() * 1_000
  /** Adds events to the feed, one for each subject. */
  async function emit(
    subjects: readonly string[],
    type = 'transaction.mined',
    clientId = 'demo',
    data: Record<string, unknown> = {},
  ): Promise<number[]> {
    const events = subjects.map((subject) => ({ seq: ++number, id: randomUUID(), type, subject }))
    await db.transaction().execute(async (inner) => {
      await sql`insert into feeds (client_id, seq) values (${clientId}, ${number}::bigint)
        on conflict (client_id) do update set seq = excluded.seq`.execute(inner)
      await sql`insert into events (client_id, seq, id, type, subject, is_own, data, at)
        select ${clientId}, seq, id, type, subject, false, ${JSON.stringify(data)}::text::jsonb, now()
        from json_to_recordset(${JSON.stringify(events)}::json) as rows (seq int8, id uuid, type text, subject text)`.execute(
        inner,
      )
    })
    return events.map(({ seq }) => seq)
  }

  /** @returns id and secret of a new webhook */
  async function hook(path = '', types = ['*']) {
    const { webhook, secret } = await createWebhook(
      db,
      { keys: webhookKeysOf(app.sealKeys), privateHosts: new Set(['hook.test']) },
      { clientId: 'demo', url: `http://hook.test/${path}`, types },
    )
    return { id: webhook.id, secret }
  }

  const couriers: Courier[] = []
  function courier(post: SendEvent): Courier {
    let isDead = false
    const dying = db.withPlugin({
      transformQuery: ({ node }) => {
        if (isDead) throw new Error('this process is dead')
        return node
      },
      transformResult: ({ result }) => Promise.resolve(result),
    })
    const own: App = { ...app, db: dying as RootDb, state: openState() }
    const deliveries = openDeliveries(own, { post })
    const made: Courier = {
      ...deliveries,
      app: own,
      work: async () => {
        while ((await deliveries.look()) > 0) await deliveries.idle()
      },
      kill: () => {
        isDead = true
      },
    }
    couriers.push(made)
    return made
  }

  /** Lets time pass for what the database knows of webhooks. */
  async function age(ms: number): Promise<void> {
    const past = sql`make_interval(secs => ${ms / 1_000}::float8)`
    await sql`update webhooks set probe_at = probe_at - ${past}, failing_since = failing_since - ${past},
      lease_ends_at = lease_ends_at - ${past}, old_secret_ends_at = old_secret_ends_at - ${past}`.execute(db)
    await sql`update webhook_retries set due_at = due_at - ${past}, created_at = created_at - ${past}`.execute(db)
    await sql`update webhook_replays set due_at = due_at - ${past}`.execute(db)
  }

  return {
    app,
    db,
    told: fake.told,
    addApplication,
    emit,
    hook,
    courier,
    age,
    close: async () => {
      await Promise.all(couriers.map((one) => one.stop().catch(() => {})))
      await fake.close()
    },
  }
}

/** An endpoint, and what it was sent, in order. */
export function endpoint(replies: Replies = () => 200): SendEvent & { got: WireEvent[]; letters: Letter[] } {
  const [got, letters]: [WireEvent[], Letter[]] = [[], []]
  const post: SendEvent = async (letter) => {
    got.push(letter.event)
    letters.push(letter)
    const aborted = new Promise<Partial<Answer>>((done) =>
      letter.signal.addEventListener('abort', () => done({ status: null, error: 'aborted' }), { once: true }),
    )
    const given = await Promise.race([replies(letter), aborted])
    const said = typeof given === 'number' ? { status: given } : given
    const status = said.status ?? null
    const isOk = status !== null && status >= 200 && status < 300
    return {
      isOk,
      status,
      error: isOk ? null : `status ${status}`,
      answer: '',
      durationMs: 1,
      retryAfterMs: 0,
      ...said,
    }
  }
  return Object.assign(post, { got, letters })
}
