import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { saveApplication } from '../../src/applications/registry.ts'
import type { WireEvent } from '../../src/events/wire.ts'
import { webhookKeysOf } from '../../src/webhooks/keys.ts'
import { createWebhook } from '../../src/webhooks/manage.ts'
import { freePort } from '../kit/ports.ts'
import { PATIENCE_MS, until } from '../kit/until.ts'
import { randomOf } from '../random.ts'
import type { WebhookHome } from './webhooks-home.ts'
import { openJudge, type Emitted } from './webhooks-judge.ts'

/** Each webhook wants one type, so each event has one way to go. */
const TYPES = ['transaction.mined', 'transaction.finalized', 'transfer.detected', 'user.created'] as const
const SUBJECTS = 40
/** events of a webhook that may be underway */
const MAX_AHEAD = 400
const BATCH = 100
/** An event that failed 13 times would be dead. Here none is: a probe that fails counts for no event. */
const MAX_FAILURES = 8

export type WebhooksOutcome = ReturnType<ReturnType<typeof openJudge>['count']> & {
  seed: number
  where: string
  /** empty when every promise held */
  problems: string[]
  requests: number
  refused: number
  seconds: number
}

/**
 * Sends events through processes that are killed at random moments to an endpoint that refuses half of the requests.
 * @param stallMs  milliseconds without a new event after which the rest is lost
 */
export async function runWebhooks(
  home: WebhookHome,
  {
    seed,
    events,
    kills,
    stallMs = PATIENCE_MS,
    endsAtProblem = false,
    onProgress = () => {},
  }: {
    seed: number
    events: number
    kills: number
    stallMs?: number
    /** for a program with a planted mistake: how much it breaks is of no interest */
    endsAtProblem?: boolean
    onProgress?: (accepted: number) => void
  },
): Promise<WebhooksOutcome> {
  const startedAt = performance.now()
  const random = randomOf(seed)
  const judge = openJudge()
  const verifiers: Webhook[] = []
  const failures = new Map<number, number>()
  let [requests, refused, arrivals] = [0, 0, 0]
  // Nearly every event arrives twice.
  const killAt = Array.from({ length: kills }, () => 1 + random(Math.ceil(events * 1.5))).toSorted((a, b) => a - b)

  const strike = (): void => {
    if (killAt[0] === undefined || arrivals < killAt[0]) return
    const first = random(home.replicas)
    for (let index = 0; index < home.replicas; index++)
      if (home.kill((first + index) % home.replicas)) {
        killAt.shift()
        return judge.killed()
      }
  }

  /** Answers a request: half of them as an endpoint in trouble does. */
  const answer = (hook: number, headers: IncomingMessage['headers'], body: string, response: ServerResponse): void => {
    requests++
    const event = JSON.parse(body) as WireEvent
    const { sequence: seq, subject } = event
    const id = String(headers['webhook-id'])
    const isKnown = judge.arrived({ hook, subject, seq, id: id === event.id ? id : '' }, isSigned(verifiers[hook]!, headers, body)) // prettier-ignore
    arrivals++
    const isEarly = random(2) === 0
    if (isEarly) strike()
    const failed = failures.get(seq) ?? 0
    // A sender that gave up in between has not heard of it.
    if (!isKnown || response.destroyed || (failed < MAX_FAILURES && random(2) === 0)) {
      failures.set(seq, failed + 1)
      refused++
      const how = random(1_000)
      // Now and then it does not answer at all.
      if (how >= 2) refuse(response, how)
    } else {
      judge.accepted(seq)
      response.writeHead(204).end()
    }
    if (!isEarly) strike()
  }

  const port = await freePort()
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => answer(Number(request.url!.slice(1)), request.headers, body, response))
  })
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
  try {
    for (const secret of await home.prepare((place) => prepare(place, port))) verifiers.push(new Webhook(secret))
    await home.start()
    let [number, last, lastAt] = [Date.now() * 1_000, 0, performance.now()]
    await until(
      'every event has arrived, or none does any more',
      async () => {
        const { emitted, accepted } = judge.count()
        if (accepted > last) {
          ;[last, lastAt] = [accepted, performance.now()]
          onProgress(accepted)
        }
        if (accepted >= events || performance.now() > lastAt + stallMs || (endsAtProblem && judge.isBroken()))
          return true
        if (emitted < events && emitted - accepted < MAX_AHEAD * TYPES.length) {
          const batch = Array.from(
            { length: Math.min(BATCH * TYPES.length, events - emitted) },
            (): Emitted & { uuid: string } => {
              const uuid = randomUUID()
              const [hook, seq] = [random(TYPES.length), ++number]
              return {
                hook,
                seq,
                uuid,
                id: `evt_${uuid.replaceAll('-', '')}`,
                subject: `transaction:tx_${random(SUBJECTS)}`,
              }
            },
          )
          for (const one of batch) judge.emitted(one)
          await until('the events are in the feed', () => emit(home, batch), stallMs)
        }
        return false
      },
      24 * 3_600_000,
    )
    const problems = judge.problems(await readUnheard(home))
    if (!endsAtProblem) problems.push(...(await restOf(home, problems.length === 0 ? stallMs : 2_000)))
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    return { ...judge.count(), seed, where: home.where, problems, requests, refused, seconds }
  } finally {
    await home.close()
    server.closeAllConnections()
    server.close()
  }
}

