import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { after, before, test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT, type GenerateKeyPairResult } from 'jose'
import { audienceOf, issuerOf } from '../app.ts'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { fakeApp, type FakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { verifyAccessToken } from './bearer.ts'
import { openGate } from './gate.ts'
import { openListener } from './listener.ts'
import { de } from '../texts/de.ts'

const MAX = 16

let here: FakeApp
let keys: GenerateKeyPairResult
let server: FastifyInstance
let origin: string
/** answers the requests that hang */
let free: () => void
let gone: Promise<void>
/** how many have asked to stand aside */
let asked = 0

before(async () => {
  here = await fakeApp({ MAX_IN_FLIGHT: String(MAX), NODE_ENV: 'test' })
  keys = await generateKeyPair('ES256', { extractable: true })
  here.app.tokenKeys = { keys: [{ ...(await exportJWK(keys.publicKey)), kid: 'k', alg: 'ES256' }] }
  server = openListener(here.app)
  const { refuseBehindCors } = openGate(server, here.app)
  server.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin !== undefined) reply.header('access-control-allow-origin', request.headers.origin)
    done()
  })
  refuseBehindCors()
  const hang = async () => {
    await gone
    return { done: true }
  }
  server.get('/hang', hang)
  server.get('/read', { config: { admission: 'read' } }, hang)
  server.get('/vital', { config: { admission: 'vital' } }, () => ({ ok: true }))
  server.post('/body', { config: { admission: 'status' } }, hang)
  server.get('/raw', (request, reply) =>
    request.answerPast(reply, async () => {
      await gone
      reply.raw.end('raw')
    }),
  )
  server.get('/wait', async (request) => {
    const stoodAside = request.standAside()
    asked++
    return { stoodAside, ...(await hang()) }
  })
  origin = await server.listen({ port: 0, host: '127.0.0.1' })
})
after(async () => {
  await server.close()
  await here.close()
})

const hangAgain = () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  gone = promise
  free = resolve
}
const inFlight = async ({ app }: FakeApp) => {
  const { values } = await app.telemetry.inFlight.get()
  return values.find(({ labels }) => labels.of === 'all')?.value
}
const settled = (count: number, of = here) => until(`${count} in flight`, async () => (await inFlight(of)) === count)

/** @returns what hangs, of which `free` makes answers */
async function fill(path = '/hang'): Promise<Promise<Response>[]> {
  hangAgain()
  const hanging = Array.from({ length: MAX }, () => fetch(`${origin}${path}`))
  await settled(MAX)
  return hanging
}

test('above the limit a request is refused at once, as every refusal is told, and nothing is done', async () => {
  const hanging = await fill()
  const answer = await fetch(`${origin}/hang?secret=1`, { headers: { 'x-request-id': 'request-of-mine' } })
  const problem = (await answer.json()) as Record<string, unknown>
  assert.equal(answer.status, 503)
  assert.match(answer.headers.get('retry-after')!, /^[123]$/)
  assert.equal(answer.headers.get('content-type'), 'application/problem+json; charset=utf-8')
  assert.equal(answer.headers.get('x-request-id'), 'request-of-mine')
  const { code, status, retryable, requestId, error, detail } = problem
  assert.deepEqual([code, status, retryable, requestId], ['overloaded', 503, true, 'request-of-mine'])
  assert.equal(error, detail)
  const german = await fetch(`${origin}/hang`, { headers: { 'accept-language': 'de' } })
  assert.equal(((await german.json()) as { userMessage: string }).userMessage, de.userMessages.overloaded)
  assert.deepEqual([german.headers.get('content-language'), german.headers.get('vary')], ['de', 'Accept-Language'])
  const head = await fetch(`${origin}/hang`, { method: 'HEAD' })
  assert.deepEqual([head.status, await head.text()], [503, ''])
  free()
  assert.deepEqual(await Promise.all(hanging.map(async (one) => (await one).status)), Array(MAX).fill(200))
  await settled(0)
  assert.equal((await fetch(`${origin}/vital`)).status, 200)
})

test('a page of another origin sees the refusal, by the headers of CORS', async () => {
  const hanging = await fill()
  const answer = await fetch(`${origin}/hang`, { headers: { origin: 'https://shop.example' } })
  assert.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [503, 'https://shop.example'])
  assert.equal(((await answer.json()) as { code: string }).code, 'overloaded')
  free()
  await Promise.all(hanging)
  await settled(0)
})

