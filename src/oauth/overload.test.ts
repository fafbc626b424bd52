import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { rehearse } from '../../test/rehearsal.ts'
import { until } from '../../test/kit/until.ts'
import { world } from '../../test/world.ts'

test('bodies that do not come to the token endpoints hold nobody’s place, and are answered once they are there', async (t) => {
  const here = await world({ MAX_IN_FLIGHT: '16' })
  const { port } = new URL(here.facts.origin)
  const sockets: Socket[] = []
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await here.close()
  })
  const inFlight = async (): Promise<number> => {
    const { values } = await here.app.telemetry.inFlight.get()
    return values.reduce((sum, { value }) => sum + value, 0)
  }
  const form = 'grant_type=authorization_code&client_id=demo&code=none&token=none'
  const ask = (path: string, length: string): Socket => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    const type = 'content-type: application/x-www-form-urlencoded'
    socket.write(`POST ${path} HTTP/1.1\r\nhost: localhost:${port}\r\n${type}\r\n${length}\r\n\r\n`)
    sockets.push(socket)
    return socket
  }
  const paths = ['/oauth/token', '/oauth/token/revocation', '/oauth/token/introspection', '/oauth/session/end/confirm']
  for (let n = 0; n < 32; n++) ask(paths[n % paths.length]!, `content-length: ${form.length}`)
  const chunked = ask('/oauth/token', 'transfer-encoding: chunked')
  assert.equal((await here.alice.get('/v1/me')).status, 200)
  // There is room for four.
  for (let n = 0; n < 8; n++) assert.equal((await here.request('/oauth/jwks')).status, 200)

  const answerOf = async (socket: Socket, bytes: string): Promise<string> => {
    socket.write(bytes)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    return answer.toString()
  }
  assert.match(await answerOf(sockets[0]!, form), /^HTTP\/1\.1 400 [^]*"error":"invalid_(grant|request)"/)
  assert.match(await answerOf(sockets[1]!, form), /^HTTP\/1\.1 200 /)
  const size = form.length.toString(16)
  assert.match(await answerOf(chunked, `${size}\r\n${form}\r\n0\r\n\r\n`), /^HTTP\/1\.1 400 [^]*"error":"invalid_(grant|request)"/) // prettier-ignore
  for (const socket of sockets) socket.destroy()
  await until('nothing is left behind', async () => (await inFlight()) === 0)
})

test('a body that the library takes for too large is refused in its own shape, and one without any too', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const post = (body?: string) =>
    here.request('/oauth/token', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      ...(body === undefined ? {} : { body }),
    })
  for (const body of [`grant_type=${'x'.repeat(57_344)}`, `grant_type=${'x'.repeat(200_000)}`, undefined]) {
    const answer = await post(body)
    assert.deepEqual([answer.status, answer.body.error], [400, 'invalid_request'])
  }
})

test('a body that breaks off at the token endpoint is no mistake of ours: nothing is logged', async (t) => {
  const here = await rehearse()
  t.after(() => here.close())
  const { port } = new URL(here.base)
  const refused = async () => {
    const { values } = await here.app.telemetry.refusals.get()
    return values.find(({ labels }) => labels.code === 'invalid_request')?.value ?? 0
  }
  const socket = connect(Number(port), 'localhost')
  await once(socket, 'connect')
  socket.write(`POST /oauth/token HTTP/1.1\r\nhost: localhost:${port}\r\ncontent-length: 9\r\n\r\ng`)
  socket.destroy()
  await until('it is over', async () => (await refused()) === 1)
  assert.deepEqual(here.logged, [])
})
