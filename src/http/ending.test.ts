import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { world } from '../../test/world.ts'
import { readConfig } from '../config.ts'
import { openListener } from './listener.ts'

test('what arrives on an open connection while the server ends is told to come again; what was there before is answered', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const server = openListener(here.app)
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: asked, resolve: isAsked } = Promise.withResolvers<void>()
  server.get('/slow', async () => {
    isAsked()
    await released
    return { slow: true }
  })
  await server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = server.server.address() as { port: number }
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const [early, late] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
  const [answered, refused] = [text(early), text(late)]
  early.write(request('/slow'))
  // Half a request: a connection that is not idle.
  late.write(request('/slow').slice(0, -2))
  await asked
  let closed = false
  const closing = server.close().then(() => (closed = true))
  late.write('\r\n')
  const said = await refused
  assert.match(said, /^HTTP\/1\.1 503 /)
  assert.match(said, /retry-after: 1/i)
  assert.match(said, /connection: close/i)
  assert.match(said, /"code":"shutting_down"/)
  assert.equal(closed, false)
  release()
  assert.match(await answered, /^HTTP\/1\.1 200 [\s\S]*"slow":true/)
  await closing
})

test('somebody who follows a dead link gets a page; programs get the problem document', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const accept = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const page = await here.request('/acount', { headers: { accept } })
  assert.equal(page.status, 404)
  assert.match(page.headers.get('content-type')!, /^text\/html/)
  assert.match(page.body, /<h1>There is nothing at this address<\/h1>[\s\S]*href="\/account"/)
  for (const [path, headers, method] of [
    ['/acount', {}, 'GET'],
    ['/acount', { accept: '*/*' }, 'GET'],
    ['/acount', { accept }, 'POST'],
    ['/v1/nothing', { accept }, 'GET'],
    ['/oauth/nothing', { accept }, 'GET'],
    ['/operator/v1/nothing', { accept }, 'GET'],
  ] as const) {
    const answer = await here.request(path, { headers, method })
    assert.deepEqual([answer.status, answer.body.code], [404, 'not_found'], `${method} ${path}`)
  }
})

test('in development every request leaves a line with its code and request id, and never what is secret', async (t) => {
  const here = await world({ NODE_ENV: 'development' })
  t.after(() => here.close())
  const lines: string[] = []
  const write = t.mock.method(process.stderr, 'write', (chunk: string) => lines.push(String(chunk)) > 0)
  const refused = await here.request('/v1/nothing%0a?code=secret-of-mine', {
    headers: { 'x-request-id': 'quoted-by-me' },
  })
  await here.alice.get('/v1/me')
  await here.request('/login/abcdefghijklmnop')
  write.mock.restore()
  assert.equal(refused.status, 404)
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d GET \/v1\/nothing%0a 404 \d+ ms not_found quoted-by-me\n$/)
  assert.match(lines[1]!, /^\d\d:\d\d:\d\d GET \/v1\/me 200 \d+ ms [\w-]+\n$/)
  assert.match(lines[2]!, /GET \/login\/:uid 400 /)
  const all = lines.join('')
  for (const secret of ['secret-of-mine', here.alice.token, 'abcdefghijklmnop']) assert.ok(!all.includes(secret))
})

test('lines of requests are for development; production asks for them, at a level that shows them', () => {
  assert.equal(readConfig({}, 'server').REQUEST_LOG, 'auto')
  const problems = (LOG_LEVEL: string): string => {
    try {
      readConfig({ NODE_ENV: 'production', REQUEST_LOG: 'on', LOG_LEVEL }, 'server')
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  assert.match(problems('warn'), /REQUEST_LOG cannot be on with this LOG_LEVEL/)
  assert.doesNotMatch(problems('info'), /REQUEST_LOG/)
})
