import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, isIP, type AddressInfo, type Socket } from 'node:net'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { fakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { documentation } from './documentation.ts'
import { openOperatorsListener } from './health.ts'
import { listenAt, openListener } from './listener.ts'

const open = async (port: number): Promise<Socket> => {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}
/** Resolves when the other side has closed a connection without a word. */
async function isClosed(socket: Socket): Promise<void> {
  socket.on('data', (bytes: Buffer) => assert.fail(`it was answered: ${bytes.toString()}`))
  if (!socket.closed) await once(socket, 'close')
}

test('a connection beyond MAX_CONNECTIONS is closed at once and told in one line; the others go on, and room is found again', async (t) => {
  const here = await fakeApp({ MAX_CONNECTIONS: '16' })
  const server = openListener(here.app)
  server.get('/thing', () => ({ ok: true }))
  await server.listen({ port: 0, host: '127.0.0.1' })
  t.after(async () => {
    await server.close()
    await here.close()
  })
  const { port } = server.server.address() as AddressInfo
  const sockets = await Promise.all(Array.from({ length: 16 }, () => open(port)))
  for (let beyond = 0; beyond < 3; beyond++) await isClosed(await open(port))
  sockets[0]!.write('GET /thing HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const [answer] = (await once(sockets[0]!, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1\.1 200 /)
  assert.deepEqual(
    here.told('connections_full').map(({ level, fields }) => ({ level, ...fields })),
    [{ level: 'warn', most: 16, closed: 1 }],
  )
  sockets[1]!.destroy()
  await until('the next one is let in', async () => {
    const { status } = await fetch(`http://127.0.0.1:${port}/thing`).catch(() => ({ status: 0 }))
    return status === 200
  })
  for (const socket of sockets) socket.destroy()
})

test('the operators’ listener takes 64 connections', async (t) => {
  const here = await fakeApp()
  const server = await openOperatorsListener(here.app, { host: '127.0.0.1', port: 0 }, { isDraining: () => false })
  t.after(async () => {
    await server.close()
    await here.close()
  })
  const { port } = server.server.address() as AddressInfo
  const sockets = await Promise.all(Array.from({ length: 64 }, () => open(port)))
  await isClosed(await open(port))
  for (const socket of sockets) socket.destroy()
})

test('the page of the API reference has another nonce each time, in its header and at its script alike', async (t) => {
  const here = await fakeApp()
  const server = openListener(here.app)
  await documentation(server)
  t.after(async () => {
    await server.close()
    await here.close()
  })
  const seen = new Set<string>()
  for (let visit = 0; visit < 3; visit++) {
    const { headers, body } = await server.inject({ url: '/docs/' })
    const [, nonce] = /'nonce-([^']+)'/.exec(String(headers['content-security-policy']))!
    seen.add(nonce!)
    assert.ok(body.includes(`nonce="${nonce}"`), body.slice(0, 2_000))
    assert.ok(!body.includes('nonce-of-this-answer'))
    assert.equal(headers['cache-control'], 'no-store')
  }
  assert.equal(seen.size, 3)
  // Without the slash the page would look for its script beside itself.
  const moved = await server.inject({ url: '/docs?from=mail' })
  assert.deepEqual([moved.statusCode, moved.headers.location], [301, '/docs/'])
  const script = await server.inject({ url: '/docs/js/scalar.js' })
  assert.deepEqual([script.statusCode, script.headers['content-type']], [200, 'application/javascript; charset=utf-8'])
  assert.ok(script.body.length > 1_000_000)

  const { body: page } = await server.inject({ url: '/docs/' })
  const [, name = ''] = /"(js\/scalar\.js\?v=[\w-]{12})"/.exec(page) ?? []
  const ask = (url: string, headers: Record<string, string> = {}) => server.inject({ url: `/docs/${url}`, headers })
  const tags = new Set<unknown>()
  for (const [accepted, encoding, unpack] of [
    ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ['gzip;q=0.5', 'gzip', gunzipSync],
    ['br;q=0, gzip', 'gzip', gunzipSync],
    ['identity', undefined, (bytes: Buffer) => bytes],
    ['', undefined, (bytes: Buffer) => bytes],
  ] as const) {
    const { headers, rawPayload } = await ask(name, { 'accept-encoding': accepted })
    assert.deepEqual(
      [headers['content-encoding'], headers['cache-control'], headers.vary],
      [encoding, 'public, max-age=31536000, immutable', 'Accept-Encoding'],
      accepted,
    )
    assert.ok(unpack(rawPayload).equals(script.rawPayload), accepted)
    if (encoding !== undefined) assert.ok(rawPayload.length < script.rawPayload.length / 2)
    tags.add(headers.etag)
    const again = await ask(name, {
      'accept-encoding': accepted,
      'if-none-match': `"other", W/${String(headers.etag)}`,
    })
    assert.deepEqual([again.statusCode, again.body, again.headers.etag], [304, '', headers.etag])
  }
  assert.equal(tags.size, 3)
  assert.equal(script.headers['cache-control'], 'no-cache')
  assert.equal((await ask('js/scalar.js?v=another')).headers['cache-control'], 'no-cache')
})

