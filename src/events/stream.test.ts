import { strict as assert } from 'node:assert'
import { connect, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { runningClock, type TestClock } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { storeEvents, untilNumbered } from '../../test/stored-events.ts'
import { world, type World } from '../../test/world.ts'
import { updateApplication } from '../applications/manage.ts'
import { accountIdOf } from '../ids.ts'
import type { RootDb } from '../store/db.ts'

const SHOP = 'https://shop.example'
let here: World
let clock: TestClock
/** milliseconds by which streams are older than they are: putting the clock forward by minutes would wake every worker often */
let olderMs = 0
before(async () => {
  here = await world()
  clock = runningClock()
  here.app.clock = { ...clock, ticks: () => clock.ticks() + olderMs }
  await updateApplication(here.app, here.facts.clientId, { allowedOrigins: [SHOP] })
})
after(() => here.close())

let written = 0
/** Adds one event of a user to the feed. @returns the `data.id` of it */
async function happen(username: string): Promise<string> {
  const from = ++written
  await storeEvents(here.app.db, { clientId: here.facts.clientId, accountId: accountIdOf('DEV', username), from, count: 1 }) // prettier-ignore
  return `tx_${from}`
}

type RawStream = { socket: Socket; text(): string; isClosed(): boolean }

/** Sends bytes, and collects what comes back. */
function send(...lines: string[]): RawStream {
  const socket = connect({ port: Number(new URL(here.facts.origin).port), host: 'localhost' })
  let text = ''
  let isClosed = false
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk))
  socket.on('error', () => {})
  socket.once('close', () => (isClosed = true))
  socket.write([...lines, '', ''].join('\r\n'))
  return { socket, text: () => text, isClosed: () => isClosed }
}

const ask = (token: string, version = '1.1', ...headers: string[]): RawStream =>
  send(
    `GET /v1/events?cursor=now HTTP/${version}`,
    'Host: localhost',
    'Accept: text/event-stream',
    `Authorization: Bearer ${token}`,
    ...headers,
  )

/** Opens a stream of a user over a socket of its own, from now on. */
async function open(...request: Parameters<typeof ask>): Promise<RawStream> {
  const stream = ask(...request)
  await until('the stream begins, or is refused', () => /\r\n\r\n./s.test(stream.text()))
  return stream
}
const isOpen = ({ text }: RawStream): boolean => text().startsWith('HTTP/1.1 200')

/** Checks that none of a user's five streams is taken any more. */
async function assertNoneLeft(token: string): Promise<void> {
  let streams: RawStream[] = []
  await until('five streams can be opened', async () => {
    for (const { socket } of streams) socket.destroy()
    streams = await Promise.all(Array.from({ length: 5 }, () => open(token)))
    return streams.every(isOpen)
  })
  for (const { socket } of streams) socket.destroy()
}

for (const [name, version, headers] of [
  ['HTTP/1.0', '1.0', []],
  ['HTTP/1.1 with Connection: close', '1.1', ['Connection: close']],
] as const)
  test(`a stream over ${name} arrives event by event, and its connection closes with it`, async () => {
    const { token } = await here.person('erin')
    const stream = await open(token, version, ...headers)
    assert.match(stream.text(), /^HTTP\/1\.1 200 OK\r\n/)
    assert.match(stream.text(), /\r\nconnection: close\r\n/i)
    // RFC 9112 §6.1: no chunks for a client of HTTP/1.0.
    assert.equal(/transfer-encoding/i.test(stream.text()), version === '1.1')
    for (let count = 0; count < 2; count++) {
      const id = await happen('erin')
      await until('the event arrives', () => stream.text().includes(`"${id}"`))
    }
    await until('the stream ends after its 15 minutes', async () => {
      olderMs += 300_000
      await clock.advance(5_000)
      return stream.isClosed()
    })
  })