function refuse(response: ServerResponse, how: number): void {
  if (how < 300) response.destroy()
  else if (how < 330) response.writeHead(503, { 'retry-after': '1' }).end()
  else response.writeHead(how < 400 ? 302 : 500).end('out of order')
}

function isSigned(verifier: Webhook, headers: IncomingMessage['headers'], body: string): boolean {
  try {
    verifier.verify(body, headers as Record<string, string>)
    return true
  } catch {
    return false
  }
}

/** @returns the secrets of the webhooks */
async function prepare({ db, sealKeys }: Parameters<Parameters<WebhookHome['prepare']>[0]>[0], port: number) {
  await saveApplication({ db, sealKeys }, {
    ...{
      clientId: 'shop',
      name: 'Shop',
      chainId: 31_337,
      kind: 'confidential',
      redirectUris: ['https://shop.example/back'],
    },
    ...{ allowedOrigins: [], secretHashes: ['ab'.repeat(32)], logoUri: null, isSuspended: false },
    permissions: ['wallet:read', 'events:read', 'webhooks:manage'],
  } as unknown as Parameters<typeof saveApplication>[1])
  const rules = { keys: webhookKeysOf(sealKeys), privateHosts: new Set(['127.0.0.1']) }
  const secrets: string[] = []
  for (const [index, type] of TYPES.entries()) {
    const wanted = { clientId: 'shop', url: `http://127.0.0.1:${port}/${index}`, types: [type] }
    secrets.push((await createWebhook(db, rules, wanted)).secret)
  }
  return secrets
}

/** Adds events to the feed: one statement that can be repeated, because its answer dies with the process that holds the database. */
async function emit({ db }: WebhookHome, batch: readonly (Emitted & { uuid: string })[]): Promise<boolean> {
  const rows = JSON.stringify(batch.map(({ hook, ...one }) => ({ ...one, type: TYPES[hook] })))
  const done = sql`
    with fed as (
      insert into feeds (client_id, seq) values ('shop', ${batch.at(-1)!.seq}::bigint)
      on conflict (client_id) do update set seq = greatest(feeds.seq, excluded.seq)
    )
    insert into events (client_id, seq, id, type, subject, is_own, data, at)
    select 'shop', seq, uuid, type, subject, false, '{}', now()
    from json_to_recordset(${rows}::json) as rows (seq int8, uuid uuid, type text, subject text)
    on conflict (client_id, seq) do nothing`.execute(db)
  return done.then(
    () => true,
    () => false,
  )
}

/** @returns ids of events whose response came too late for the process that sent them, on a busy machine */
async function readUnheard({ db }: WebhookHome): Promise<Set<string>> {
  const read = () =>
    sql<{ id: string }>`select event_id as id from webhook_deliveries where error like 'no answer within%'`
      .execute(db)
      .catch(() => null)
  const { rows } = await until('the log of attempts was read', read)
  return new Set(rows.map(({ id }) => id))
}

/** @returns what the webhooks still have to do: nothing, after a moment */
async function restOf({ db }: WebhookHome, withinMs: number): Promise<string[]> {
  const read = async (): Promise<string | null> => {
    const { rows } = await sql<{ rest: string }>`
      select concat_ws(' ', url, disabled_reason, (select count(*) from webhook_retries r where r.webhook_id = w.id), 'retries, probe at', probe_at, 'lease until', lease_ends_at, 'now', now(), 'failures', failures) as rest
      from webhooks w where disabled_at is not null or probe_at is not null
        or exists (select from webhook_retries r where r.webhook_id = w.id)
        or cursor < (select max(seq) from events where type = w.types->>0)`.execute(db)
    return rows.length === 0 ? null : rows.map(({ rest }) => rest).join(', ')
  }
  const state: { rest: string | null } = { rest: null }
  const isDone = async () => {
    state.rest = await read().catch(() => 'the database does not answer')
    return state.rest === null
  }
  await until('every webhook is done', isDone, withinMs).catch(() => {})
  return state.rest === null ? [] : [`rest: a webhook is not done: ${state.rest}`]
}
