import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { fakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { audienceOf, issuerOf } from '../app.ts'
import { verifyAccessToken } from './bearer.ts'
import { openGate } from './gate.ts'
import { openListener } from './listener.ts'
import { ja } from '../texts/ja.ts'

const MAX = 16

/** A gate whose room for reads is taken, and a token that it knows; it is closed when all tests are over. */
let shared: ReturnType<typeof openFullGate> | undefined
const sharedGate = async () => (await (shared ??= openFullGate())).gate
after(async () => (await shared)?.end())

/** The same, whose room may become free. */
async function ownGate(t: TestContext) {
  const { gate, end } = await openFullGate()
  t.after(end)
  return gate
}

async function openFullGate() {
  const { app, close } = await fakeApp({ MAX_IN_FLIGHT: String(MAX), NODE_ENV: 'test' })
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  app.tokenKeys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }] }
  const token = await new SignJWT({ client_id: 'shop', chain_id: 31_337 })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })
    .setIssuer(issuerOf(app))
    .setAudience(audienceOf(app.origin))
    .setSubject('shop')
    .setJti('one')
    .setExpirationTime('1h')
    .sign(privateKey)
  await verifyAccessToken(app, token)
  const server = openListener(app)
  openGate(server, app).refuseBehindCors()
  const { promise: gone, resolve: free } = Promise.withResolvers<void>()
  let held = 0
  const read = { config: { admission: 'read' } } as const
  server.get('/held', read, async () => {
    held++
    await gone
    return {}
  })
  server.post('/read', read, (request) => ({ read: request.body }))
  server.get('/read', read, () => ({ read: null }))
  server.post('/write', { config: { admission: 'write' } }, (request) => {
    request.noteTold()
    return { wrote: request.body }
  })
  server.get('/vital', { config: { admission: 'vital' } }, () => ({ vital: true }))
  server.get('/vital/late', { config: { admission: 'vital' } }, async () => {
    await gone
    return { vital: 'late' }
  })
  /** what Node's parser has told of */
  const parsed: string[] = []
  server.server.on('request', ({ method, url }) => void parsed.push(`${method} ${url}`))
  const kept: Socket[] = []
  server.server.on('connection', (socket: Socket) => void kept.push(socket))
  const origin = await server.listen({ port: 0, host: '127.0.0.1' })
  const headers = { authorization: `Bearer ${token}` }
  const hanging = Array.from({ length: 13 }, async () => (await fetch(`${origin}/held`, { headers })).text())
  await until('there is no room', () => held === 13)
  parsed.length = 0
  const end = async () => {
    free()
    await Promise.all(hanging)
    server.server.closeAllConnections()
    await server.close()
    await close()
  }

  const head = (line: string, more = '') => `${line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n${more}\r\n` // prettier-ignore
  const post = (body: string, path = '/read', more = '') =>
    head(`POST ${path}`, `${more}content-type: application/json\r\ncontent-length: ${body.length}\r\n`) + body

  async function client() {
    const socket = connect(Number(new URL(origin).port), '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.setNoDelay(true)
    const answers: Answer[] = []
    let held = ''
    let taken = 0
    let wake = () => {}
    socket.on('data', (chunk) => {
      const [whole, rest] = answersIn(held + chunk.toString('latin1'))
      answers.push(...whole)
      held = rest
      wake()
    })
    socket.on('close', () => wake())
    const next = async () => {
      const wanted = ++taken
      while (answers.length < wanted && !socket.destroyed) await new Promise<void>((resolve) => (wake = resolve))
      assert.ok(answers.length >= wanted, `the connection ended after: ${answers.at(-1)?.head}`)
      return answers[wanted - 1]!
    }
    const ask = (text: string) => {
      socket.write(text)
      return next()
    }
    return { socket, ask, next, answers, theirs: kept.at(-1)! }
  }
  /** One whose requests are refused without the parser. */
  async function refusedClient() {
    const mine = await client()
    for (let asked = 0; asked < 2; asked++) assert.equal((await mine.ask(head('GET /read'))).status, 503)
    parsed.length = 0
    return mine
  }
  return { gate: { app, server, head, post, client, refusedClient, parsed, free, hanging }, end }
}

type Answer = { status: number; head: string; body: string }

/** The answers that a text begins with, and what is behind them. */
function answersIn(text: string): [Answer[], string] {
  const answers: Answer[] = []
  for (let at = 0; ;) {
    const end = text.indexOf('\r\n\r\n', at)
    if (end === -1) return [answers, text.slice(at)]
    const head = text.slice(at, end)
    assert.match(head, /^HTTP\/1\.1 \d{3} /, text)
    const length = Number(/content-length: (\d+)/i.exec(head)![1])
    if (text.length < end + 4 + length) return [answers, text.slice(at)]
    answers.push({ status: Number(head.slice(9, 12)), head, body: text.slice(end + 4, end + 4 + length) })
    at = end + 4 + length
  }
}