test('by the name localhost it listens at one address, so that the bound holds for every connection', async (t) => {
  const here = await fakeApp({ MAX_CONNECTIONS: '16' })
  const server = openListener(here.app)
  t.after(async () => {
    await server.close()
    await here.close()
  })
  const listen = t.mock.method(server, 'listen')
  await listenAt(server, { host: 'localhost', port: 0 })
  // Of a machine where the name has one address alone nothing else would tell.
  assert.ok(isIP((listen.mock.calls[0]!.arguments[0] as unknown as { host: string }).host))
  assert.equal(server.addresses().length, 1)
})

test('a request that does not end in time is answered 408, and its connection ends also where the client keeps its own side open', async (t) => {
  const here = await fakeApp()
  const server = openListener(here.app)
  server.post('/thing', () => ({ ok: true }))
  await server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = server.server.address() as AddressInfo
  const sockets: Socket[] = []
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await server.close()
    await here.close()
  })
  const { headersTimeout, requestTimeout, keepAliveTimeout } = server.server
  assert.deepEqual([headersTimeout, requestTimeout, keepAliveTimeout], [5_000, 15_000, 72_000])
  Object.assign(server.server, { headersTimeout: 100, requestTimeout: 200 })
  const head = 'POST /thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n'
  for (const bytes of ['GET / HTTP', head, `${head}{`]) {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => {})
    sockets.push(socket)
    socket.write(bytes)
  }
  await Promise.all(
    sockets.map(async (socket) => {
      const [answer] = (await once(socket, 'data')) as [Buffer]
      assert.match(answer.toString(), /^HTTP\/1\.1 408 [^]*"code":"request_timeout"/)
    }),
  )
  await until('nobody is connected', async () => (await connectedTo(server)) === 0)
})

const connectedTo = ({ server }: FastifyInstance): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)))

test('a client that does not read its answer keeps no connection', async (t) => {
  const here = await fakeApp()
  const server = openListener(here.app)
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
  // More than the kernel keeps for both sides.
  server.get('/large', () => (ask(), Buffer.alloc(32_000_000)))
  assert.equal(server.server.timeout, 120_000)
  server.server.timeout = 200
  await server.listen({ port: 0, host: '127.0.0.1' })
  const socket = await open((server.server.address() as AddressInfo).port)
  t.after(async () => {
    socket.destroy()
    await server.close()
    await here.close()
  })
  socket.write('GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await asked
  assert.equal(await connectedTo(server), 1)
  await until('it is disconnected', async () => (await connectedTo(server)) === 0)
})

test('what comes behind a whole request and is none is not answered in its place: the connection ends, what was begun goes on', async (t) => {
  const here = await fakeApp()
  const server = openListener(here.app)
  const { promise: over, resolve: finish } = Promise.withResolvers<void>()
  let done = 0
  server.post('/thing', async () => {
    await over
    return { done: ++done }
  })
  await server.listen({ port: 0, host: '127.0.0.1' })
  t.after(async () => {
    finish()
    await server.close()
    await here.close()
  })
  const socket = await open((server.server.address() as AddressInfo).port)
  const body = '{"a":1}'
  const head = `POST /thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  const closed = isClosed(socket)
  socket.write(`${head}${body}}`)
  await closed
  finish()
  await until('it is done', () => done === 1)
  // Behind an answer that has left it is told, as any other.
  const another = await open((server.server.address() as AddressInfo).port)
  let read = ''
  another.on('data', (bytes) => (read += bytes))
  another.write(`${head}${body}`)
  await until('it is answered', () => read.includes('"done":2'))
  another.write('}')
  await until('what is wrong is told', () => /400 Bad Request[^]*"code":"invalid_request"/.test(read))
})