test('that we refuse is counted, and logged in one line for many', async () => {
  const count = async () =>
    (await here.app.telemetry.refusals.get()).values.find(({ labels }) => labels.code === 'overloaded')?.value ?? 0
  const before = await count()
  const hanging = await fill()
  await Promise.all(Array.from({ length: 30 }, () => fetch(`${origin}/hang`)))
  assert.equal((await count()) - before, 30)
  free()
  await Promise.all(hanging)
  await settled(0)
  await until('a line', () => here.told('overloaded').length > 0)
  assert.ok(here.told('overloaded').length <= 2)
})

/** Fills all places, and leaves before there is an answer. */
async function abandon(path: string): Promise<void> {
  hangAgain()
  const leaving = new AbortController()
  const left = Array.from({ length: MAX }, () => fetch(`${origin}${path}`, { signal: leaving.signal }))
  await settled(MAX)
  leaving.abort()
  await Promise.allSettled(left)
}

test('a client that leaves keeps its place until what it began is over', async () => {
  await abandon('/hang')
  assert.equal((await fetch(`${origin}/hang`)).status, 503)
  free()
  await settled(0)
})

test('what answers past the framework gives its place back once its work is over, answered or abandoned', async () => {
  const hanging = await fill('/raw')
  free()
  await Promise.all(hanging.map(async (one) => (await one).text()))
  await settled(0)
  await abandon('/raw')
  assert.equal((await fetch(`${origin}/hang`)).status, 503)
  free()
  await settled(0)
})

/** A request whose body does not come. */
async function slowBody(
  _: unknown,
  index: number,
): Promise<{ send(rest: string): void; destroy(): void; answer: Promise<string> }> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  await once(socket, 'connect')
  const isChunked = index % 2 === 1
  const length = isChunked ? 'transfer-encoding: chunked' : 'content-length: 2'
  socket.write(`POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${length}\r\n\r\n`)
  const say = (text: string) => socket.write(isChunked ? `${text.length}\r\n${text}\r\n` : text)
  say('{')
  const answer = once(socket, 'data').then(([chunk]) => String(chunk))
  answer.catch(() => {})
  return {
    send: (rest) => void (say(rest), isChunked && socket.write('0\r\n\r\n')),
    destroy: () => socket.destroy(),
    answer,
  }
}

test('a body that comes byte by byte holds nobody’s place, and asks again when it is there', async () => {
  hangAgain()
  const slow = await Promise.all(Array.from({ length: MAX }, slowBody))
  await settled(MAX)
  await settled(0)
  const hanging = Array.from({ length: MAX }, () => fetch(`${origin}/hang`))
  await settled(MAX)
  slow[0]!.send('}')
  assert.match(await slow[0]!.answer, /^HTTP\/1\.1 503 [^]*"overloaded"/)
  free()
  await Promise.all(hanging)
  await settled(0)
  slow[1]!.send('}')
  assert.match(await slow[1]!.answer, /^HTTP\/1\.1 200 /)
  for (const { destroy } of slow) destroy()
  await settled(0)
})

test('a body that breaks off leaves nothing behind', async () => {
  hangAgain()
  const slow = await Promise.all(Array.from({ length: MAX }, slowBody))
  await settled(MAX)
  for (const { destroy } of slow) destroy()
  await settled(0)
  free()
})

test('who waits for a block stands aside, and no more than a thousand do', async () => {
  hangAgain()
  const waiting: Promise<LightMyRequestResponse>[] = []
  while (waiting.length < 1_000) {
    for (let n = 0; n < 10; n++) waiting.push(server.inject('/wait'))
    await until('they stand aside', () => asked === waiting.length)
  }
  const late = server.inject('/wait')
  free()
  assert.equal((await late).json().stoodAside, false)
  const answers = await Promise.all(waiting)
  assert.ok(answers.every((one) => one.json().stoodAside === true))
  hangAgain()
  free()
  assert.equal((await server.inject('/wait')).json().stoodAside, true)
})

/** A token of an application that was verified once. */
async function knownToken(): Promise<string> {
  const token = await new SignJWT({ client_id: 'shop', chain_id: 31_337 })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })
    .setIssuer(issuerOf(here.app))
    .setAudience(audienceOf(here.app.origin))
    .setSubject('shop')
    .setJti('one')
    .setExpirationTime('1h')
    .sign(keys.privateKey)
  await verifyAccessToken(here.app, token)
  return token
}