/** What is another each time. */
const constant = ({ head, body }: Answer): string =>
  `${head}\r\n\r\n${body}`
    .replace(/[\da-f-]{36}/g, 'ID')
    .replace(/(Date: ).*/, '$1')
    .replace(/(retry-after: )\d/, '$1')

test('on a connection that was refused, the next refusals leave without the parser, to the byte as before', async (t) => {
  const { client, head, post, parsed, app } = await ownGate(t)
  const { ask } = await client()
  const first = await ask(head('GET /read'))
  const second = await ask(head('GET /read'))
  assert.equal(parsed.length, 2, 'by the second it is known where requests begin')
  const later = [await ask(head('GET /read')), await ask(post('{}')), await ask(post('{"a":1}', '/read?b=c'))]
  assert.equal(parsed.length, 2)
  for (const answer of [second, ...later]) assert.equal(constant(answer), constant(first))
  const named = await ask(head('GET /read', 'X-Request-Id: request-of-mine\r\n'))
  assert.match(named.head, /x-request-id: request-of-mine/)
  assert.equal((JSON.parse(named.body) as { requestId: string }).requestId, 'request-of-mine')
  assert.match(named.head, /retry-after: [123]\r\n/)
  const japanese = await ask(head('GET /read', 'Accept-Language: ja\r\n'))
  const { userMessage } = JSON.parse(Buffer.from(japanese.body, 'latin1').toString()) as { userMessage: string }
  assert.equal(userMessage, ja.userMessages.overloaded)
  assert.match(japanese.head, /vary: Accept-Language\r\ncontent-language: ja\r\n/)
  assert.equal(parsed.length, 2)
  const { values } = await app.telemetry.refusals.get()
  assert.equal(values.find(({ labels }) => labels.code === 'overloaded')?.value, 7)
})

test('a refusal leaves before what the parser says to bytes that come in the same turn', async (t) => {
  const { refusedClient, head } = await ownGate(t)
  const { next, theirs } = await refusedClient()
  for (const bytes of [head('GET /read'), 'no HTTP\r\n\r\n']) theirs.emit('data', Buffer.from(bytes))
  assert.deepEqual([(await next()).status, (await next()).status], [503, 400])
})

test('what finds room is answered on the same connection, before and after what does not', async (t) => {
  const { refusedClient, head, post, parsed, free, hanging } = await ownGate(t)
  const { ask } = await refusedClient()
  assert.equal((await ask(head('GET /vital'))).body, '{"vital":true}')
  assert.equal((await ask(post('{}'))).status, 503)
  assert.equal((await ask(post('{"a":1}', '/write'))).body, '{"wrote":{"a":1}}')
  assert.equal((await ask(head('GET /read'))).status, 503)
  assert.deepEqual(parsed, ['GET /vital', 'POST /write'])
  free()
  await Promise.all(hanging)
  assert.equal((await ask(post('{"b":2}'))).body, '{"read":{"b":2}}')
  assert.equal((await ask(head('GET /nothing'))).status, 404)
})

test('what may not be refused so goes the ordinary way: a page, another token, an address of nobody', async () => {
  const { refusedClient, head, parsed } = await sharedGate()
  const { ask } = await refusedClient()
  const page = await ask(head('GET /read', 'Origin: https://shop.example\r\n'))
  assert.deepEqual([page.status, /referrer-policy/.test(page.head)], [503, true])
  assert.equal((await ask(head('GET /read').replace(/Bearer \S+/, 'Bearer other'))).status, 200)
  assert.equal((await ask(head('GET /nothing'))).status, 404)
  assert.equal(parsed.length, 3)
})

test('a request that comes in two pieces is answered once, wherever it is cut, and so is the next', async () => {
  const { client, head, post, parsed } = await sharedGate()
  const request = post('{"a":1}', '/read', 'x-a: GET /read HTTP/1.1\r\n')
  const { socket, next, ask, theirs, answers } = await client()
  for (let at = 1; at < request.length; at += request[at - 1] === 'e' ? 31 : 1) {
    const answered = answers.length
    // By the third, what is refused is refused without the parser.
    for (let asked = 0; asked < 3; asked++) await ask(head('GET /read'))
    parsed.length = 0
    await ask(head('GET /read'))
    assert.deepEqual(parsed, [], `cut at ${at}`)
    const before = theirs.bytesRead
    socket.write(request.slice(0, at))
    while (theirs.bytesRead < before + at) await new Promise((resolve) => setImmediate(resolve))
    socket.write(request.slice(at))
    assert.equal((await next()).status, 503, `cut at ${at}`)
    assert.equal((await ask(head('GET /vital'))).body, '{"vital":true}', `cut at ${at}`)
    assert.equal((await ask(head('GET /read'))).status, 503, `cut at ${at}`)
    assert.equal(answers.length - answered, 7, `cut at ${at}`)
  }
})

