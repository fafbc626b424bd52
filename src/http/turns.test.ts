import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { until } from '../../test/kit/until.ts'
import { openTurns } from './turns.ts'

/** A server that answers when it is told to. */
async function stand(t: TestContext) {
  const begun: { url: string; response: ServerResponse }[] = []
  const inTurn = openTurns()
  const server = createServer((request, response) =>
    inTurn(request, response, () => void begun.push({ url: request.url!, response })),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const client = (paths: string[]) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(''))
    sockets.push(socket)
    return socket
  }
  return { begun, client }
}
const paths = (count: number) => Array.from({ length: count }, (_, n) => `/${n}`)

test('requests that come together on one connection are begun one after another, each once the answer before has left', async (t) => {
  const { begun, client } = await stand(t)
  const socket = client(paths(17))
  let read = ''
  socket.on('data', (bytes) => (read += bytes))
  for (let n = 0; n < 17; n++) {
    await until('the next has begun', () => begun.length === n + 1)
    begun[n]!.response.end(`answer ${n}.`)
  }
  await until('all are answered', () => read.includes('answer 16.'))
  assert.deepEqual(
    begun.map(({ url }) => url),
    paths(17),
  )
  assert.deepEqual([...read.matchAll(/answer (\d+)\./g)].map(([, n]) => `/${n}`), paths(17)) // prettier-ignore
  // The connection is as it was.
  socket.write('GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await until('it is begun', () => begun.at(-1)!.url === '/late')
})

test('nothing of a connection is begun after it ended, and one on which too many come together ends', async (t) => {
  const { begun, client } = await stand(t)
  const left = client(paths(3))
  await until('the first has begun', () => begun.length === 1)
  left.destroy()
  await once(begun[0]!.response, 'close')
  begun[0]!.response.end()
  const many = client(paths(18))
  await once(many, 'close')
  assert.deepEqual(
    begun.map(({ url }) => url),
    ['/0', '/0'],
  )
})