test('what is asked with a known token is refused before the framework looks at it, by address, class and person', async (t) => {
  const open = openListener(here.app)
  openGate(open, here.app).refuseBehindCors()
  let seen = 0
  open.addHook('onRequest', (_request, _reply, done) => {
    seen++
    done()
  })
  hangAgain()
  const hang = async () => {
    await gone
    return {}
  }
  open.get('/v1/things/:id', { config: { admission: 'read' } }, hang)
  open.post('/v1/things/new', { config: { admission: 'write' } }, hang)
  open.get('/v1/vital/:id', { config: { admission: 'vital' } }, () => ({}))
  // Of two classes behind one beginning only the router can tell which it is.
  open.get('/v1/mixed/:id/vital', { config: { admission: 'vital' } }, () => ({}))
  open.get('/v1/mixed/:id', { config: { admission: 'read' } }, hang)
  const base = await open.listen({ port: 0, host: '127.0.0.1' })
  t.after(() => {
    free()
    return open.close()
  })
  const authorization = `Bearer ${await knownToken()}`
  const ask = (path: string, init: RequestInit = {}) => fetch(`${base}${path}`, { ...init, headers: { authorization } })
  const hanging = Array.from({ length: 13 }, (_, n) => ask(`/v1/things/${n}?page=${n}`))
  await until('they are in flight', () => seen === 13)
  const refused = await ask('/v1/things/14?page=1')
  assert.equal(refused.status, 503)
  assert.equal(((await refused.json()) as { code: string }).code, 'overloaded')
  assert.equal(seen, 13, 'the framework did not see it')
  const page = await fetch(`${base}/v1/things/14`, { headers: { authorization, origin: 'https://shop.example' } })
  // A page needs the headers of CORS, which the framework adds, as it does this one.
  assert.deepEqual([page.status, page.headers.get('referrer-policy')], [503, 'no-referrer'])
  assert.equal(refused.headers.get('referrer-policy'), null)
  // The scheme of tokens that are bound to a key is no way around; nor is one with a proof that nobody has checked.
  const bound = authorization.replace('Bearer', 'DPoP')
  const proven = await fetch(`${base}/v1/things/14`, { headers: { authorization: bound, dpop: 'x' } })
  assert.deepEqual([proven.status, proven.headers.get('referrer-policy')], [503, null])
  const writes = Array.from({ length: 2 }, () => ask('/v1/things/new', { method: 'POST' }))
  await until('writes still find room', () => seen === 15)
  assert.equal((await ask('/v1/vital/1')).status, 200)
  assert.equal((await ask('/v1/mixed/1/vital')).status, 200)
  assert.equal((await ask('/v1/mixed/1')).status, 503)
  free()
  for (const answer of await Promise.all([...hanging, ...writes])) assert.equal(answer.status, 200)
})

test('a client that leaves while the door still asks the database leaves nothing behind, with a body or without', async (t) => {
  // An app of its own: two gates would report to the same meters.
  const mine = await fakeApp({ MAX_IN_FLIGHT: String(MAX) })
  t.after(() => mine.close())
  const open = openListener(mine.app)
  openGate(open, mine.app).refuseBehindCors()
  let arrived = 0
  const { promise: known, resolve: answer } = Promise.withResolvers<void>()
  open.addHook('onRequest', async () => {
    arrived++
    await known
  })
  open.post('/scoped', { config: { scope: 'contracts:write' } }, () => ({ ok: true }))
  open.post('/open', () => ({ ok: true }))
  const base = await open.listen({ port: 0, host: '127.0.0.1' })
  t.after(() => open.close())
  const heads = ['content-length: 0', 'content-length: 2', 'transfer-encoding: chunked']
  const sockets: Socket[] = []
  for (const path of ['/scoped', '/open', '/v1/nothing'])
    for (const head of heads) {
      const socket = connect(Number(new URL(base).port), '127.0.0.1')
      await once(socket, 'connect')
      socket.write(`POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${head}\r\n\r\n`)
      sockets.push(socket)
    }
  await until('they are at the door', () => arrived === sockets.length)
  await settled(sockets.length, mine)
  for (const socket of sockets) socket.destroy()
  await settled(0, mine)
  answer()
  await until('the door is open for others', async () => {
    const { status } = await fetch(`${base}/open`, { method: 'POST' })
    return status === 200
  })
  await settled(0, mine)
})

