import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import {
  createClient,
  CursorExpired,
  InvalidWebhook,
  Refused,
  verifyWebhook,
  type EventPage,
  type EventsOptions,
} from '../src/index.ts'
import { instantClock } from './instant-clock.ts'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 8).toString('base64')}`
const NOW = Date.UTC(2026, 0, 31)
const BODY = '{"id":"evt_1","type":"transaction.mined","data":{"note":"ünïcødé"}}'

/** Signs as Standard Webhooks says, with Node's own functions. */
function signed({ id = 'evt_1', at = NOW / 1_000, body = BODY, secrets = [SECRET], version = 'v1' } = {}) {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(6), 'base64')
    return `${version},${createHmac('sha256', key).update(`${id}.${at}.${body}`).digest('base64')}`
  })
  return {
    body,
    headers: { 'webhook-id': id, 'webhook-timestamp': String(at), 'Webhook-Signature': signatures.join(' ') } as Record<
      string,
      string | string[] | undefined
    >,
  }
}

test('a webhook is verified in each form that servers give it, also while its secret is replaced', async () => {
  const { headers, body } = signed({ secrets: [OTHER, SECRET] })
  const plain = headers as Record<string, string>
  for (const received of [
    { headers, body },
    { headers, body: Buffer.from(body) },
    { headers: new Headers(plain), body },
    { headers: { ...headers, 'webhook-id': ['evt_1'] }, body },
    new Request('https://shop.example/hook', { method: 'POST', headers: plain, body }),
  ])
    assert.equal(
      (await verifyWebhook(received, [`whsec_${Buffer.alloc(24, 1).toString('base64')}`, SECRET], { now: NOW })).id,
      'evt_1',
    )
})

test('a webhook that was changed, is old, or is signed by others is refused', async () => {
  const good = signed()
  const without = (name: string) => ({ ...good, headers: { ...good.headers, [name]: undefined } })
  const wrong: [string, Parameters<typeof verifyWebhook>[0]][] = [
    ['another body', { ...good, body: BODY.replace('mined', 'failed') }],
    ['another id', { ...good, headers: { ...good.headers, 'webhook-id': 'evt_2' } }],
    ['another time', { ...good, headers: { ...good.headers, 'webhook-timestamp': String(NOW / 1_000 + 1) } }],
    ['another secret', signed({ secrets: [OTHER] })],
    ['another version', signed({ version: 'v1a' })],
    ['301 seconds old', signed({ at: NOW / 1_000 - 301 })],
    ['301 seconds ahead', signed({ at: NOW / 1_000 + 301 })],
    ['no time', { ...good, headers: { ...good.headers, 'webhook-timestamp': 'now' } }],
    ['no signature', without('Webhook-Signature')],
    ['no id', without('webhook-id')],
    ['a signature that is not base64', { ...good, headers: { ...good.headers, 'Webhook-Signature': 'v1,***' } }],
    ['an empty signature', { ...good, headers: { ...good.headers, 'Webhook-Signature': 'v1,' } }],
  ]
  for (const [name, received] of wrong)
    await assert.rejects(verifyWebhook(received, SECRET, { now: NOW }), InvalidWebhook, name)
  await assert.rejects(verifyWebhook(good, 'whsec_', { now: NOW }), TypeError)
})

test('events come page by page from a cursor, through failures, until they are aborted', async () => {
  const asked: string[] = []
  const page = (ids: string[], next: string) =>
    Response.json(
      ids.map((id) => ({ id })),
      { headers: { 'x-next-cursor': next } },
    )
  const answers = [
    () => page(['a', 'b'], 'c2'),
    ...Array.from({ length: 7 }, () => () => new Response('bad gateway', { status: 502 })),
    () => page([], 'c3'),
    () => page(['c'], 'c4'),
  ]
  const stop = new AbortController()
  const wallet = createClient({
    ...{ origin: 'https://wallet.example', token: () => 'token', clock: instantClock() },
    fetch: async (url) => {
      asked.push(new URL(url).search)
      return (answers.shift() ?? (() => page([], 'c5')))()
    },
  })
  const pages: EventPage[] = []
  for await (const one of wallet.events({
    cursor: 'c1',
    stream: false,
    types: ['transaction.*', 'user.created'],
    signal: stop.signal,
  })) {
    pages.push(one)
    if (pages.length === 2) stop.abort()
  }
  assert.deepEqual(
    pages.map(({ events, cursor }) => [events.map(({ id }) => id).join(), cursor]),
    [
      ['a,b', 'c2'],
      ['c', 'c4'],
    ],
  )
  assert.equal(asked[0], '?cursor=c1&types=transaction.*%2Cuser.created&wait=0&limit=1000')
  assert.ok(asked.slice(1, 9).every((query) => query.startsWith('?cursor=c2&') && query.includes('wait=30')))
})

test('a service that does not wait, because too many wait already, is asked once a second at most', async () => {
  const stop = new AbortController()
  const clock = instantClock()
  const times: number[] = []
  const wallet = createClient({
    ...{ origin: 'https://wallet.example', token: () => 'token', clock },
    fetch: async () => {
      times.push(clock.now())
      if (times.length === 5) stop.abort()
      return Response.json([], { headers: { 'x-next-cursor': 'c2' } })
    },
  })
  for await (const _ of wallet.events({ cursor: 'c1', signal: stop.signal }));
  const pauses = times.slice(2).map((time, index) => time - times[index + 1]!)
  assert.ok(
    pauses.every((pause) => pause >= 1_000),
    String(pauses),
  )
})

test('a cursor that is too old is an error with the cursor to continue with', async () => {
  const problem = { code: 'cursor_expired', status: 410, detail: 'old', retryable: false, resumeAt: 'c9' }
  const wallet = createClient({
    ...{ origin: 'https://wallet.example', token: () => 'token', clock: instantClock() },
    fetch: async () => Response.json(problem, { status: 410, headers: { 'content-type': 'application/problem+json' } }),
  })
  await assert.rejects(
    async () => {
      for await (const _ of wallet.events({ cursor: 'c1' }));
    },
    (error: unknown) =>
      error instanceof CursorExpired &&
      error instanceof Refused &&
      error.code === 'cursor_expired' &&
      error.resumeAt === 'c9',
  )
})

test('a webhook that the package standardwebhooks signs is verified', async () => {
  const at = new Date(NOW)
  const signature = new Webhook(SECRET).sign('evt_1', at, BODY)
  const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(NOW / 1_000), 'webhook-signature': signature }
  assert.deepEqual(await verifyWebhook({ headers, body: BODY }, SECRET, { now: NOW }), JSON.parse(BODY))
})

/** A response that sends these pieces, then ends or fails. */
function streamOf(pieces: string[], { fails = false, hangs = false } = {}): Response {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift()
      if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece))
      else if (fails) controller.error(new TypeError('terminated'))
      else if (!hangs) controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } })
}
const sent = (id: string, cursor: string) => `id: ${cursor}\nevent: user.created\ndata: {"id":"${id}"}\n\n`
const empty = (next: string) => Response.json([], { headers: { 'x-next-cursor': next } })

/** Reads events until `count` have come. @returns their ids, and each request as `page` or `stream` with its cursor */
async function readIds(count: number, answers: (() => Response)[], options: EventsOptions = {}) {
  const asked: string[] = []
  let now = 0
  const wallet = createClient({
    ...{ origin: 'https://wallet.example', token: () => 'token' },
    // Delays pass at once; the silence of a stream does not come.
    clock: { now: () => now, sleep: async (ms) => (ms < 40_000 ? void (now += ms) : new Promise(() => {})) },
    fetch: async (url, init) => {
      const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream'
      asked.push(`${isStream ? 'stream' : 'page'} ${new URL(url).searchParams.get('cursor')}`)
      return answers.shift()!()
    },
  })
  const ids: string[] = []
  for await (const { events } of wallet.events({ cursor: 'c0', ...options })) {
    ids.push(...events.map(({ id }) => id))
    if (ids.length >= count) break
  }
  return { ids, asked }
}

test('a stream that is cut, inside an event too, continues after the last whole event', async () => {
  const { ids, asked } = await readIds(4, [
    () => empty('c1'),
    () => streamOf(['retry: 1000\n\n', sent('a', 'c2').slice(0, 9), `${sent('a', 'c2').slice(9)}${sent('b', 'c3')}id: c4\nev`], { fails: true }), // prettier-ignore
    () => streamOf(['id: c5\nevent: ping\ndata: {}\n\n']),
    () => streamOf([sent('c', 'c6')]),
    () => streamOf([sent('d', 'c7')], { hangs: true }),
  ])
  assert.deepEqual(ids, ['a', 'b', 'c', 'd'])
  assert.deepEqual(asked, ['page c0', 'stream c1', 'stream c3', 'stream c5', 'stream c6'])
})

test('a stream that ends at once is opened again after a pause, which grows, differs between clients, and is short again after an event', async () => {
  const pausesOf = async (random: number) => {
    const clock = instantClock()
    const times: number[] = []
    const begun = () => streamOf(['retry: 1000\n\n'])
    const answers = [
      ...[() => empty('c1'), begun, begun, begun, begun],
      ...[() => streamOf(['retry: 1000\n\n', sent('a', 'c2')]), begun, () => streamOf([sent('b', 'c3')])],
    ]
    const wallet = createClient({
      ...{ origin: 'https://wallet.example', token: () => 'token', random: () => random },
      // Silence does not come.
      clock: { ...clock, sleep: (ms, signal) => (ms === 40_000 ? new Promise(() => {}) : clock.sleep(ms, signal)) },
      fetch: async () => {
        times.push(clock.now())
        return answers.shift()!()
      },
    })
    for await (const { events } of wallet.events({ cursor: 'c0' })) if (events[0]!.id === 'b') break
    return times.map((time, index) => time - (times[index - 1] ?? 0)).slice(1)
  }
  assert.deepEqual(await pausesOf(0), [0, 1_000, 2_000, 4_000, 8_000, 0, 1_000])
  assert.deepEqual(await pausesOf(0.5), [0, 1_250, 2_500, 5_000, 10_000, 0, 1_250])
})

test('where streams do not arrive, or too many are open, events come by long polling', async () => {
  const page = () => Response.json([{ id: 'a' }], { headers: { 'x-next-cursor': 'c9' } })
  const limited = () =>
    Response.json({ code: 'rate_limited', status: 429, detail: 'x', retryable: true, resetsAt: '' }, { status: 429 })
  for (const streams of [[() => empty('c1')], [() => streamOf([]), () => streamOf([])], [limited, limited]]) {
    const { ids, asked } = await readIds(1, [() => empty('c1'), ...streams, page])
    assert.deepEqual(ids, ['a'])
    assert.deepEqual(asked, ['page c0', ...streams.map(() => 'stream c1'), 'page c1'])
  }
})

test('behind a proxy that holds back the whole response of a stream, events come by long polling', async () => {
  const asked: string[] = []
  const wallet = createClient({
    ...{ origin: 'https://wallet.example', token: () => 'token', clock: instantClock(), timeoutMs: 20 },
    fetch: async (_url, init) => {
      const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream'
      asked.push(isStream ? 'stream' : 'page')
      if (isStream) return new Promise((_, reject) => init!.signal!.addEventListener('abort', () => reject(new TypeError('aborted')))) // prettier-ignore
      // Between two attempts nothing is missed.
      const ids = asked.length >= 7 ? ['b'] : asked.length === 3 ? ['a'] : []
      return Response.json(ids.map((id) => ({ id })), { headers: { 'x-next-cursor': `c${asked.length}` } }) // prettier-ignore
    },
  })
  const got: string[] = []
  for await (const { events } of wallet.events({ cursor: 'c0' })) {
    got.push(...events.map(({ id }) => id))
    if (got.at(-1) === 'b') break
  }
  assert.deepEqual(got, ['a', 'b'])
  assert.deepEqual(asked, ['page', 'stream', 'page', 'stream', 'page', 'page', 'page'])
})

test('an abort ends the iteration inside a silent stream', async () => {
  const stop = new AbortController()
  const reading = readIds(1, [() => empty('c1'), () => streamOf(['retry: 1000\n\n'], { hangs: true })], {
    signal: stop.signal,
  })
  setTimeout(() => stop.abort(), 20)
  assert.deepEqual((await reading).ids, [])
})
