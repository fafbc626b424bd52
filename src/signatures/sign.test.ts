import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { verifyMessage, verifyTypedData } from 'viem/utils'
import { createSiweMessage, parseSiweMessage } from 'viem/siwe'
import { BAD_REFERENCES } from '../../test/bad-references.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { checksumAddress } from '../digits.ts'
import { saveApplication } from '../applications/registry.ts'
import { decide } from '../approvals/decide.ts'
import { AppError } from '../errors.ts'
import { approvalDigest } from '../signer-wire/approval.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { deleteUnsigned } from './sweep.ts'

let world: Writing
let alice: Writer
before(async () => {
  world = await writing()
  alice = await world.writer('alice')
})
after(() => world.close())

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Answer = { status: number; headers: Record<string, unknown>; body: any }
type Options = { as?: Pick<Writer, 'token'>; key?: string; headers?: Record<string, string> }

async function post(path: string, body: unknown, { as = alice, key, headers = {} }: Options = {}): Promise<Answer> {
  const answer = await world.first.server.inject({
    method: 'POST',
    url: path,
    headers: {
      authorization: `Bearer ${as.token}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...headers,
    },
    payload: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}

async function get(path: string, as: Pick<Writer, 'token'> = alice): Promise<Answer> {
  const headers = { authorization: `Bearer ${as.token}` }
  const answer = await world.first.server.inject({ method: 'GET', url: path, headers })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}

const MESSAGE = '/v1/signatures/message'
const TYPED_DATA = '/v1/signatures/typed-data'

function login(who: Writer, changes: Partial<Parameters<typeof createSiweMessage>[0]> = {}): string {
  return createSiweMessage({
    address: checksumAddress(who.address),
    chainId: 31_337,
    domain: 'shop.example',
    uri: 'https://shop.example/login',
    nonce: '8f0c7e1e2f1b8c55',
    version: '1',
    issuedAt: new Date(),
    ...changes,
  })
}

const TOKEN = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
const SPENDER = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

/** A permit as wallets get it; `domain` and `message` change a part. */
const permit = (who: Writer, { domain = {}, message = {} }: { domain?: object; message?: object } = {}) =>
  ({
    types: {
      Permit: [
        { name: 'owner', type: 'address' },
        { name: 'spender', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'nonce', type: 'uint256' },
        { name: 'deadline', type: 'uint256' },
      ],
    },
    primaryType: 'Permit',
    domain: { name: 'USDC', version: '2', chainId: 31_337, verifyingContract: TOKEN, ...domain },
    message: {
      owner: who.address,
      spender: SPENDER,
      value: '1500000',
      nonce: '0',
      deadline: String(Math.floor(Date.now() / 1_000) + 3_600),
      ...message,
    },
  }) as const

const rows = async () => (await world.db.selectFrom('signatures').select('id').execute()).length
const questions = async () => (await world.db.selectFrom('approvals').select('id').execute()).length

/** Decides a question, as the authorization server does. */
async function answer(id: string, decision: 'approved' | 'denied', who = alice): Promise<boolean> {
  const row = await world.db
    .selectFrom('approvals as question')
    .innerJoin('signatures as asked', 'asked.id', 'question.intent_id')
    .select(['question.intent_id', 'asked.hash'])
    .where('question.id', '=', id)
    .executeTakeFirstOrThrow()
  const { accountId, address, userId } = who
  if (decision === 'denied') return decide(world.first.app, { id, accountId, decision, token: null })
  const content = { message: `0x${Buffer.from(row.hash).toString('hex')}` } as const
  const token = await world.place.approval(userId, {
    client_id: 'demo',
    chain_id: 31_337,
    intent: row.intent_id,
    digest: approvalDigest({ chainId: 31_337, from: address, content }),
  })
  return decide(world.first.app, { id, accountId, decision, token })
}

test('a sign-in to a host of the application is signed at once, and viem verifies it', async () => {
  const message = login(alice)
  const { status, body } = await post(MESSAGE, { message }, { key: 'login' })
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(Object.keys(body), ['id', 'signature', 'hash', 'class', 'rule', 'createdAt', 'reference'])
  assert.match(body.id, /^sig_[0-9a-f-]{36}$/)
  assert.equal(body.class, 'login')
  assert.ok(await verifyMessage({ address: alice.address, message, signature: body.signature }))
  assert.equal(parseSiweMessage(message).domain, 'shop.example')
  // As bytes it is the same message, of another kind.
  const hex = `0x${Buffer.from(message).toString('hex')}`
  const asBytes = await post(MESSAGE, { hex })
  assert.deepEqual([asBytes.status, asBytes.body.signature], [200, body.signature])
})

test('a permit is signed as viem hashes it, as an object or as text, and the two are one request', async () => {
  const typedData = permit(alice)
  const first = await post(TYPED_DATA, { typedData }, { key: 'permit' })
  assert.equal(first.status, 200, JSON.stringify(first.body))
  assert.equal(first.body.class, 'allowance')
  const { message: given, ...rest } = typedData
  const message = { ...given, value: 1_500_000n, nonce: 0n, deadline: BigInt(given.deadline) }
  assert.ok(await verifyTypedData({ ...rest, message, address: alice.address, signature: first.body.signature }))
  const again = await post(TYPED_DATA, { typedData: JSON.stringify(typedData) }, { key: 'permit' })
  assert.deepEqual([again.body, again.headers['idempotent-replayed']], [first.body, 'true'])
})

test('a key stands for one message of one user on one route, however often and in whichever header it is sent', async () => {
  const message = login(alice, { statement: 'keys' })
  const first = await post(MESSAGE, { message }, { key: 'k' })
  assert.equal(first.headers['idempotent-replayed'], undefined)
  const before = await rows()
  const again = await post(MESSAGE, { message }, { headers: { 'x-idempotency-key': 'k' } })
  assert.deepEqual([again.status, again.body, again.headers['idempotent-replayed']], [200, first.body, 'true'])
  for (const other of [
    { message: login(alice, { statement: 'other' }) },
    { hex: `0x${Buffer.from(message).toString('hex')}` },
  ]) {
    const { status, body } = await post(MESSAGE, other, { key: 'k' })
    assert.deepEqual([status, body.code], [422, 'idempotency_key_reused'])
  }
  assert.equal(await rows(), before)
  const typed = await post(TYPED_DATA, { typedData: permit(alice) }, { key: 'k' })
  const bob = await world.writer('bob')
  const bobs = await post(TYPED_DATA, { typedData: permit(bob) }, { key: 'k', as: bob })
  const [one, two] = [await post(MESSAGE, { message }), await post(MESSAGE, { message })]
  const ids = [first, typed, bobs, one, two].map(({ body }) => body.id as string)
  assert.equal(new Set(ids).size, 5, JSON.stringify(ids))
  for (const key of ['', 'ä', 'a'.repeat(256)])
    assert.equal((await post(MESSAGE, { message }, { key })).body.code, 'idempotency_key_invalid', key)
})

test('ten parallel requests with one key make one signature', async () => {
  const message = login(alice, { statement: 'parallel' })
  const before = await rows()
  const answers = await Promise.all(Array.from({ length: 10 }, () => post(MESSAGE, { message }, { key: 'parallel' })))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  assert.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
  assert.equal(await rows(), before + 1)
})

test('a request that ended between the signer and the database gets its signature from the ledger, also when the row is lost', async () => {
  const { app } = world.first
  const message = login(alice, { statement: 'killed' })
  const { signer } = app
  let signed = ''
  app.signer = {
    ...signer,
    signMessage: async (request) => {
      signed = (await signer.signMessage(request)).signature
      throw new AppError('signer_unavailable', 'The process ended.')
    },
  }
  try {
    assert.equal((await post(MESSAGE, { message }, { key: 'killed' })).status, 503)
  } finally {
    app.signer = signer
  }
  const repeated = await post(MESSAGE, { message }, { key: 'killed' })
  assert.deepEqual([repeated.status, repeated.body.signature], [200, signed])
  await world.db.deleteFrom('signatures').where('id', '=', repeated.body.id).execute()
  const other = await post(MESSAGE, { message: login(alice, { statement: 'not this' }) }, { key: 'killed' })
  assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'])
  await world.db.deleteFrom('signatures').where('id', '=', repeated.body.id).execute()
  const restored = await post(MESSAGE, { message }, { key: 'killed' })
  assert.deepEqual([restored.body.id, restored.body.signature], [repeated.body.id, signed])
})

test('a text asks the user once, and is signed once after the approval', async () => {
  const ask = (key: string | undefined) => post(MESSAGE, { message: 'Hello' }, key === undefined ? {} : { key })
  const before = await questions()
  const keyless = await ask(undefined)
  assert.deepEqual([keyless.status, keyless.body.code, keyless.body.approval], [403, 'approval_required', undefined])
  assert.match(keyless.body.detail, /idempotency key/)
  assert.equal(await questions(), before)

  const answers = await Promise.all(Array.from({ length: 8 }, () => ask('hello')))
  assert.deepEqual(new Set(answers.map(({ status, body }) => `${status} ${body.code}`)), new Set(['403 approval_required'])) // prettier-ignore
  const [{ body: first }] = answers as [Answer]
  assert.deepEqual(new Set(answers.map(({ body }) => body.approval.id)), new Set([first.approval.id]))
  assert.equal(await questions(), before + 1)
  const { id, url, expiresAt } = first.approval
  assert.match(id, /^apr_[0-9a-f-]{36}$/)
  assert.equal(url, `http://localhost:4000/account/approvals/${id}`)
  const waiting = await get(`/v1/approvals/${id}`)
  const { createdAt, rule, ...rest } = waiting.body
  assert.deepEqual(rest, { id, state: 'waiting', url, expiresAt, decidedAt: null })
  assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 30 * 60_000)
  assert.ok(rule.length > 0)

  assert.equal(await answer(id, 'approved'), true)
  assert.equal(await answer(id, 'denied'), false)
  assert.equal((await get(`/v1/approvals/${id}`)).body.state, 'approved')
  const signed = await ask('hello')
  assert.equal(signed.status, 200, JSON.stringify(signed.body))
  assert.ok(await verifyMessage({ address: alice.address, message: 'Hello', signature: signed.body.signature }))
  assert.equal((await get(`/v1/approvals/${id}`)).body.state, 'used')
  assert.deepEqual((await ask('hello')).body, signed.body)
  // The approval was for that key alone.
  assert.equal((await ask('hello again')).body.code, 'approval_required')
})

test('typed data with any character in its texts is stored and asked about', async () => {
  const text = '\0 \u202e 🔑 \\u0000 "'
  const types = { Note: [{ name: 'text', type: 'string' }] }
  const typedData = { types, primaryType: 'Note', domain: { name: text, chainId: 31_337 }, message: { text } }
  const ask = () => post(TYPED_DATA, { typedData }, { key: 'characters' })
  const { body } = await ask()
  assert.equal(body.code, 'approval_required', JSON.stringify(body))
  await answer(body.approval.id, 'approved')
  const signed = await ask()
  assert.equal(signed.status, 200, JSON.stringify(signed.body))
  const { content } = (await get(`/v1/signatures/${signed.body.id}`)).body
  assert.equal(JSON.parse(content).message.text, text)
})

test('a reference is stored with a signature, belongs to its key, and is kept over the approval', async () => {
  const reference = 'contract 7 🖋'
  const data = permit(alice, { message: { nonce: '77' } })
  for (const [path, body] of [
    [MESSAGE, { message: login(alice) }],
    [TYPED_DATA, { typedData: data }],
  ] as const) {
    const key = `reference ${path}`
    const signed = await post(path, { ...body, reference }, { key })
    assert.deepEqual([signed.status, signed.body.reference], [200, reference], JSON.stringify(signed.body))
    assert.deepEqual((await post(path, { ...body, reference }, { key })).body, signed.body)
    for (const other of [{}, { reference: 'another' }])
      assert.equal((await post(path, { ...body, ...other }, { key })).body.code, 'idempotency_key_reused')
    assert.equal((await get(`/v1/signatures/${signed.body.id}`)).body.reference, reference)
    assert.equal((await get('/v1/signatures')).body.find(({ id }: { id: string }) => id === signed.body.id).reference, reference) // prettier-ignore
    // The signature is the same without it.
    const plain = await post(path, body)
    assert.deepEqual([plain.body.reference, plain.body.signature], [null, signed.body.signature])
    assert.equal('reference' in (await post(path, { ...body, reference, dryRun: true })).body, false)
  }
  const ask = (given?: string) =>
    post(MESSAGE, { message: 'Approve me', reference: given }, { key: 'asked with a reference' })
  const { approval } = (await ask(reference)).body
  assert.equal((await ask('another')).body.code, 'idempotency_key_reused')
  await answer(approval.id, 'approved')
  assert.equal((await ask(reference)).body.reference, reference)
})

test('a bad reference is rejected with its place', async () => {
  const before = await rows()
  for (const [path, body] of [
    [MESSAGE, { message: login(alice) }],
    [TYPED_DATA, { typedData: permit(alice) }],
  ] as const)
    for (const [reference, code] of BAD_REFERENCES) {
      const answer = await post(path, { ...body, reference })
      assert.equal(answer.status, 400, JSON.stringify(answer.body))
      assert.deepEqual([answer.body.code, answer.body.errors[0].pointer, answer.body.errors[0].code], ['invalid_request', '/reference', code]) // prettier-ignore
    }
  assert.deepEqual(await rows(), before)
})

test('of parallel requests with one key and two references, one is stored and the other rejected', async () => {
  const message = login(alice, { nonce: 'twoReferences' })
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      post(MESSAGE, { message, reference: `r${index % 2}` }, { key: 'two references' }),
    ),
  )
  const [signed, others] = [
    answers.filter(({ status }) => status === 200),
    answers.filter(({ status }) => status !== 200),
  ]
  assert.equal(new Set(signed.map(({ body }) => body.reference)).size, 1)
  assert.deepEqual(
    [signed.length, ...others.map(({ body }) => body.code)],
    [3, ...Array(3).fill('idempotency_key_reused')],
  )
  const { body } = await get(`/v1/signatures/${signed[0]!.body.id}`)
  assert.equal(body.reference, signed[0]!.body.reference)
})