test('a piece that looks like a request is none where the one before has not ended', async () => {
  const { client, refusedClient, head } = await sharedGate()
  const inside = head('GET /read')
  const openings = [
    'GET /vital HTTP/1.1\r\nhost: localhost\r\nx-a: ',
    'GET /read HTTP/1.1\r\nx-a: ',
    `POST /vital HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${inside.length}\r\n\r\n`,
    `POST /vital HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${inside.length.toString(16)}\r\n`,
    head('GET /vital', `content-length: ${7 + inside.length}\r\n`) + '{"a":1}',
  ]
  for (const opening of openings)
    for (const how of [client, refusedClient]) {
      const { socket, next, answers, theirs } = await how()
      // Refused once: the parser is still to show where requests begin.
      if (how === client) {
        socket.write(head('GET /read'))
        await next()
      }
      const [count, before] = [answers.length, theirs.bytesRead]
      socket.write(opening)
      await until('the opening is there', () => theirs.bytesRead === before + opening.length)
      socket.write(inside)
      await until('both are there', () => theirs.bytesRead === before + opening.length + inside.length)
      // The end of a body in chunks; elsewhere the beginning of a request of its own.
      const end = opening.includes('chunked') ? '\r\n0\r\n\r\n' : ''
      socket.write(`${end}${head('GET /vital')}`)
      await until('two answers', () => answers.length >= count + 2 || socket.destroyed)
      const told = answers.slice(count)
      assert.equal(told.length, 2, opening)
      assert.equal(told[1]!.body, '{"vital":true}', opening)
      socket.destroy()
    }
})

test('a refusal with the beginning of another request behind it does not make that one’s body a request', async () => {
  const { client, head } = await sharedGate()
  const { socket, next, answers, theirs } = await client()
  const inside = head('GET /read')
  const opening = `GET /vital HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${inside.length}\r\nx-a: `
  const sent = async (text: string) => {
    const before = theirs.bytesRead
    socket.write(text)
    await until('it is there', () => theirs.bytesRead === before + text.length)
  }
  await sent(inside + opening)
  assert.equal((await next()).status, 503)
  await sent(inside)
  assert.equal((await next()).body, '{"vital":true}')
  await sent(inside)
  await sent(head('GET /vital'))
  assert.equal((await next()).body, '{"vital":true}')
  assert.equal(answers.length, 3)
})

test('the end of a body with the beginning of another request behind it ends what is known', async () => {
  const { refusedClient, head } = await sharedGate()
  const { socket, next, answers, theirs } = await refusedClient()
  const inside = head('GET /read')
  const sent = async (text: string) => {
    const before = theirs.bytesRead
    socket.write(text)
    await until('it is there', () => theirs.bytesRead === before + text.length)
  }
  const count = answers.length
  await sent(head('GET /vital', 'content-length: 4\r\n'))
  assert.equal((await next()).body, '{"vital":true}')
  await sent(`body${head('GET /vital', `content-length: ${inside.length}\r\n`).slice(0, -2)}x-a: `)
  await sent(inside)
  assert.equal((await next()).body, '{"vital":true}')
  await sent(inside + head('GET /vital'))
  assert.equal((await next()).body, '{"vital":true}')
  assert.equal(answers.length - count, 3)
})

test('requests that come together are answered each, in their order', async () => {
  const { refusedClient, head, post } = await sharedGate()
  const { socket, next } = await refusedClient()
  socket.write([head('GET /read'), post('{"a":1}', '/write'), head('GET /vital'), post('{}')].join(''))
  const answers = [await next(), await next(), await next(), await next()]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [503, 200, 200, 503],
  )
  assert.deepEqual([answers[1]!.body, answers[2]!.body], ['{"wrote":{"a":1}}', '{"vital":true}'])
})

test('a request that comes while an answer is owed waits for that answer', async (t) => {
  const { refusedClient, head, free } = await ownGate(t)
  const { socket, next, answers, theirs } = await refusedClient()
  const [first, second] = [head('GET /vital/late'), head('GET /read')]
  const before = theirs.bytesRead
  socket.write(first)
  await until('the first is there', () => theirs.bytesRead === before + first.length)
  socket.write(second)
  await until('both are there', () => theirs.bytesRead === before + first.length + second.length)
  assert.equal(answers.length, 2)
  free()
  // There is room by then: it is judged when its turn comes.
  assert.deepEqual([(await next()).body, (await next()).status], ['{"vital":"late"}', 200])
})

