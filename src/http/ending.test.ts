import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test, type TestContext } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { fakeApp, type FakeApp } from '../../test/fake-app.ts'
import { runningClock } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import type { Clock } from '../clock.ts'
import { openListener } from './listener.ts'
import { listenAtSocket } from './unix-socket.ts'

let here: FakeApp
before(async () => {
  here = await fakeApp()
})
after(() => here.close())

const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const OK = /^HTTP\/1\.1 200 /
const CLOSE = /^connection: close\r$/im

/** A connection that stays open as long as the server lets it, and all that came on it. */
function client(to: AddressInfo | string) {
  const socket: Socket = typeof to === 'string' ? connect(to) : connect(to.port, '127.0.0.1')
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()))
  // What is written to a connection that has ended may be answered by a reset.
  socket.on('error', () => {})
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  return {
    socket,
    write: (bytes: string) => socket.write(bytes),
    has: (pattern: RegExp) => until(`an answer ${pattern}`, () => pattern.test(text)),
    /** Asks once more, and resolves with the answers once the server has ended the connection: one that it kept has one more. */
    async answers(): Promise<string[]> {
      socket.write(request('/slow'))
      await ended
      return text.split(/(?=HTTP\/1\.1 )/).filter((answer) => answer !== '')
    },
  }
}

/** A server whose answers are held back until `release`; `asked` are the requests that wait for it. */
async function slowServer(t: TestContext, clock: Clock = here.app.clock) {
  const server = openListener({ ...here.app, clock })
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const asked: string[] = []
  const wait = async (name: string) => {
    asked.push(name)
    await released
  }
  server.get('/slow', async () => {
    await wait('slow')
    return { slow: true }
  })
  server.get('/raw', async (_request, reply) => {
    reply.hijack()
    await wait('raw')
    reply.raw.writeHead(200, { 'content-length': '3' }).end('raw')
  })
  server.get('/stream', (_request, reply) => {
    async function* parts() {
      yield 'first '
      await wait('stream')
      yield 'last'
    }
    return reply.type('text/plain').send(Readable.from(parts()))
  })
  const sockets: Socket[] = []
  server.server.on('connection', (socket: Socket) => sockets.push(socket))
  await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(async () => {
    release()
    server.server.closeAllConnections()
    await server.close()
  })
  const isAsked = (count: number) => until(`${count} requests wait`, () => asked.length === count)
  /** Waits until something of so many connections was read. */
  const isHeard = (count: number) =>
    until(`${count} are heard`, () => sockets.filter(({ bytesRead }) => bytesRead > 0).length === count)
  return { server, sockets, to: server.server.address() as AddressInfo, isAsked, isHeard, release }
}

/** Begins to close a server that has requests in flight. */
async function beginClosing(server: FastifyInstance) {
  const closing = { isOver: false, over: Promise.resolve() }
  closing.over = server.close().then(() => void (closing.isOver = true))
  await until('no connection is accepted', () => !server.server.listening)
  return closing
}

test('what arrives on an open connection while the server ends is told to come again; what was there before is answered', async (t) => {
  const { server, to, isAsked, isHeard, release } = await slowServer(t)
  const [early, late] = [client(to), client(to)]
  early.write(request('/slow'))
  // Half a request: a connection that is not idle.
  late.write(request('/slow').slice(0, -2))
  await isAsked(1)
  await isHeard(2)
  const closing = await beginClosing(server)
  late.write('\r\n')
  const [refused, ...more] = await late.answers()
  assert.match(refused!, /^HTTP\/1\.1 503 /)
  assert.match(refused!, /retry-after: 1/i)
  assert.match(refused!, CLOSE)
  assert.match(refused!, /"code":"shutting_down"/)
  assert.deepEqual(more, [])
  assert.equal(closing.isOver, false)
  release()
  await early.has(/"slow":true/)
  await closing.over
})