test('a denial is final for its key', async () => {
  const ask = () => post(MESSAGE, { message: 'Denied' }, { key: 'denied' })
  const { id } = (await ask()).body.approval
  assert.equal(await answer(id, 'denied'), true)
  for (let times = 0; times < 2; times++) {
    const { status, body } = await ask()
    assert.deepEqual([status, body.code, body.approval], [403, 'approval_denied', undefined])
  }
  assert.equal((await get(`/v1/approvals/${id}`)).body.state, 'denied')
  // Deleting the request that was never signed does not undo it.
  await world.db.updateTable('signatures').set({ created_at: sql<Date>`now() - interval '31 days'` }).where('signature', 'is', null).execute() // prettier-ignore
  await deleteUnsigned(world.db)
  assert.equal((await ask()).body.code, 'approval_denied')
})

test('a rejected request is not stored, and its key is free', async () => {
  const before = [await rows(), await questions()]
  const opaque = { hex: `0x${'9c'.repeat(32)}` }
  assert.equal((await post(MESSAGE, opaque, { key: 'opaque' })).body.code, 'policy_denied')
  assert.equal((await post(MESSAGE, { message: 'keyless' })).body.code, 'approval_required')
  assert.deepEqual([await rows(), await questions()], before)
  assert.equal((await post(MESSAGE, { message: login(alice) }, { key: 'opaque' })).status, 200)
})