test('the body of what was refused is read to its end, however it comes, and is nothing of its own', async () => {
  const { refusedClient, head, post, parsed } = await sharedGate()
  const { socket, ask, next, theirs } = await refusedClient()
  const body = `{"a":"${head('GET /vital')}"}`
  const request = post(body)
  const cut = request.length - body.length
  socket.write(request.slice(0, cut))
  assert.equal((await next()).status, 503, 'before its body is there')
  const before = theirs.bytesRead
  for (let at = 0; at < body.length; at += 10) {
    socket.write(body.slice(at, at + 10))
    while (theirs.bytesRead < before + Math.min(at + 10, body.length))
      await new Promise((resolve) => setImmediate(resolve))
  }
  assert.equal((await ask(head('GET /read'))).status, 503)
  assert.deepEqual(parsed, [])
  // The end of a body and what follows it, in one piece.
  socket.write(request.slice(0, cut))
  await next()
  assert.equal((await ask(body + head('GET /vital'))).body, '{"vital":true}')
})

test('a refused body that does not end within 15 s ends its connection, whether another byte comes or none', async (t) => {
  const { refusedClient, head, post } = await sharedGate()
  const [silent, slow, whole] = [await refusedClient(), await refusedClient(), await refusedClient()]
  const half = post('{"a":1}').slice(0, -4)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (const { ask } of [silent, slow, whole]) assert.equal((await ask(half)).status, 503)
  const gone = (of: typeof silent) => of.theirs.destroyed
  const send = async ({ socket, theirs }: typeof slow, text: string) => {
    const before = theirs.bytesRead
    socket.write(text)
    while (theirs.bytesRead < before + text.length) await new Promise((resolve) => setImmediate(resolve))
  }
  t.mock.timers.tick(10_000)
  await send(slow, '"')
  await send(whole, '":1}')
  t.mock.timers.tick(4_999)
  assert.deepEqual([gone(silent), gone(slow), gone(whole)], [false, false, false])
  t.mock.timers.tick(1)
  assert.deepEqual([gone(silent), gone(slow), gone(whole)], [true, true, false])
  t.mock.timers.tick(60_000)
  assert.equal((await whole.ask(head('GET /vital'))).body, '{"vital":true}')
})

test('chunks, long bodies, other versions and connections that end are the parser’s', async () => {
  const { refusedClient, head, post, parsed } = await sharedGate()
  const chunked = head('POST /read', 'transfer-encoding: chunked\r\ncontent-type: application/json\r\n')
  const long = post(JSON.stringify('a'.repeat(70_000)))
  for (const request of [`${chunked}2\r\n{}\r\n0\r\n\r\n`, long, head('HEAD /read').replace('HEAD', 'PROPFIND')]) {
    const { ask, socket } = await refusedClient()
    assert.notEqual((await ask(request)).status, 200)
    if (request !== long) assert.notEqual((await ask(head('GET /read'))).status, 200)
    socket.destroy()
  }
  const { socket } = await refusedClient()
  const ended = once(socket, 'end')
  socket.write(head('GET /read', 'connection: close\r\n'))
  await ended
  assert.ok(parsed.includes('GET /read'))
})

test('who does not read its refusals is not given more than one of them to keep', async () => {
  const { refusedClient, head, parsed } = await sharedGate()
  const { socket, next, theirs } = await refusedClient()
  // As when the client's side of the connection takes no more.
  theirs.cork()
  socket.write(head('GET /read'))
  await until('a refusal is kept', () => theirs.writableLength > 0)
  assert.deepEqual(parsed, [])
  socket.write(head('GET /read'))
  await until('the next is the parser’s', () => parsed.length === 1)
  theirs.uncork()
  for (let asked = 0; asked < 2; asked++) assert.equal((await next()).status, 503)
})

test('who ends its side with a request still reads the refusal', async () => {
  const { refusedClient, head, parsed } = await sharedGate()
  const { socket, next } = await refusedClient()
  const ended = once(socket, 'end')
  socket.end(head('GET /read'))
  assert.equal((await next()).status, 503)
  await ended
  assert.deepEqual(parsed, [])
})

test('a connection that is refused closes as any other: when it is idle, and when the server ends', async (t) => {
  const { refusedClient, server, head, free, hanging } = await ownGate(t)
  const idle = await refusedClient()
  const closing = once(idle.socket, 'close')
  free()
  await Promise.all(hanging)
  await server.close()
  await closing
  assert.equal(idle.answers.length, 2)
  assert.ok(head)
})

test('two hundred connections that are refused are each answered as often as they ask', async () => {
  const { refusedClient, head, parsed } = await sharedGate()
  const clients = []
  for (let made = 0; made < 200; made++) clients.push(await refusedClient())
  for (let round = 0; round < 5; round++)
    for (const { status } of await Promise.all(clients.map(({ ask }) => ask(head('GET /read')))))
      assert.equal(status, 503)
  assert.deepEqual(parsed, [])
  for (const { socket } of clients) socket.destroy()
})
