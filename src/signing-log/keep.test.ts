import assert from 'node:assert/strict'
import { generateKeyPairSync, sign } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import Fastify from 'fastify'
import { fakeApp } from '../../test/fake-app.ts'
import { until } from '../../test/kit/until.ts'
import { AppError } from '../errors.ts'
import { signNote, verifierKeyOf } from '../signer/ledger/heads.ts'
import { originOf } from '../signer-wire/verifier.ts'
import { forgetHead, keepHead, readKeptHead, recallHead, startHeadKeeper } from './keep.ts'
import { signingLog } from './publish.ts'

function identity() {
  const { privateKey, publicKey: object } = generateKeyPairSync('ed25519')
  const publicKey = object.export({ format: 'der', type: 'spki' }).subarray(12)
  return {
    ...{ publicKey, origin: originOf(publicKey), isNew: false, isSigned: () => true },
    sign: (text: string) => sign(null, Buffer.from(text, 'utf8'), privateKey),
  }
}

const mine = identity()
const note = (size: number, at: number, by = mine) => signNote({ size, root: Buffer.alloc(32, size), at }, by)

async function world(t: TestContext) {
  const fake = await fakeApp()
  t.after(() => fake.close())
  const { app, signer, told } = fake
  const kept = async () => (await app.db.selectFrom('signing_log_head').select('note').executeTakeFirst())?.note ?? null
  return { app, signer, told, kept }
}

test('the newest head by its time is kept, whichever process writes last, and is told to the signer at a start', async (t) => {
  const { app, signer, told: logged, kept } = await world(t)
  let told: string | null = null
  signer.rememberHead = (head) => {
    told = head
  }
  await recallHead(app)
  assert.equal(told, null)
  await keepHead(app, note(5, 2_000))
  await keepHead(app, note(4, 1_000))
  assert.equal(await kept(), note(5, 2_000))
  await keepHead(app, 'no head')
  // Fewer records and a later time: an operator accepted an older store.
  await keepHead(app, note(3, 3_000))
  assert.equal(await kept(), note(3, 3_000))
  await recallHead(app)
  assert.equal(told, note(3, 3_000))
  assert.deepEqual(logged('signer_identity_changed'), [])
})

test('a signer with another identity is noticed, and its heads are kept when an operator has forgotten the other', async (t) => {
  const { app, told, kept } = await world(t)
  const other = identity()
  await keepHead(app, note(5, 2_000))
  await keepHead(app, note(6, 3_000, other))
  assert.equal(await kept(), note(5, 2_000))
  assert.deepEqual(await readKeptHead(app.db), { origin: mine.origin, size: 5, at: '1970-01-01T00:00:02.000Z', note: note(5, 2_000) }) // prettier-ignore
  await assert.rejects(forgetHead(app.db, other.origin), { code: 'not_found' })
  await forgetHead(app.db, mine.origin)
  assert.equal(await readKeptHead(app.db), null)
  await keepHead(app, note(1, 1_000, other))
  assert.equal(await kept(), note(1, 1_000, other))
  assert.deepEqual(
    told('signer_identity_changed').map(({ level, event, fields }) => [level, event, fields]),
    [['error', 'signer_identity_changed', { before: mine.origin, now: other.origin }]],
  )
})

test('the keeper writes what the connection learned, also at its end', async (t) => {
  const { app, signer, kept } = await world(t)
  let head: string | null = null
  signer.head = () => head
  const keeper = startHeadKeeper(app)
  head = note(1, 1_000)
  await until('the head is kept', async () => (await kept()) === note(1, 1_000))
  head = note(2, 2_000)
  await keeper.stop()
  assert.equal(await kept(), note(2, 2_000))
})

test('the newest head is published with the key it is checked by; without one it says that there is none', async (t) => {
  const { app, signer } = await world(t)
  let asked = 0
  let head: string | null = null
  signer.head = () => head
  signer.health = () => Promise.reject(new AppError('signer_unavailable', 'away'))
  const server = Fastify()
  t.after(() => server.close())
  server.setErrorHandler((error, _request, reply) => reply.code(503).send({ code: (error as AppError).code }))
  signingLog(server, app)
  const get = () => server.inject('/.well-known/chatelaine-signing-log')
  const away = await get()
  assert.deepEqual([away.statusCode, away.json()], [503, { code: 'signer_unavailable' }])

  signer.health = async () => {
    asked += 1
    head = note(7, 7_000)
    return { identity: verifierKeyOf(mine) } as Awaited<ReturnType<NonNullable<typeof signer.health>>>
  }
  const [first, second] = await Promise.all([get(), get()])
  const expected = {
    ...{ origin: mine.origin, key: verifierKeyOf(mine), size: 7, root: Buffer.alloc(32, 7).toString('base64') },
    ...{ at: '1970-01-01T00:00:07.000Z', note: note(7, 7_000) },
  }
  assert.deepEqual([first.json(), second.json(), asked], [expected, expected, 1])
  assert.equal(first.headers['cache-control'], 'public, max-age=10')
  head = note(8, 8_000)
  assert.equal((await get()).json().size, 8)
  assert.equal(asked, 1)
})