test('a stream without events has a ping every 15 seconds, whose id is its cursor', async () => {
  const { token } = await here.person('frank')
  await untilNumbered(here.app.db)
  const stream = await open(token)
  await until('two pings', async () => {
    await clock.advance(5_000)
    return stream.text().split('event: ping').length > 2
  })
  const [, cursor] = /id: (.+)\nevent: ping\n/.exec(stream.text())!
  stream.socket.destroy()
  const id = await happen('frank')
  const { body } = await here.request(`/v1/events?cursor=${cursor}`, { headers: { authorization: `Bearer ${token}` } })
  assert.deepEqual(body.map(({ data }: { data: { id: string } }) => data.id), [id]) // prettier-ignore
})

test('a client that closes its side, resets the connection or leaves before the answer holds no stream', async () => {
  const { token } = await here.person('grace')
  const half = await Promise.all(Array.from({ length: 5 }, () => open(token)))
  assert.ok(half.every(isOpen))
  for (const { socket } of half) socket.end()
  await assertNoneLeft(token)
  const reset = await Promise.all(Array.from({ length: 5 }, () => open(token)))
  for (const { socket } of reset) socket.resetAndDestroy()
  await assertNoneLeft(token)
})

test('a client that leaves before its stream begins holds none', async () => {
  const { token } = await here.person('ivan')
  const { db } = here.app
  const { promise: isOver, resolve: goOn } = Promise.withResolvers<void>()
  let held = 0
  here.app.db = db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      if (!result.rows.some((row) => 'looked_to' in row)) return result
      held++
      await isOver
      return result
    },
  }) as RootDb
  try {
    // Streams at one position share a read.
    const early = Array.from({ length: 5 }, () => ask(token))
    await until('the server reads for them', () => held > 0)
    for (const { socket } of early) socket.destroy()
    await until('they have left', () => early.every(({ isClosed }) => isClosed()))
  } finally {
    here.app.db = db
    goOn()
  }
  await assertNoneLeft(token)
})

test('pages of an allowed origin read a stream and its errors; pages of other origins read neither', async () => {
  const { token } = await here.person('heidi')
  const askFrom = (
    origin: string,
    init: { method?: string; headers?: Record<string, string> } = {},
    query = '?cursor=now',
  ) =>
    fetch(`${here.facts.origin}/v1/events${query}`, {
      ...init,
      headers: { origin, accept: 'text/event-stream', authorization: `Bearer ${token}`, ...init.headers },
    })
  const allowed = (response: Response) => response.headers.get('access-control-allow-origin')
  const preflight = (origin: string) =>
    askFrom(origin, {
      method: 'OPTIONS',
      headers: {
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'authorization, last-event-id',
      },
    })
  const permission = await preflight(SHOP)
  assert.deepEqual([permission.status, allowed(permission)], [204, SHOP])
  assert.match(permission.headers.get('access-control-allow-headers')!, /last-event-id/)
  assert.equal(allowed(await preflight('https://other.example')), null)

  const stream = await askFrom(SHOP)
  assert.deepEqual([stream.status, allowed(stream)], [200, SHOP])
  assert.match(stream.headers.get('vary')!, /origin/i)
  const id = await happen('heidi')
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes(`"${id}"`)) text += (await reader.read()).value!
  await reader.cancel()

  const foreign = await askFrom('https://other.example')
  assert.equal(allowed(foreign), null)
  await foreign.body!.cancel()
  for (const [status, init, query] of [
    [400, {}, '?cursor=nonsense'],
    [400, { headers: { 'last-event-id': 'nonsense' } }, ''],
    [401, { headers: { authorization: 'Bearer nonsense' } }, ''],
  ] as const) {
    const refused = await askFrom(SHOP, init, query)
    assert.deepEqual([refused.status, allowed(refused)], [status, SHOP])
    assert.equal(((await refused.json()) as { status: number }).status, status)
    assert.equal(allowed(await askFrom('https://other.example', init, query)), null)
  }
})