test('an answer in flight is the last one of its connection, by whoever writes it, and nobody waits for the keep-alive time', async (t) => {
  const { server, to, isAsked, release } = await slowServer(t)
  const [slow, raw] = [client(to), client(to)]
  slow.write(request('/slow'))
  raw.write(request('/raw'))
  await isAsked(2)
  const closing = await beginClosing(server)
  release()
  await Promise.all([slow.has(/"slow":true/), raw.has(/raw$/)])
  for (const answers of [await slow.answers(), await raw.answers()]) {
    assert.equal(answers.length, 1, answers.join('\n'))
    assert.match(answers[0]!, OK)
    assert.match(answers[0]!, CLOSE)
  }
  await closing.over
})

test('an answer that had begun before the server closes is sent to its end, and its connection ends with it', async (t) => {
  const { server, to, isAsked, release } = await slowServer(t)
  const stream = client(to)
  stream.write(request('/stream'))
  await stream.has(/first /)
  await isAsked(1)
  const closing = await beginClosing(server)
  release()
  await stream.has(/last\r\n0\r\n\r\n$/)
  const answers = await stream.answers()
  assert.equal(answers.length, 1, answers.join('\n'))
  await closing.over
})

test('of requests that were sent one behind the other each is answered, and the last answer closes the connection', async (t) => {
  const { server, to, isAsked, release } = await slowServer(t)
  const both = client(to)
  both.write(request('/slow') + request('/raw'))
  await isAsked(2)
  const closing = await beginClosing(server)
  release()
  await both.has(/raw$/)
  const answers = await both.answers()
  assert.deepEqual(answers.map((answer) => [OK.test(answer), CLOSE.test(answer)]), [[true, false], [true, true]]) // prettier-ignore
  await closing.over
})

test('connections without a request end at once: those that had one, and those that never sent anything', async (t) => {
  const { server, sockets, to, isAsked, release } = await slowServer(t)
  const [used, silent, busy] = [client(to), client(to), client(to)]
  used.write(request('/nothing'))
  await used.has(/"not_found"/)
  busy.write(request('/slow'))
  await isAsked(1)
  await until('the silent one is connected', () => sockets.length === 3)
  const closing = await beginClosing(server)
  assert.deepEqual(await silent.answers(), [])
  assert.equal((await used.answers()).length, 1)
  assert.equal(closing.isOver, false)
  release()
  await busy.has(/"slow":true/)
  await closing.over
})

test('a request that never becomes whole does not hold up the end', async (t) => {
  const clock = runningClock()
  const { server, to, isAsked, isHeard, release } = await slowServer(t, clock)
  const [half, busy] = [client(to), client(to)]
  half.write('GET /slow HTTP/1.1\r\n')
  busy.write(request('/slow'))
  await isAsked(1)
  await isHeard(2)
  const closing = server.close()
  await until('no connection is accepted', () => !server.server.listening)
  assert.equal(half.socket.closed, false)
  await clock.advance(5_000)
  await until('the half one is ended', () => half.socket.closed)
  release()
  await busy.has(/"slow":true/)
  await closing
})

test('the Unix socket between our programs ends likewise', async (t) => {
  const { server, isAsked, release } = await slowServer(t)
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-ending-'))
  t.after(() => rm(folder, { recursive: true }))
  const path = join(folder, 'socket')
  const door = await listenAtSocket(server, { path, setting: 'AUTH_SOCKET', clock: here.app.clock })
  const [asking, idle, silent] = [client(path), client(path), client(path)]
  idle.write(request('/nothing'))
  await idle.has(/"not_found"/)
  asking.write(request('/slow'))
  await isAsked(1)
  const closing = door.close()
  assert.equal((await idle.answers()).length, 1)
  assert.deepEqual(await silent.answers(), [])
  release()
  await asking.has(/"slow":true/)
  const answers = await asking.answers()
  assert.equal(answers.length, 1, answers.join('\n'))
  assert.match(answers[0]!, CLOSE)
  await closing
})
