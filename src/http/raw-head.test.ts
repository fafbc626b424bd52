import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import { randomOf } from '../../test/random.ts'
import { until } from '../../test/kit/until.ts'
import { readHead } from './raw-head.ts'

const read = (text: string) => readHead(Buffer.from(text, 'latin1'))
const BODY = '{"a":1}'
const REQUEST = `POST /v1/things/1?a=b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer abc.def\r\nX-Request-Id:  request-1 \r\ncontent-length: ${BODY.length}\r\n\r\n`

test('a request of every day is read, with what decides about it, and how long it is', () => {
  assert.deepEqual(read(REQUEST + BODY), {
    method: 'POST',
    url: '/v1/things/1?a=b',
    headers: { authorization: 'Bearer abc.def', 'x-request-id': 'request-1' },
    fields: 4,
    headBytes: REQUEST.length,
    bodyBytes: BODY.length,
  })
  assert.equal(read('GET / HTTP/1.1\r\nhost:\r\n\r\n')?.bodyBytes, 0)
})

test('a head is read as a whole or not at all, wherever it is cut', () => {
  for (let at = 0; at < REQUEST.length; at++) assert.equal(read(REQUEST.slice(0, at)), null, String(at))
  assert.notEqual(read(REQUEST), null)
})

const with_ = (lines: string) => REQUEST.replace('\r\n\r\n', `\r\n${lines}\r\n\r\n`)
const DOUBTFUL: Record<string, string> = {
  'a folded line': with_('x-a: b\r\n c'),
  'a space before the colon': with_('x-a : b'),
  'a line without a colon': with_('x-a'),
  'a line feed alone': with_('x-a: b\nx-c: d'),
  'a carriage return alone': with_('x-a: b\rx-c: d'),
  'a NUL': with_('x-a: \0'),
  'a character beyond ASCII': with_('x-a: \xe9'),
  'a tab': with_('x-a:\tb'),
  'a name that is none': with_('x(a: b'),
  'a body in chunks': with_('Transfer-Encoding: chunked'),
  'two lengths': with_('Content-Length: 7'),
  'a length that is no number': REQUEST.replace('length: 7', 'length: +7'),
  'a length of several': REQUEST.replace('length: 7', 'length: 7, 7'),
  'no length at all': REQUEST.replace('length: 7', 'length:'),
  'a body longer than any that is taken': REQUEST.replace('length: 7', 'length: 65537'),
  'a condition on the body': with_('Expect: 100-continue'),
  'another protocol': with_('Connection: upgrade\r\nUpgrade: websocket'),
  'a connection that is to end': with_('Connection: close'),
  'two tokens': with_('authorization: Bearer other'),
  'two ids': with_('x-request-id: request-2'),
  'two hosts': with_('host: other'),
  'no host': REQUEST.replace('Host:', 'x-host:'),
  'the version before': REQUEST.replace('HTTP/1.1', 'HTTP/1.0'),
  'a version in small letters': REQUEST.replace('HTTP/1.1', 'http/1.1'),
  'a method in small letters': REQUEST.replace('POST', 'post'),
  'a method of its own': REQUEST.replace('POST', 'PROPFIND'),
  'the method that answers without a body': REQUEST.replace('POST', 'HEAD'),
  'an address with a host': REQUEST.replace('/v1', 'http://localhost/v1'),
  'an empty line before': `\r\n${REQUEST}`,
  'too many fields': with_(Array.from({ length: 64 }, (_, n) => `x-${n}: y`).join('\r\n')),
  'more bytes than a head may have': with_(`x-a: ${'b'.repeat(8_200)}`),
}
for (const [what, text] of Object.entries(DOUBTFUL))
  test(`is for the parser alone: ${what}`, () => assert.equal(read(text), null))

test('what is read is what Node’s parser tells, for 3,000 heads that were tampered with', async (t) => {
  const told: IncomingMessage[] = []
  const server = createServer((request) => void told.push(request))
  const refused: Error[] = []
  server.on('clientError', (error, socket) => {
    // What ends before its body is there: we do, below.
    if (!/EOF/.test((error as NodeJS.ErrnoException).code ?? '')) refused.push(error)
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise((resolve) => server.once('listening', resolve))
  const random = randomOf(7)
  const PIECES = ['\r\n', '\r', '\n', ' ', '\t', ':', ': ', '\0', '\xff', 'a', '1', 'HTTP/1.1', 'content-length: 3\r\n', 'Host: a\r\n', '/', '?', '-', ',', ';', '"', '%00', 'X-Request-Id: b\r\n', 'authorization: c\r\n', 'origin: d\r\n', 'GET / HTTP/1.1\r\n', 'connection: keep-alive\r\n', 'transfer-encoding: chunked\r\n'] // prettier-ignore
  const heads: string[] = []
  for (let made = 0; made < 3_000; made++) {
    let text = with_('connection: keep-alive\r\norigin: e')
    for (let change = 1 + random(2); change > 0; change--) {
      const at = random(text.length)
      text = text.slice(0, at) + PIECES[random(PIECES.length)]! + text.slice(at + random(3))
    }
    heads.push(text)
  }
  const readable = heads.filter((text) => read(text) !== null)
  assert.ok(readable.length > 300, `${readable.length} of them can be read`)
  const { port } = server.address() as AddressInfo
  for (let at = 0; at < readable.length; at += 100) {
    told.length = 0
    const some = readable.slice(at, at + 100)
    const sockets = some.map((text, index) => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      // Its number is behind the path; what it changes is the same for both.
      socket.write(text.slice(0, read(text)!.headBytes).replace(' HTTP/1.1\r\n', `#${index} HTTP/1.1\r\n`), 'latin1')
      return socket
    })
    await until('the parser has them', () => told.length + refused.length === some.length)
    assert.deepEqual(refused, [])
    for (const request of told) {
      const [url, index] = request.url!.split('#') as [string, string]
      const head = read(some[Number(index)]!)!
      assert.deepEqual([head.method, head.url], [request.method, url])
      assert.equal(head.fields * 2, request.rawHeaders.length)
      for (const name of ['authorization', 'idempotency-key', 'x-idempotency-key', 'x-request-id', 'origin'] as const)
        assert.equal(head.headers[name], request.headers[name])
      assert.equal(head.bodyBytes, Number(request.headers['content-length'] ?? 0))
    }
    for (const socket of sockets) socket.destroy()
  }
})