test('a question is linked only for the message that it is about', async () => {
  const ask = (message: string) => post(MESSAGE, { message }, { key: 'changes' })
  const first = (await ask('First text')).body.approval
  assert.equal((await ask('Second text')).body.code, 'idempotency_key_reused')
  await world.db.updateTable('signatures').set({ created_at: sql<Date>`now() - interval '31 days'` }).where('signature', 'is', null).execute() // prettier-ignore
  await deleteUnsigned(world.db)
  await world.clock.advance(1)
  const second = (await ask('Second text')).body.approval
  assert.notEqual(second.id, first.id)
  assert.equal((await ask('Second text')).body.approval.id, second.id)
  const { content } = await world.db.selectFrom('approvals').select('content').where('id', '=', second.id).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual(content, { message: { kind: 'text', content: 'Second text' } })
  // An approval of the first signs nothing.
  assert.equal(await answer(first.id, 'approved'), true)
  assert.equal((await ask('Second text')).body.approval.id, second.id)
  assert.equal(await answer(second.id, 'approved'), true)
  const { signature } = (await ask('Second text')).body
  assert.ok(await verifyMessage({ address: alice.address, message: 'Second text', signature }))
})

test('another user and another application see neither questions nor signatures', async () => {
  const mallory = await world.writer('mallory')
  const permissions = ['wallet:read', 'messages:sign'] as const
  await saveApplication(
    { db: world.db, sealKeys: noSealKeys },
    {
      ...{ clientId: 'other', name: 'Other', chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
      ...{ permissions: [...permissions], allowedOrigins: [], secretHashes: [], logoUri: null, isSuspended: false },
    },
  )
  const scope = permissions.join(' ')
  const elsewhere = { token: await world.place.token(alice.userId, { client_id: 'other', scope, gid: 'elsewhere' }) }
  const { approval } = (await post(MESSAGE, { message: 'Private' }, { key: 'private' })).body
  const signed = (await post(MESSAGE, { message: login(alice) })).body
  for (const as of [mallory, elsewhere]) {
    for (const path of [`/v1/approvals/${approval.id}`, `/v1/signatures/${signed.id}`]) {
      const { status, body } = await get(path, as)
      assert.deepEqual([status, body.code], [404, 'not_found'], path)
    }
    assert.deepEqual((await get('/v1/signatures', as)).body, [])
    const theirs = await post(MESSAGE, { message: 'Private' }, { key: 'private', as })
    assert.notEqual(theirs.body.approval.id, approval.id)
  }
  const approveTheirs = decide(world.first.app, { id: approval.id, accountId: mallory.accountId, decision: 'approved', token: 'x' }) // prettier-ignore
  assert.equal(await approveTheirs, false)
})

test('an id that is none is not found, whatever it consists of', async () => {
  const odd = ['%00', 'a%00', '%2e%2e', '%20', '%F0%9F%94%91', '%27', 'sig_none', 'x'.repeat(64)]
  for (const id of odd)
    for (const path of [`/v1/approvals/${id}`, `/v1/signatures/${id}`]) {
      const { status, body } = await get(path)
      assert.deepEqual([status, body.code], [404, 'not_found'], path)
    }
})

test('signatures are listed newest first, without requests that were never signed', async () => {
  const carol = await world.writer('carol')
  const made: string[] = []
  for (const statement of ['one', 'two', 'three'])
    made.unshift((await post(MESSAGE, { message: login(carol, { statement }) }, { as: carol })).body.id)
  await post(MESSAGE, { message: 'unsigned' }, { as: carol, key: 'unsigned' })
  const first = await get('/v1/signatures?limit=2', carol)
  const cursor = String(first.headers['x-next-cursor'])
  const second = await get(`/v1/signatures?limit=2&cursor=${cursor}`, carol)
  assert.deepEqual(
    [...first.body, ...second.body].map(({ id }) => id),
    made,
  )
  assert.equal(second.headers['x-next-cursor'], undefined)
  const { body } = await get(`/v1/signatures/${made[0]}`, carol)
  assert.deepEqual(body, first.body[0])
  assert.deepEqual([body.kind, body.class, body.summary.domain], ['text', 'login', 'shop.example'])
  assert.equal((await get('/v1/signatures?cursor=bm90aGluZw', carol)).body.code, 'invalid_cursor')
})

test('a dry run names class, rule and whether the user must approve, and stores nothing', async () => {
  const before = [await rows(), await questions()]
  const sealed = { key: 'dry' }
  const cases: [string, object, string, string][] = [
    [MESSAGE, { message: login(alice) }, 'login', 'not_required'],
    [MESSAGE, { message: 'Hello' }, 'text', 'required'],
    [TYPED_DATA, { typedData: permit(alice) }, 'allowance', 'not_required'],
    [TYPED_DATA, { typedData: permit(alice, { message: { value: String(2n ** 256n - 1n) } }) }, 'allowance', 'required'], // prettier-ignore
  ]
  for (const [path, given, name, approval] of cases) {
    const { status, body } = await post(path, { ...given, dryRun: true }, sealed)
    assert.deepEqual([status, body.class, body.approval, body.signature], [200, name, approval, undefined], JSON.stringify(body)) // prettier-ignore
  }
  const { body } = await post(TYPED_DATA, { typedData: permit(alice), dryRun: true })
  assert.deepEqual([body.summary.sentence, body.summary.moves[0].to, body.summary.moves[0].amount], ['allow', SPENDER, '1500000']) // prettier-ignore
  assert.deepEqual([await rows(), await questions()], before)
})

test('what may not be signed is refused with the place of the fault, and nothing is stored', async () => {
  const before = await rows()
  const good = permit(alice)
  const bent = (changes: object) => ({ typedData: { ...good, ...changes } })
  const cases: [string, unknown, number, string, string | undefined][] = [
    [MESSAGE, {}, 400, 'invalid_request', '/message'],
    [MESSAGE, { message: 'a', hex: '0x61' }, 400, 'invalid_request', '/message'],
    [MESSAGE, { message: 7 }, 400, 'invalid_request', '/message'],
    [MESSAGE, { message: 'a', more: 1 }, 400, 'unknown_parameter', '/more'],
    [MESSAGE, { typedData: good }, 400, 'unknown_parameter', '/typedData'],
    [MESSAGE, '{"message":"a","message":"b"}', 400, 'invalid_json', undefined],
    [MESSAGE, '{"message":', 400, 'invalid_json', undefined],
    [MESSAGE, { message: 'a'.repeat(33_000) }, 422, 'invalid_message', '/message'],
    [MESSAGE, { message: '\ud800' }, 422, 'invalid_message', '/message'],
    [MESSAGE, { message: 'a\0' }, 422, 'invalid_message', '/message'],
    [MESSAGE, { hex: '0x123' }, 422, 'invalid_message', '/hex'],
    [MESSAGE, { message: 'a'.repeat(70_000) }, 413, 'body_too_large', undefined],
    [MESSAGE, { message: login(alice, { domain: 'evil.example', uri: 'https://evil.example' }) }, 422, 'invalid_message', '/message'], // prettier-ignore
    [MESSAGE, { message: login(alice, { chainId: 1 }) }, 422, 'invalid_message', '/message'],
    [MESSAGE, { message: login(alice, { issuedAt: new Date(0) }) }, 422, 'invalid_message', '/message'],
    [TYPED_DATA, {}, 400, 'invalid_request', '/typedData'],
    [TYPED_DATA, { typedData: 7 }, 400, 'invalid_request', '/typedData'],
    [TYPED_DATA, { typedData: '{' }, 422, 'invalid_typed_data', '/typedData'],
    [TYPED_DATA, { typedData: '{"a":1,"a":2}' }, 422, 'invalid_typed_data', '/typedData'],
    [TYPED_DATA, JSON.stringify({ typedData: good }).replace('"value":', '"value":"1","value":'), 400, 'invalid_json', undefined], // prettier-ignore
    [TYPED_DATA, JSON.stringify({ typedData: good }).replace('"value":', '"__proto__":'), 400, 'invalid_json', undefined], // prettier-ignore
    [TYPED_DATA, bent({ primaryType: 'Nothing' }), 422, 'invalid_typed_data', '/typedData/primaryType'],
    [TYPED_DATA, bent({ message: { ...good.message, value: 1e20 } }), 422, 'invalid_typed_data', '/typedData/message/value'], // prettier-ignore
    [TYPED_DATA, bent({ message: { ...good.message, more: '1' } }), 422, 'invalid_typed_data', '/typedData/message/more'], // prettier-ignore
    [TYPED_DATA, bent({ domain: { ...good.domain, chainId: 1 } }), 422, 'invalid_typed_data', '/typedData/domain/chainId'], // prettier-ignore
    [TYPED_DATA, bent({ message: { ...good.message, owner: SPENDER } }), 422, 'invalid_typed_data', '/typedData/message/owner'], // prettier-ignore
    [TYPED_DATA, bent({ domain: { ...good.domain, verifyingContract: alice.address } }), 422, 'invalid_typed_data', '/typedData'], // prettier-ignore
    [`${TYPED_DATA}?x=1`, { typedData: good }, 400, 'unknown_parameter', undefined],
  ]
  for (const [index, [path, given, status, code, pointer]] of cases.entries()) {
    const { status: found, body } = await post(path, given, { key: `bad ${index}` })
    assert.deepEqual([found, body.code], [status, code], JSON.stringify([given, body]).slice(0, 400))
    if (pointer !== undefined) assert.equal(body.errors[0].pointer, pointer, JSON.stringify(body))
  }
  assert.equal(await rows(), before)
})

test('each permission is needed: messages:sign, and contracts:write for what moves tokens', async () => {
  const scoped = async (scope: string) => ({ token: await world.place.token(alice.userId, { client_id: 'demo', scope, gid: scope }) }) // prettier-ignore
  const cases: [string, string, object, string][] = [
    ['wallet:read contracts:write', MESSAGE, { message: 'a' }, 'insufficient_scope'],
    ['messages:sign', TYPED_DATA, { typedData: permit(alice) }, 'insufficient_scope'],
    ['messages:sign', TYPED_DATA, { typedData: permit(alice), dryRun: true }, 'insufficient_scope'],
    // Without the hosts of the application, no sign-in is its own.
    ['messages:sign', MESSAGE, { message: login(alice) }, 'invalid_message'],
  ]
  for (const [scope, path, given, code] of cases)
    assert.equal((await post(path, given, { as: await scoped(scope) })).body.code, code, `${scope} ${path}`)
  assert.equal((await post(MESSAGE, { message: 'a' }, { as: { token: 'x' } })).status, 401)
  // A permission that the operator removed ends within seconds, whatever the token says.
  const moves = { typedData: permit(alice) }
  const permissions = ['wallet:read', 'contracts:read', 'messages:sign']
  await world.db.updateTable('applications').set({ permissions: JSON.stringify(permissions) }).where('client_id', '=', 'demo').execute() // prettier-ignore
  await world.clock.advance(6_000)
  const removed = await post(TYPED_DATA, moves)
  permissions.push('contracts:write')
  await world.db.updateTable('applications').set({ permissions: JSON.stringify(permissions) }).where('client_id', '=', 'demo').execute() // prettier-ignore
  await world.clock.advance(6_000)
  assert.equal(removed.body.code, 'insufficient_scope')
  assert.equal((await post(TYPED_DATA, moves)).status, 200)
})

test('a signature and a question to the user each take one write of the quota; their repeats take none', async () => {
  const dora = await world.writer('dora')
  const quotas = JSON.stringify([{ counts: 'writes', limit: 4, per: 'day' }])
  await world.db.updateTable('applications').set({ quotas }).where('client_id', '=', 'demo').execute()
  await world.clock.advance(6_000)
  try {
    const sign = async (key: string) => {
      const { status, body } = await post(MESSAGE, { message: login(dora, { nonce: `${key}00000000`, issuedAt: FIXED }) }, { as: dora, key }) // prettier-ignore
      return status === 200 ? 200 : (body.code as string)
    }
    const FIXED = new Date()
    const found = [await sign('one'), await sign('one')]
    for (const key of ['asks', 'asks', 'asks', 'asks more', 'asks more', undefined])
      found.push((await post(MESSAGE, { message: 'ask me' }, { as: dora, ...(key === undefined ? {} : { key }) })).body.code) // prettier-ignore
    found.push(await sign('two'), await sign('two'), await sign('three'), await sign('one'))
    assert.deepEqual(found, [200, 200, ...Array.from({ length: 6 }, () => 'approval_required'), 200, 200, 'quota_exhausted', 200]) // prettier-ignore
    assert.equal((await post(MESSAGE, { message: 'ask me' }, { as: dora, key: 'over' })).body.code, 'quota_exhausted')
  } finally {
    await world.db.updateTable('applications').set({ quotas: '[]' }).where('client_id', '=', 'demo').execute()
    await world.clock.advance(6_000)
  }
})

test('a question that nobody answered, and an approval that nobody used in time, are asked again', async () => {
  const ask = () => post(MESSAGE, { message: 'Late' }, { key: 'late' })
  const first = (await ask()).body.approval
  await world.clock.advance(30 * 60_000)
  assert.equal((await get(`/v1/approvals/${first.id}`)).body.state, 'expired')
  assert.equal(await answer(first.id, 'approved'), false)
  const second = (await ask()).body.approval
  assert.notEqual(second.id, first.id)
  assert.equal(await answer(second.id, 'approved'), true)
  await world.clock.advance(60_000)
  const third = (await ask()).body.approval
  assert.equal(new Set([first.id, second.id, third.id]).size, 3)
  assert.equal(await answer(third.id, 'approved'), true)
  assert.equal((await ask()).status, 200)
  assert.deepEqual(await Promise.all([first, second, third].map(async ({ id }) => (await get(`/v1/approvals/${id}`)).body.state)), ['expired', 'used', 'used']) // prettier-ignore
})

test('at most 20 questions of an application wait for a user, and one more is neither asked nor stored', async () => {
  const [eve, fred] = [await world.writer('eve'), await world.writer('fred')]
  const ask = (key: string, as = eve) => post(MESSAGE, { message: 'Decide' }, { key, as })
  const asked: Answer[] = []
  for (let index = 0; index < 20; index++) asked.push(await ask(`${index}`))
  assert.deepEqual(new Set(asked.map(({ body }) => body.code)), new Set(['approval_required']))
  await world.clock.advance(60_000)
  const before = [await rows(), await questions()]
  const { status, headers, body } = await ask('20')
  assert.deepEqual([status, body.code], [429, 'rate_limited'])
  // The clock has moved a little since the first question.
  const seconds = Number(headers['retry-after'])
  assert.ok(seconds <= 29 * 60 && seconds > 28 * 60, String(seconds))
  assert.deepEqual([await rows(), await questions()], before)
  // Those that wait are still linked, and other users can be asked.
  assert.deepEqual((await ask('0')).body.approval, asked[0]!.body.approval)
  assert.equal((await ask('0', fred)).body.code, 'approval_required')
  assert.equal(await answer(asked[7]!.body.approval.id, 'denied', eve), true)
  assert.equal((await ask('20')).body.code, 'approval_required')
  assert.equal((await ask('21')).body.code, 'rate_limited')
  // One that expired does not wait.
  const now = new Date(world.first.app.clock.wall())
  await world.db.updateTable('approvals').set({ expires_at: now }).where('id', '=', asked[3]!.body.approval.id).execute() // prettier-ignore
  assert.equal((await ask('21')).body.code, 'approval_required')
})
