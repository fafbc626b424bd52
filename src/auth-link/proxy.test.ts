import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, createServer, request as ask, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { AppError } from '../errors.ts'
import { openGate } from '../http/gate.ts'
import { openListener } from '../http/listener.ts'
import { fakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { connectAuth, pack, unpack } from './connect.ts'
import { passToAuth } from './proxy.ts'
import { systemClock } from '../clock.ts'

type Passed = { method: string; url: string; headers: IncomingHttpHeaders; body: string }

/** The API in front of a program that notes what reaches it. */
async function stand(t: TestContext, { patienceMs = 10_000 } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-link-'))
  const socketPath = join(folder, 'auth.sock')
  const got: Passed[] = []
  let refusal: object | null = null
  const behind = createServer(async (request, response) => {
    if (request.url === '/oauth/hangs') return
    if (refusal !== null) return void response.writeHead(422).end(JSON.stringify(refusal))
    if (request.url === '/oauth/breaks') return void request.socket.destroy()
    const body = await text(request).catch(() => null)
    // What was too large ended before its end.
    if (body === null) return
    got.push({ method: request.method!, url: request.url!, headers: request.headers, body })
    response.writeHead(request.method === 'OPTIONS' ? 204 : 401, { 'set-cookie': ['a=1', 'b=2'], 'x-own': 'yes', 'www-authenticate': 'DPoP' }) // prettier-ignore
    response.end(request.method === 'POST' ? '{"error":"invalid_client"}' : undefined)
  })
  await new Promise<void>((done) => void behind.listen(socketPath, done))
  const fake = await fakeApp({ TRUST_PROXY: '1', DEVELOPMENT_OPEN_TO: 'everyone' })
  const app = { ...fake.app, pagesOrigin: 'https://sign-in.example' }
  const server = openListener(app)
  const agent = new Agent({ keepAlive: true })
  await passToAuth(server, app, { agent, socketPath, patienceMs })
  await server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = server.server.address() as AddressInfo
  t.after(async () => {
    agent.destroy()
    behind.closeAllConnections()
    behind.close()
    await server.close()
    await fake.close()
    await rm(folder, { recursive: true })
  })
  async function call(method: string, path: string, headers: Record<string, string> = {}, body?: string) {
    const asked = ask({ host: '127.0.0.1', port, method, path, headers })
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; headers: IncomingHttpHeaders; body: string }>() // prettier-ignore
    asked.once('error', reject)
    asked.once('response', async (response) =>
      resolve({ status: response.statusCode!, headers: response.headers, body: await text(response) }),
    )
    asked.end(body)
    return promise
  }
  return { got, call, port, socketPath, behind, refuse: (problem: object) => (refusal = problem) }
}

test('what programs ask below /oauth is passed on as it is, but for who asks, and so is the answer', async (t) => {
  const { got, call } = await stand(t)
  const given = { host: 'wallet.example', 'content-type': 'application/x-www-form-urlencoded', authorization: 'Basic x', dpop: 'proof', cookie: 'c=1', origin: 'https://shop.example', 'x-forwarded-for': '198.51.100.9, 203.0.113.7', forwarded: 'for=1.2.3.4', 'x-forwarded-host': 'evil.example', 'x-request-id': 'request-of-a-client' } // prettier-ignore
  const answer = await call('POST', '/oauth/token?x=%20', given, 'grant_type=client_credentials')
  assert.deepEqual([answer.status, answer.body], [401, '{"error":"invalid_client"}'])
  const { 'set-cookie': cookies, 'x-own': own, 'www-authenticate': challenge } = answer.headers
  assert.deepEqual([cookies, own, challenge], [['a=1', 'b=2'], 'yes', 'DPoP'])
  const { method, url, headers, body } = got[0]!
  assert.deepEqual([method, url, body], ['POST', '/oauth/token?x=%20', 'grant_type=client_credentials'])
  for (const name of ['host', 'content-type', 'authorization', 'dpop', 'cookie', 'origin', 'x-request-id'] as const)
    assert.equal(headers[name], given[name], name)
  // One address, that of the client as this program knows it; nothing that the client says of itself.
  assert.equal(headers['x-forwarded-for'], '203.0.113.7')
  assert.deepEqual([headers.forwarded, headers['x-forwarded-host']], [undefined, undefined])

  for (const [asked, path] of [
    ['OPTIONS', '/oauth/token'],
    ['HEAD', '/oauth/jwks'],
    ['GET', '/.well-known/oauth-authorization-server/oauth'],
  ] as const)
    // prettier-ignore
    await call(asked, path, { origin: 'https://shop.example', 'access-control-request-method': 'POST' })
  assert.deepEqual(
    got.slice(1).map(({ method, url }) => `${method} ${url}`),
    ['OPTIONS /oauth/token', 'HEAD /oauth/jwks', 'GET /.well-known/oauth-authorization-server/oauth'],
  )
})

