import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { underDeadline } from '../deadline.ts'
import { AppError } from '../errors.ts'
import { connectSigner, SignerRefused } from './client.ts'
import { encodeFrame, frameReader } from './frames.ts'
import { WIRE_VERSION } from './wire.ts'

type Received = { id: number; verb: string; request: { userId?: string } }

/** A signer that misbehaves as told: `answer` sees every request with its connection, and greetings where it is to. */
async function world(
  t: TestContext,
  answer: (request: Received, socket: Socket) => void,
  { hearsGreetings = false, timeoutMs = 60_000 }: { hearsGreetings?: boolean; timeoutMs?: number } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-client-'))
  const path = join(folder, 's')
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    const read = frameReader((message) => {
      const request = message as Received
      if (hearsGreetings || request.verb !== 'greeting') answer(request, socket)
    })
    socket.on('data', read).on('error', () => {})
  }).listen(path)
  await once(server, 'listening')
  const signer = connectSigner({ path, timeoutMs })
  t.after(() => {
    signer.close()
    for (const socket of sockets) socket.destroy()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { signer, sockets, path }
}

const isUnavailable = (error: unknown) => error instanceof AppError && error.code === 'signer_unavailable'
const health = { ok: true, accounts: 0, ledgerEntries: 0 }

test('answers in any order find their calls, on one connection', async (t) => {
  const held: Received[] = []
  const { signer, sockets } = await world(t, (request, socket) => {
    held.push(request)
    if (held.length < 3) return
    for (const { id, request: { userId: of } } of held.toReversed()) socket.write(encodeFrame({ id, answer: { of } })) // prettier-ignore
  })
  const calls = ['X-1', 'X-2', 'X-3'].map((userId) => signer.createAccount({ userId }))
  assert.deepEqual(
    await Promise.all(calls),
    ['X-1', 'X-2', 'X-3'].map((of) => ({ of })),
  )
  assert.equal(sockets.length, 1)
})

test('a call that is not answered in time fails as unknown, and its late answer disturbs nothing', async (t) => {
  let late: Received | undefined
  const answer = (request: Received, socket: Socket) => {
    const { id } = request
    if (late === undefined) return void (late = request)
    socket.write(Buffer.concat([encodeFrame({ id: late.id, answer: 'late' }), encodeFrame({ id, answer: health })]))
  }
  const { signer } = await world(t, answer, { timeoutMs: 1_000 })
  await assert.rejects(signer.health(), isUnavailable)
  assert.deepEqual(await signer.health(), health)
})

test('a lost connection fails the calls under way, and the next call connects again', async (t) => {
  let requests = 0
  const { signer, sockets } = await world(t, ({ id }, socket) => {
    requests += 1
    if (requests <= 2) socket.destroy()
    else socket.write(encodeFrame({ id, answer: health }))
  })
  const lost = await Promise.allSettled([signer.health(), signer.health()])
  for (const call of lost) assert.ok(call.status === 'rejected' && isUnavailable(call.reason))
  requests = 2
  assert.deepEqual(await signer.health(), health)
  assert.equal(sockets.length, 2)
})

test('bytes that are no frames are a lost connection', async (t) => {
  const { signer } = await world(t, (_, socket) => socket.write(Buffer.alloc(4, 0xff)))
  await assert.rejects(signer.health(), isUnavailable)
})

test('no signer at the path is unavailable, and found once it is there', async (t) => {
  const { path } = await world(t, () => {})
  const signer = connectSigner({ path: `${path}2` })
  await assert.rejects(signer.health(), isUnavailable)
  const server = createServer((socket) => {
    socket.on(
      'data',
      frameReader((message) => socket.write(encodeFrame({ id: (message as Received).id, answer: health }))),
    )
  }).listen(`${path}2`)
  await once(server, 'listening')
  assert.deepEqual(await signer.health(), health)
  signer.close()
  server.close()
})

test('refusals of the catalogue are AppErrors, the signer’s own are SignerRefused', async (t) => {
  const { signer } = await world(t, ({ id, verb }, socket) => {
    const code = verb === 'health' ? 'policy_denied' : 'nonce_conflict'
    socket.write(encodeFrame({ id, error: { code, detail: 'Said so.' } }))
  })
  await assert.rejects(
    signer.health(),
    (error: AppError) => error.code === 'policy_denied' && error.message === 'Said so.',
  )
  const own = signer.recall({ intentId: 'x' })
  await assert.rejects(own, (error: Error) => error instanceof SignerRefused && error.code === 'nonce_conflict')
})

test('the head that comes with a refusal is not the newest: it follows the one that was shown, or not', async (t) => {
  const { signer } = await world(
    t,
    ({ id, verb }, socket) => {
      if (verb === 'health') return socket.write(encodeFrame({ id, answer: health, head: 'of an answer' }))
      if (verb === 'greeting') return socket.write(encodeFrame({ id, error: { code: 'ledger_damaged', detail: 'Older.' }, head: 'of a greeting' })) // prettier-ignore
      return socket.write(encodeFrame({ id, error: { code: 'nonce_conflict', detail: 'Said so.' }, head: 'of a refusal' })) // prettier-ignore
    },
    { hearsGreetings: true },
  )
  await assert.rejects(signer.recall({ intentId: 'x' }), SignerRefused)
  assert.equal(signer.head(), null)
  await signer.health()
  assert.equal(signer.head(), 'of an answer')
  await assert.rejects(signer.recall({ intentId: 'x' }), SignerRefused)
  await assert.rejects(signer.identity(), { code: 'ledger_damaged' })
  assert.equal(signer.head(), 'of an answer')
})

test('a connection begins with a greeting: which wire the server speaks, and the newest head that it knows', async (t) => {
  const asked: unknown[] = []
  const take = ({ id, verb, request }: Received, socket: Socket) => {
    asked.push([verb, request])
    socket.write(encodeFrame({ id, answer: health }))
  }
  const { signer, path } = await world(t, take, { hearsGreetings: true })
  await signer.health()
  const another = connectSigner({ path })
  t.after(() => another.close())
  another.rememberHead('kept')
  await another.health()
  const greeting = (head: string | null) => ['greeting', { wire: WIRE_VERSION, head }]
  assert.deepEqual(asked, [greeting(null), ['health', {}], greeting('kept'), ['health', {}]])
})

test('a request too large to send is refused here, and the connection lives on', async (t) => {
  const { signer, sockets } = await world(t, ({ id }, socket) => socket.write(encodeFrame({ id, answer: health })))
  await signer.health()
  const huge = signer.createAccount({ userId: 'x'.repeat(600_000) })
  await assert.rejects(huge, (error: SignerRefused) => error.code === 'bad_request')
  await signer.health()
  assert.equal(sockets.length, 1)
})

test('a signer that does not read is given 16 MiB, then calls fail at once', async (t) => {
  const { signer, sockets } = await world(t, () => {}, { timeoutMs: 1_000 })
  await assert.rejects(signer.health(), isUnavailable)
  sockets[0]!.pause()
  const userId = 'x'.repeat(500_000)
  const calls = Array.from({ length: 60 }, () => signer.createAccount({ userId }))
  const ends = await Promise.allSettled(calls)
  const reasons = ends.map((end) => (end.status === 'rejected' && isUnavailable(end.reason) ? end.reason.message : ''))
  const atOnce = reasons.filter((reason) => reason.includes('does not read')).length
  assert.ok(atOnce > 15 && atOnce < 30, `${atOnce} of 60`)
  assert.equal(reasons.filter((reason) => reason.includes('in time')).length, 60 - atOnce)
})

test('closed means closed', async (t) => {
  const { signer } = await world(t, () => {})
  const underWay = signer.health()
  signer.close()
  await assert.rejects(underWay, isUnavailable)
  await assert.rejects(signer.health(), isUnavailable)
})

test('a request says until when it is waited for: its time-out, whoever asked', async (t) => {
  const seen: number[] = []
  const { signer } = await world(t, (request, socket) => {
    seen.push((request as Received & { expiresAt: number }).expiresAt - Date.now())
    socket.write(encodeFrame({ id: request.id, answer: health }))
  })
  await signer.health()
  // What has a nonce is finished, also when its client waits no more.
  await underDeadline(performance.now() - 1_000, () => signer.recall({ intentId: 'tx' }))
  assert.ok(
    seen.every((ms) => ms > 30_000 && ms <= 60_000),
    String(seen),
  )
})
