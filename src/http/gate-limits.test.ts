import assert from 'node:assert/strict'
import { request as ask } from 'node:http'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { fakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { audienceOf, issuerOf } from '../app.ts'
import { verifyAccessToken } from './bearer.ts'
import { openGate } from './gate.ts'
import { openListener } from './listener.ts'
import { runningClock } from '../../test/kit/clock.ts'

/** What the gate tells its limits: whose a request is, how long it took, what the process suffers from. */
async function stand(t: TestContext, most: number) {
  const here = await fakeApp({ MAX_IN_FLIGHT: String(most) })
  const waits = { pool: 0 }
  const clock = runningClock()
  // Asked at each look.
  let looks = 0
  const app = { ...here.app, clock, poolWaitMs: () => (looks++, waits.pool) }
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  app.tokenKeys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }] }
  const server = openListener(app)
  openGate(server, app).refuseBehindCors()
  const { promise: gone, resolve: free } = Promise.withResolvers<void>()
  let held = 0
  const hold = async () => {
    held++
    await gone
    return {}
  }
  server.get('/hang', hold)
  server.get('/v1/read', { config: { admission: 'read' } }, hold)
  server.post('/v1/late', { config: { admission: 'read' } }, hold)
  server.get('/v1/quick', { config: { admission: 'read' } }, () => ({}))
  server.get('/v1/wrong', { config: { admission: 'read' } }, (_request, reply) => reply.code(400).send({}))
  const origin = await server.listen({ port: 0, host: '127.0.0.1' })
  t.after(async () => {
    free()
    await server.close()
    await here.close()
  })
  /** @returns its status; of what is let in only that it is */
  const get = (path: string, { token, from = '127.0.0.1' }: { token?: string; from?: string } = {}) =>
    new Promise<number | 'held'>((resolve, reject) => {
      const before = held
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const asked = ask(`${origin}${path}`, { headers, localAddress: from, agent: false }, (answer) => {
        answer.resume()
        resolve(answer.statusCode!)
      })
      asked.once('error', reject)
      asked.end()
      until('it is held', () => held > before, 2_000).then(
        () => resolve('held'),
        () => {},
      )
    })
  const tokenOf = async (name: string, id: string) => {
    const token = await new SignJWT({ client_id: 'shop', chain_id: 31_337, gid: 'grant' })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })
      .setIssuer(issuerOf(app))
      .setAudience(audienceOf(app.origin))
      .setSubject(`DEV-${name}`)
      .setJti(id)
      .setExpirationTime('1h')
      .sign(privateKey)
    await verifyAccessToken(app, token)
    return token
  }
  const limitOf = async (of: string): Promise<number> => {
    const { values } = await app.telemetry.admissionLimit.get()
    return values.find(({ labels }) => labels.of === of)?.value ?? 0
  }
  const inFlight = async (): Promise<number> => {
    const { values } = await app.telemetry.inFlight.get()
    return values.find(({ labels }) => labels.of === 'reads')?.value ?? 0
  }
  return {
    ...here,
    inFlight,
    origin,
    server,
    get,
    tokenOf,
    limitOf,
    free,
    waits,
    clock,
    looks: () => looks,
    count: () => held,
  }
}

test('all tokens of a person are one person, and another of the same application finds room', async (t) => {
  const { get, tokenOf, account } = await stand(t, 16)
  await account('alice')
  await account('bob')
  const [first, second] = [await tokenOf('alice', 'one'), await tokenOf('alice', 'two')]
  for (let n = 0; n < 13; n++) assert.equal(await get('/v1/read', { token: first }), 'held')
  assert.equal(await get('/v1/read', { token: first }), 503)
  assert.equal(await get('/v1/read', { token: second }), 503)
  assert.equal(await get('/v1/read', { token: await tokenOf('bob', 'three') }), 'held')
})

test('without a known token a person is an address: one that takes everything leaves room for another', async (t) => {
  const { get } = await stand(t, 16)
  for (let n = 0; n < 16; n++) assert.equal(await get('/hang'), 'held')
  assert.equal(await get('/hang'), 503)
  assert.equal(await get('/hang', { from: '127.0.0.2' }), 'held')
})

test('a wait for the database’s connections lowers the limit of all', async (t) => {
  const { server, limitOf, waits, count } = await stand(t, 4_096)
  const hanging = Array.from({ length: 300 }, () => server.inject('/hang'))
  await until('they are in flight', () => count() === hanging.length)
  await until('there is a limit', async () => (await limitOf('all')) >= 1_024)
  waits.pool = 150
  await until('it is lower', async () => (await limitOf('all')) < 1_024)
})

test('what is refused with 4xx does not make slow reads look quick', async (t) => {
  const { server, clock, limitOf, free, count } = await stand(t, 4_096)
  await server.inject('/v1/quick')
  const slow = Array.from({ length: 200 }, () => server.inject('/v1/read'))
  await until('they are in flight', () => count() === slow.length)
  await until('they were looked at', async () => (await limitOf('reads')) >= 512)
  // They take as long as they took until here.
  await clock.advance(400)
  const wrong = Array.from({ length: 250 }, () => server.inject('/v1/wrong'))
  free()
  await Promise.all([...slow, ...wrong])
  await until('fewer are let in', async () => (await limitOf('reads')) < 512, 3_000)
})

test('a body that came late does not make its read look slow', async (t) => {
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  const { server, origin, clock, looks, limitOf, free, count, inFlight } = await stand(t, 4_096)
  await server.inject('/v1/quick')
  let answered = 0
  const head =
    'POST /v1/late HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n'
  for (let n = 0; n < 200; n++) {
    const socket = connect(Number(new URL(origin).port), '127.0.0.1')
    socket.on('error', () => {})
    socket.once('data', () => answered++)
    socket.write(head)
    sockets.push(socket)
  }
  await until('they are there', async () => (await inFlight()) > 0)
  await until('they gave their places to others', async () => (await inFlight()) === 0)
  await clock.advance(1_000)
  for (const socket of sockets) socket.write('{}')
  // At once: what they are held here is time that they take, and the gate tells only now and then how many there are.
  await until('all are served', () => count() === sockets.length)
  free()
  await until('all are answered', () => answered === sockets.length)
  // The gate has looked at them since.
  const before = looks()
  await until('the gate has looked at them since', () => looks() >= before + 2)
  assert.deepEqual([await inFlight(), await limitOf('reads')], [0, 512])
})