test('no client writes a request of its own onto the connection behind: what has no length is no body', async (t) => {
  const { got, port } = await stand(t)
  const smuggled = 'POST /internal/auth/revocations HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'
  const chunked = `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`
  const raw = (request: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.write(request)
    return text(socket)
  }
  const heads = {
    chunked: ['Transfer-Encoding: chunked', chunked],
    counted: [`Content-Length: ${smuggled.length}`, smuggled],
  } as const
  for (const method of ['GET', 'HEAD', 'OPTIONS'])
    for (const [how, [head, body]] of Object.entries(heads)) {
      const answer = await raw(
        `${method} /oauth/jwks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${head}\r\n\r\n${body}`,
      )
      assert.match(answer, /^HTTP\/1\.1 400 /, `${method} ${how}`)
    }
  assert.deepEqual(got, [])
  const answer = await raw(
    `POST /oauth/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${heads.chunked[0]}\r\n\r\n${chunked}`,
  )
  assert.match(answer, /^HTTP\/1\.1 401 /)
  assert.deepEqual(
    got.map(({ url, body, headers }) => [url, body, headers['content-length'], headers['transfer-encoding']]),
    [['/oauth/token', smuggled, String(smuggled.length), undefined]],
  )
})

test('a body that is too large, a program that hangs, breaks off or is away: each is told in the one shape of an error', async (t) => {
  const { got, call, behind, socketPath } = await stand(t, { patienceMs: 1_000 })
  const codeOf = async (path: string, body?: string) => {
    const { status, body: problem, headers } = await call('POST', path, {}, body)
    return [status, JSON.parse(problem).code, headers['retry-after']]
  }
  assert.deepEqual(await codeOf('/oauth/token', 'x'.repeat(65_537)), [413, 'body_too_large', undefined])
  assert.deepEqual(await codeOf('/oauth/hangs'), [503, 'auth_unavailable', '1'])
  assert.deepEqual(await codeOf('/oauth/breaks'), [503, 'auth_unavailable', '1'])
  behind.closeAllConnections()
  await new Promise((done) => void behind.close(done))
  assert.deepEqual(await codeOf('/oauth/token'), [503, 'auth_unavailable', '1'])
  assert.deepEqual(
    got.filter(({ body }) => body.length === 65_537),
    [],
  )
  const link = connectAuth(socketPath, systemClock)
  await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), { code: 'auth_unavailable' })
  await assert.rejects(async () => link.subjectForm('DEV'), { code: 'auth_unavailable' })
  assert.equal(await link.isThere(), false)
})

test('what browsers open is at the host of the pages, with all that came with it', async (t) => {
  const { got, call } = await stand(t)
  for (const path of [
    '/oauth/auth?client_id=shop&state=%2F',
    '/oauth/auth/abc',
    '/oauth/session/end',
    '/login/callback/APPLE',
    '/consent/x',
    '/account',
    '/account/sessions/end',
    '/oauth/%61uth',
  ])
    // prettier-ignore
    for (const method of ['GET', 'POST']) {
      const { status, headers } = await call(method, path, method === 'POST' ? { 'content-type': 'text/plain' } : {}, method === 'POST' ? 'x' : undefined) // prettier-ignore
      assert.deepEqual([status, headers.location, headers['cache-control'], headers['referrer-policy']], [307, `https://sign-in.example${path}`, 'no-store', 'no-referrer'], `${method} ${path}`) // prettier-ignore
    }
  assert.deepEqual(got, [])
})

test('a refusal of the other program arrives as it was told, with what it says of the account', async (t) => {
  const { socketPath, refuse } = await stand(t)
  const link = connectAuth(socketPath, systemClock)
  t.after(() => link.close())
  const funds = { needed: '7', available: '3' }
  refuse({ code: 'insufficient_funds', detail: 'It needs 7 wei and has 3.', funds, revert: { reason: 'none' } })
  await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), (error) => {
    assert.ok(error instanceof AppError)
    assert.deepEqual([error.code, error.message], ['insufficient_funds', 'It needs 7 wei and has 3.'])
    assert.deepEqual([error.funds, error.revert], [funds, { reason: 'none' }])
    return true
  })
  refuse({ code: 'no code of ours', detail: '' })
  await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), { code: 'auth_unavailable' })
})

test('whole numbers of any size and times arrive as they were', () => {
  const given = { value: 2n ** 255n, at: new Date(0), list: [{ left: null, text: '$int' }], nothing: null }
  assert.deepEqual(unpack(pack(given)), given)
  assert.equal(unpack(pack(null)), null)
})

test('a body that does not come to what is passed on holds nobody’s place', async (t) => {
  const fake = await fakeApp({ MAX_IN_FLIGHT: '16' })
  const server = openListener(fake.app)
  openGate(server, fake.app).refuseBehindCors()
  const agent = new Agent()
  await passToAuth(server, fake.app, { agent, socketPath: '/nowhere/auth.sock' })
  await server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = server.server.address() as AddressInfo
  const sockets = Array.from({ length: 16 }, () => connect(port, '127.0.0.1'))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    agent.destroy()
    await server.close()
    await fake.close()
  })
  for (const socket of sockets)
    socket.write('POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\ng')
  const inFlight = async () => {
    const { values } = await fake.app.telemetry.inFlight.get()
    return values.find(({ labels }) => labels.of === 'all')?.value
  }
  await until('they hold places', async () => ((await inFlight()) ?? 0) > 0)
  await until('they hold none', async () => (await inFlight()) === 0)
})
