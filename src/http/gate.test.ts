import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { after, before, test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { audienceOf, issuerOf } from '../app.ts'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { fakeApp, type FakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { verifyAccessToken } from './bearer.ts'
import { openGate } from './gate.ts'
import { openListener } from './listener.ts'
import { de } from '../texts/de.ts'

/** of the class `status`: a quarter of all */
const MAX = 16
const MAX_IN_FLIGHT = String(MAX * 4)

let here: FakeApp
let server: FastifyInstance
let origin: string
/** answers the requests that hang */
let free: () => void
let gone: Promise<void>
/** how many were let in, behind the door */
let atDoor = 0
/** how many have asked to stand aside */
let asked = 0

before(async () => {
  here = await fakeApp({ MAX_IN_FLIGHT, NODE_ENV: 'test' })
  server = openListener(here.app)
  const { refuseBehindCors } = openGate(server, here.app)
  server.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin !== undefined) reply.header('access-control-allow-origin', request.headers.origin)
    done()
  })
  refuseBehindCors()
  server.addHook('preParsing', (_request, _reply, _payload, done) => {
    atDoor++
    done()
  })
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
  return values.reduce((sum, { value }) => sum + value, 0)
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
  await until('a line', () => here.told('requests_shed').length > 0)
  assert.ok(here.told('requests_shed').length <= 2)
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
  const before = atDoor
  const slow = await Promise.all(Array.from({ length: MAX + 1 }, slowBody))
  await until('they are past the door', () => atDoor === before + slow.length)
  assert.equal(await inFlight(here), 0)
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
async function knownToken({ app }: FakeApp): Promise<string> {
  const keys = await generateKeyPair('ES256', { extractable: true })
  app.tokenKeys = { keys: [{ ...(await exportJWK(keys.publicKey)), kid: 'k', alg: 'ES256' }] }
  const token = await new SignJWT({ client_id: 'shop', chain_id: 31_337 })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })
    .setIssuer(issuerOf(app))
    .setAudience(audienceOf(app.origin))
    .setSubject('shop')
    .setJti('one')
    .setExpirationTime('1h')
    .sign(keys.privateKey)
  await verifyAccessToken(app, token)
  return token
}

test('classes are apart, and an application with a known token finds room beside others that have taken it all', async (t) => {
  const { own, at, many } = await ofSixteen(t)
  const authorization = `Bearer ${await knownToken(own)}`
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${at}${path}`, { method: path === '/write' ? 'POST' : 'GET', headers })
    await answer.text()
    return answer.status
  }
  await many(MAX)
  assert.equal(await ask('/quick'), 503)
  assert.equal(await ask('/write'), 200)
  assert.equal(await ask('/vital'), 200, 'the others who are not known leave it room')
  for (const scheme of ['Bearer', 'DPoP'])
    assert.equal(await ask('/quick', { authorization: authorization.replace('Bearer', scheme) }), 200)
  assert.equal(await ask('/quick', { authorization: 'Bearer of.no.one' }), 503)
})

test('what is asked with a known token is refused before the framework looks at it, unless a page needs the headers of CORS', async (t) => {
  const { own, at, many } = await ofSixteen(t)
  const authorization = `Bearer ${await knownToken(own)}`
  await many(MAX, { authorization })
  const refused = async (headers: Record<string, string>) => {
    const answer = await fetch(`${at}/quick`, { headers })
    const { code, requestId } = (await answer.json()) as Record<string, unknown>
    const policy = answer.headers.get('referrer-policy')
    assert.deepEqual([answer.status, code, requestId], [503, 'overloaded', answer.headers.get('x-request-id')])
    return policy === null ? 'before the framework' : 'by it'
  }
  assert.equal(await refused({ authorization }), 'before the framework')
  assert.equal(await refused({ authorization: authorization.replace('Bearer', 'DPoP') }), 'before the framework')
  assert.equal(await refused({ authorization, origin: 'https://shop.example' }), 'by it')
})

test('a client that leaves while the door still asks the database leaves nothing behind, with a body or without', async (t) => {
  // An app of its own: two gates would report to the same meters.
  const mine = await fakeApp({ MAX_IN_FLIGHT })
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
  answer()
  await settled(0, mine)
  await until('the door is open for others', async () => {
    const { status } = await fetch(`${base}/open`, { method: 'POST' })
    return status === 200
  })
  await settled(0, mine)
})

test('a client that leaves at the door keeps its place where its request is answered all the same', async (t) => {
  const mine = await fakeApp({ MAX_IN_FLIGHT })
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
  const { status } = await fetch(`${base}/thing`, { signal: AbortSignal.timeout(120_000) })
  assert.equal(status, 503)
  work.resolve()
  await settled(0, mine)
})

/** A gate of its own, with routes that hang until told. */
async function ofSixteen(t: TestContext) {
  const own = await fakeApp({ MAX_IN_FLIGHT, NODE_ENV: 'test' })
  const open = openListener(own.app)
  openGate(open, own.app).refuseBehindCors()
  const { promise, resolve } = Promise.withResolvers<void>()
  const hang = async () => {
    await promise
    return {}
  }
  open.get('/hang', hang)
  open.get('/quick', () => ({}))
  open.get('/vital', { config: { admission: 'vital' } }, () => ({}))
  open.post('/write', { config: { admission: 'write' } }, () => ({}))
  open.get<{ Querystring: { calls: string } }>('/batch', (request) => {
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
  const many = async (count: number, headers: Record<string, string> = {}) => {
    // Read to their ends, so that no connection stays with them.
    for (let begun = 0; begun < count; begun++)
      asked.push(fetch(`${at}/hang`, { headers }).then((answer) => answer.text()))
    await settled(count, own)
  }
  return { own, at, many, free: resolve }
}

test('a batch counts for half of its members as soon as its body says so, and is refused where they find no room', async (t) => {
  const { own, at, free } = await ofSixteen(t)
  const batch = fetch(`${at}/batch?calls=21`)
  await settled(11, own)
  const hanging = Array.from({ length: 4 }, () => fetch(`${at}/hang`).then((answer) => answer.text()))
  await settled(15, own)
  const refused = await fetch(`${at}/batch?calls=100`)
  assert.equal(refused.status, 503)
  assert.equal(((await refused.json()) as { code: string }).code, 'overloaded')
  assert.ok(refused.headers.get('retry-after'))
  await settled(15, own)
  free()
  const answer = await batch
  await answer.text()
  assert.equal(answer.status, 200)
  await Promise.all(hanging)
  await settled(0, own)
})
