import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Logger } from '../log.ts'
import { Refusal } from './refusal.ts'
import { listen, type Handlers } from './socket.ts'
import { encodeFrame, frameReader } from '../signer-wire/frames.ts'
import { type AnswerFrame } from '../signer-wire/wire.ts'

/** A socket with handlers that only count. `sign` and `recall` answer when what they put into `held` is called. */
async function world(t: TestContext, { mode = 0o600, inside = '' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-socket-'))
  const path = join(folder, inside, 'signer.sock')
  const calls = { sign: 0, recall: 0, health: 0 }
  const held: (() => void)[] = []
  const handlers: Handlers = {
    greeting: () => ({}),
    prove: () => ({}),
    attest: () => ({}),
    signatures: () => ({}),
    tryPolicy: () => ({}),
    createAccount: () => {
      throw new Refusal('bad_request', 'No.')
    },
    sign: () => {
      calls.sign += 1
      return new Promise<object>((resolve) => held.push(() => resolve({})))
    },
    revocations: () => ({}),
    check: () => ({}),
    signOperation: () => ({}),
    checkOperation: () => ({}),
    signMessage: () => ({}),
    checkMessage: () => ({}),
    signOuter: () => ({}),
    cancelOuter: () => ({}),
    recallSince: () => ({}),
    wrapped: () => ({}),
    askKey: () => ({}),
    cancelKey: () => ({}),
    takeKey: () => ({}),
    keyExport: () => ({}),
    exported: () => ({}),
    heldElsewhere: () => ({}),
    keyExports: () => ({}),
    recall: () => {
      calls.recall += 1
      return new Promise<object>((resolve) => held.push(() => resolve({ raw: 'f'.repeat(500_000) })))
    },
    health: () => (calls.health += 1),
  }
  const lines: unknown[] = []
  const note = (...line: unknown[]) => void lines.push(line)
  const log: Logger = { debug: note, info: note, warn: note, error: note }
  const umask = process.umask(0o077)
  const { close } = await listen({ path, mode, handlers, log })
  process.umask(umask)
  const sockets: Socket[] = []
  const open = () => {
    const socket = connect(path).on('error', () => {})
    sockets.push(socket)
    return socket
  }
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await close()
    rmSync(folder, { recursive: true, force: true })
  })
  const ask = async (socket: Socket, frame: object): Promise<AnswerFrame> => {
    const answered = new Promise<unknown>((resolve) => socket.once('data', frameReader(resolve)))
    socket.write(encodeFrame(frame))
    return (await answered) as AnswerFrame
  }
  return { folder, path, calls, held, lines, open, ask }
}

test('large answers are owed to one connection sixteen at a time, however many it asks for at once', async (t) => {
  const { calls, held, open, ask } = await world(t)
  const socket = open()
  const asked = 200
  const frames = Array.from({ length: asked }, (_, id) => encodeFrame({ id, verb: 'recall', request: {} }))
  socket.write(Buffer.concat(frames))
  let most = 0
  let answered = 0
  const read = frameReader(() => (answered += 1))
  socket.on('data', read)
  const others = open()
  while (answered < asked) {
    // Another connection is served meanwhile, and its answer says that ours was read.
    await ask(others, { id: 1, verb: 'health', request: {} })
    most = Math.max(most, held.length)
    for (const release of held.splice(0)) release()
  }
  assert.equal(most, 16)
  assert.equal(calls.recall, asked)
})

test('a thousand and twenty-four small requests of one connection are under way, and the others wait', async (t) => {
  const { calls, held, open, ask } = await world(t)
  const socket = open()
  const asked = 3_000
  socket.write(Buffer.concat(Array.from({ length: asked }, (_, id) => encodeFrame({ id, verb: 'sign' }))))
  let answered = 0
  const read = frameReader(() => (answered += 1))
  socket.on('data', read)
  const others = open()
  let most = 0
  while (answered < asked) {
    await ask(others, { id: 1, verb: 'health' })
    most = Math.max(most, held.length)
    // Only a full house is released before the rest has come: so much must be reached, and no more.
    if (held.length >= 1_024 || calls.sign > asked - 1_024) for (const release of held.splice(0)) release()
  }
  assert.equal(most, 1_024)
})