test('a client that leaves at the door keeps its place where its request is answered all the same', async (t) => {
  const mine = await fakeApp({ MAX_IN_FLIGHT: String(MAX) })
  t.after(() => mine.close())
  const open = openListener(mine.app)
  openGate(open, mine.app).refuseBehindCors()
  const [door, work] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let atWork = 0
  open.addHook('onRequest', () => door.promise)
  open.get('/thing', async () => {
    atWork++
    await work.promise
    return {}
  })
  const base = await open.listen({ port: 0, host: '127.0.0.1' })
  t.after(() => {
    work.resolve()
    return open.close()
  })
  const leaving = new AbortController()
  const left = Array.from({ length: MAX }, () => fetch(`${base}/thing`, { signal: leaving.signal }))
  await settled(MAX, mine)
  leaving.abort()
  await Promise.allSettled(left)
  await until('nobody is connected', async () => {
    const { promise, resolve } = Promise.withResolvers<number>()
    open.server.getConnections((_error, count) => resolve(count))
    return (await promise) === 0
  })
  door.resolve()
  await until('they are worked for', () => atWork === MAX)
  const { status } = await fetch(`${base}/thing`, { signal: AbortSignal.timeout(5_000) })
  assert.equal(status, 503)
  work.resolve()
  await settled(0, mine)
})

/** A gate of its own for forty at a time, with routes that hang until told. */
async function fortyAtATime(t: TestContext) {
  const own = await fakeApp({ MAX_IN_FLIGHT: '40', NODE_ENV: 'test' })
  const open = openListener(own.app)
  openGate(open, own.app).refuseBehindCors()
  const { promise, resolve } = Promise.withResolvers<void>()
  const hang = async () => {
    await promise
    return {}
  }
  open.get('/hang', hang)
  const write = { config: { admission: 'write' } } as const
  for (const path of ['/write', '/other'])
    open.post<{ Body: { dryRun?: boolean } | null }>(path, write, (request) => {
      if (request.body?.dryRun !== true) request.noteTold()
      return {}
    })
  open.get<{ Querystring: { calls: string } }>('/batch', { config: { admission: 'read' } }, (request) => {
    request.weigh(Number(request.query.calls))
    return hang()
  })
  const at = await open.listen({ port: 0, host: '127.0.0.1' })
  const asked: Promise<unknown>[] = []
  t.after(async () => {
    resolve()
    await Promise.all(asked)
    open.server.closeIdleConnections()
    await open.close()
    await own.close()
  })
  const many = async (count: number) => {
    // Read to their ends, so that no connection stays with them.
    for (let begun = 0; begun < count; begun++) asked.push(fetch(`${at}/hang`).then((answer) => answer.text()))
    await settled(count, own)
  }
  return { own, at, many, free: resolve }
}

test('a repeat under a key that was answered is let in where a new write is not, as what asks after a write is', async (t) => {
  const { own, at, many } = await fortyAtATime(t)
  const write = async (key: string, { path = '/write', dryRun = false } = {}) => {
    const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
    const answer = await fetch(`${at}${path}`, { method: 'POST', headers, body: JSON.stringify({ dryRun }) })
    await answer.text()
    return answer.status
  }
  assert.deepEqual([await write('told'), await write('dry', { dryRun: true })], [200, 200])
  assert.equal(await write('told', { dryRun: true }), 200)
  await many(38)
  const refused = [await write('new'), await write('dry'), await write('told', { path: '/other' })]
  assert.deepEqual(refused, [503, 503, 503])
  assert.equal(await write('told', { dryRun: true }), 503, 'a dry run answers anew')
  await settled(38, own)
  assert.equal(await write('told'), 200)
})

test('a batch counts for half of its members as soon as its body says so, and is refused where they find no room', async (t) => {
  const { own, at, free } = await fortyAtATime(t)
  const batch = fetch(`${at}/batch?calls=21`)
  await settled(11, own)
  const hanging = Array.from({ length: 20 }, () => fetch(`${at}/hang`).then((answer) => answer.text()))
  await settled(31, own)
  const refused = await fetch(`${at}/batch?calls=100`)
  assert.equal(refused.status, 503)
  assert.equal(((await refused.json()) as { code: string }).code, 'overloaded')
  assert.ok(refused.headers.get('retry-after'))
  await settled(31, own)
  free()
  const answer = await batch
  await answer.text()
  assert.equal(answer.status, 200)
  await Promise.all(hanging)
  await settled(0, own)
})
