import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RpcTooLarge } from './failures.ts'
import { BadHttp, newHttpReader, type HttpAnswer } from './http-reader.ts'

const answers: [what: string, text: string, expected: { status: number; body: string; isReusable: boolean }][] = [
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', { status: 200, body: 'hello', isReusable: true }],
  ['no body', 'HTTP/1.1 204 No Content\r\nX: y\r\n\r\n', { status: 204, body: '', isReusable: true }],
  ['an empty body', 'HTTP/1.1 500 \r\ncontent-length:0\r\n\r\n', { status: 500, body: '', isReusable: true }],
  [
    'chunks with extensions and trailers',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nX: y\r\n\r\n',
    { status: 200, body: 'hello', isReusable: true },
  ],
  [
    'no chunk',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    { status: 200, body: '', isReusable: true },
  ],
  [
    'a closing node',
    'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
    { status: 200, body: 'ok', isReusable: false },
  ],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', { status: 200, body: 'ok', isReusable: false }],
  [
    'an interim answer first',
    'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    { status: 200, body: 'ok', isReusable: true },
  ],
]
for (const [what, text, expected] of answers) {
  test(`an answer with ${what} is read whole, in whatever two pieces or single bytes it comes`, () => {
    const bytes = Buffer.from(text, 'latin1')
    for (let cut = 1; cut < bytes.length; cut++)
      assert.deepEqual(read([bytes.subarray(0, cut), bytes.subarray(cut)]), expected)
    assert.deepEqual(read([...bytes].map((byte) => Buffer.of(byte))), expected)
  })
}

test('without a length the body lasts until the end of the connection, with one it must be there', () => {
  const open = newHttpReader(100)
  assert.equal(open.take(Buffer.from('HTTP/1.1 200 OK\r\n\r\nhel')), null)
  assert.equal(open.take(Buffer.from('lo')), null)
  assert.equal(open.finish()!.body.toString(), 'hello')
  for (const text of [
    'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n',
    'HTTP/1.1 2',
  ]) {
    const cut = newHttpReader(100)
    assert.equal(cut.take(Buffer.from(text)), null)
    assert.equal(cut.finish(), null)
  }
})

test('bytes behind an answer end the connection', () => {
  assert.equal(read([Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK')])!.isReusable, false)
})

test('a body longer than asked for is refused, before it is held', () => {
  const texts = [
    'HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n',
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n${'a'.repeat(101)}`,
    `HTTP/1.1 200 OK\r\n\r\n${'a'.repeat(101)}`,
  ]
  for (const text of texts) assert.throws(() => newHttpReader(100).take(Buffer.from(text)), RpcTooLarge)
})

test('a body of millions of single bytes is given up before it fills the memory', () => {
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const reader = newHttpReader(24_000_000)
  reader.take(Buffer.from(chunked))
  const crumbs = Buffer.from('1\r\nx\r\n'.repeat(1_000))
  assert.throws(() => {
    for (let round = 0; round < 20; round++) reader.take(crumbs)
  }, BadHttp)
  const piece = `800\r\n${'a'.repeat(2_048)}\r\n`
  const large = newHttpReader(24_000_000)
  large.take(Buffer.from(chunked))
  for (let round = 0; round < 11_000; round++) large.take(Buffer.from(piece))
  assert.equal(large.take(Buffer.from('0\r\n\r\n'))!.body.length, 11_000 * 2_048)
})

test('what is no HTTP/1.1 is refused', () => {
  const texts = [
    'SSH-2.0-OpenSSH_9.6\r\n\r\n',
    'HTTP/2 200\r\n\r\n',
    'HTTP/1.1 999 Odd\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokay\r\n',
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1'.repeat(2_000)}`,
    `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}`,
  ]
  for (const text of texts)
    assert.throws(() => newHttpReader(100_000).take(Buffer.from(text)), BadHttp, text.slice(0, 80))
})

function read(pieces: Buffer[]): { status: number; body: string; isReusable: boolean } | null {
  const reader = newHttpReader(1_000)
  let answer: HttpAnswer | null = null
  for (const piece of pieces) {
    assert.equal(answer, null, 'it was whole before its end')
    answer = reader.take(piece)
  }
  return answer === null ? null : { ...(answer as HttpAnswer), body: (answer as HttpAnswer).body.toString() }
}