test('what a peer calls a verb does not reach the log', async (t) => {
  const { lines, open, ask } = await world(t)
  const socket = open()
  for (const verb of ['eyJhbGciOi.SECRET', '__proto__', 'createAccount']) {
    assert.ok('error' in (await ask(socket, { id: 1, verb, request: {} })))
  }
  assert.deepEqual(
    lines.map((line) => (line as [string, { verb: string }])[1].verb),
    ['unknown', 'unknown', 'createAccount'],
  )
})

test('nesting, poison keys and malformed frames are answered or end their connection, and nothing else', async (t) => {
  const { open, ask } = await world(t)
  const deep = `{"id":1,"verb":"createAccount","request":${'['.repeat(200_000)}${']'.repeat(200_000)}}`
  const poison =
    '{"id":1,"verb":"createAccount","request":{},"__proto__":{"toJSON":1},"constructor":{"prototype":{"x":1}}}'
  for (const text of [deep, poison]) {
    const frame = Buffer.from(`????${text}`)
    frame.writeUInt32BE(text.length)
    const socket = open()
    const answered = new Promise((resolve) => socket.once('data', frameReader(resolve)))
    socket.write(frame)
    assert.deepEqual(await answered, { id: 1, error: { code: 'bad_request', detail: 'No.' } })
  }
  assert.equal(({} as { x?: number }).x, undefined)
  for (const text of ['', '{{', '\xff\xff', 'null', '{}']) {
    const frame = Buffer.from(`????${text}`, 'latin1')
    frame.writeUInt32BE(text.length)
    const socket = open()
    socket.end(frame)
    await once(socket.resume(), 'close')
  }
  assert.ok('answer' in (await ask(open(), { id: 2, verb: 'health' })))
})

test('the socket is its user’s alone, or its group’s too with a folder that the group can reach', async (t) => {
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
  assert.equal(mode((await world(t)).path), '600')
  const shared = await world(t, { mode: 0o660, inside: 'run' })
  assert.equal(mode(shared.path), '660')
  assert.equal(mode(join(shared.folder, 'run')), '750')
  // A folder that was there is the operator's business.
  assert.equal(mode(shared.folder), '700')
  const own = await world(t, { inside: 'run' })
  assert.equal(mode(join(own.folder, 'run')), '700')
})

test('connections beyond the limit are closed, the others are served', async (t) => {
  const { open, ask } = await world(t)
  const sockets = Array.from({ length: 64 }, open)
  for (const socket of sockets) assert.ok('answer' in (await ask(socket, { id: 1, verb: 'health' })))
  const beyond = open()
  await once(beyond.resume(), 'close')
  assert.ok('answer' in (await ask(sockets[0]!, { id: 2, verb: 'health' })))
})

test('what nobody waits for any more is refused unread, and a request that does not say is served', async (t) => {
  const { calls, open, ask } = await world(t)
  const socket = open()
  const late = await ask(socket, { id: 1, verb: 'health', request: {}, expiresAt: Date.now() - 1 })
  assert.deepEqual(late, {
    id: 1,
    error: { code: 'overloaded', detail: 'The request reached the signer too late. Nothing was signed. Retry.' },
  })
  assert.equal(calls.health, 0)
  assert.deepEqual(await ask(socket, { id: 2, verb: 'health', request: {}, expiresAt: Date.now() + 60_000 }), {
    id: 2,
    answer: 1,
  })
  assert.deepEqual(await ask(socket, { id: 3, verb: 'health', request: {} }), { id: 3, answer: 2 })
})
