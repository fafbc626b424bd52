import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync } from 'node:crypto'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { importJWK, SignJWT, UnsecuredJWT } from 'jose'
import { world, type Answer, type World } from '../../test/world.ts'
import { audienceOf, issuerOf } from '../app.ts'
import { AppError, describeError, errorCodes, type ErrorCode } from '../errors.ts'
import { verifyAccessToken } from './bearer.ts'
import { problemOf } from './problems.ts'
import { openListener } from './listener.ts'
import { openState } from '../state.ts'
import { withWall } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { languages } from '../texts/choose.ts'
import { en } from '../texts/en.ts'

let here: World
before(async () => {
  here = await world()
})
after(() => here.close())

function assertProblem(answer: Answer, status: number, code: string, origin = here.facts.origin): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body))
  assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/)
  const { type, title, status: inBody, detail, requestId, retryable, help, error } = answer.body
  assert.equal(type, `${origin}/docs/errors#${code}`)
  assert.equal(inBody, status)
  assert.equal(help, describeError(code as ErrorCode).help)
  assert.equal(error, detail)
  assert.equal(requestId, answer.headers.get('x-request-id'))
  assert.deepEqual([typeof title, typeof retryable], ['string', 'boolean'])
  assert.equal('stack' in answer.body, false)
}

const READ = '/v1/contracts/method/read'
const call = () => ({ address: here.facts.contracts.erc20!, abi: 'totalSupply() public view returns (uint256)' })

test('an unknown route, and a known one with another method, are problem documents', async () => {
  assertProblem(await here.request('/v1/nothing'), 404, 'not_found')
  assertProblem(await here.request('/nothing', { method: 'DELETE' }), 404, 'not_found')
  const wrong = await here.request(READ)
  assertProblem(wrong, 405, 'method_not_allowed')
  assert.equal(wrong.headers.get('allow'), 'POST')
})

test('somebody who follows a dead link gets a page; programs get the problem document', async () => {
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

test('an expectation that nobody knows is ignored, never a 417 without a body', async () => {
  const { host } = new URL(here.facts.origin)
  const answer = await raw(`GET /v1/me HTTP/1.1\r\nHost: ${host}\r\nExpect: the best\r\nConnection: close\r\n\r\n`)
  assert.match(answer, /^HTTP\/1\.1 401 /)
  assert.match(answer, /"code":"invalid_token"/)
})

test('bodies that are no JSON are refused with the reason', async () => {
  const { alice } = here
  assertProblem(await alice.post(READ, '{"address": '), 400, 'invalid_json')
  assertProblem(await alice.post(READ, ''), 400, 'invalid_json')
  assertProblem(await alice.post(READ, '[]'), 400, 'invalid_request')
  assertProblem(await alice.post(READ, 'null'), 400, 'invalid_request')
  assertProblem(await alice.post(READ, '{"__proto__": {"a": 1}}'), 400, 'invalid_json')
  assertProblem(await alice.post(READ, `{"args": ${'['.repeat(40)}${']'.repeat(40)}}`), 400, 'invalid_json')
  const bytes = await here.request(READ, {
    method: 'POST',
    headers: { authorization: `Bearer ${alice.token}`, 'content-type': 'application/json' },
    body: Buffer.from([0x22, 0xff, 0xfe, 0x22]),
  })
  assertProblem(bytes, 400, 'invalid_json')
})

test('a body nested 16 deep is read, one nested 17 deep is not; brackets in strings are no nesting', async () => {
  const { alice } = here
  const nested = (depth: number) => '{"a":['.repeat(depth / 2) + '0' + ']}'.repeat(depth / 2)
  assertProblem(await alice.post(READ, nested(16)), 400, 'invalid_request')
  assertProblem(await alice.post(READ, `[${nested(16)}]`), 400, 'invalid_json')
  assertProblem(await alice.post(READ, { brackets: '[{'.repeat(40) }), 400, 'invalid_request')
})

test('answers to requests of one turn leave together, after the last of them was handled', async () => {
  const server = openListener(here.app)
  const order: string[] = []
  server.get('/', (_request, reply) => {
    order.push('handled')
    const end = reply.raw.end.bind(reply.raw)
    reply.raw.end = ((...words: []) => {
      order.push('answered')
      return end(...words)
    }) as typeof reply.raw.end
    return 'here'
  })
  const answers = await Promise.all([server.inject('/'), server.inject('/'), server.inject('/')])
  assert.deepEqual(order, [...Array(3).fill('handled'), ...Array(3).fill('answered')])
  order.length = 0
  await Promise.all(Array.from({ length: 100 }, () => server.inject('/')))
  assert.equal(order.indexOf('answered'), 64, 'the first 64 do not wait for the others')
  assert.equal(order.length, 200)
  assert.deepEqual(
    answers.map(({ statusCode, body }) => [statusCode, body]),
    Array(3).fill([200, 'here']),
  )
  await server.close()
})

test('an answer that cannot be written is a 500, and its neighbours leave as they are', async () => {
  const server = openListener(here.app)
  server.get('/', () => 'here')
  server.get('/header', (_request, reply) => reply.header('x-wrong', 'two\nlines').send('here'))
  server.get('/body', (_request, reply) => reply.type('text/plain').send({ no: 'text' }))
  const answers = await Promise.all(['/', '/header', '/body', '/'].map((path) => server.inject(path)))
  assert.deepEqual(
    answers.map(({ statusCode, json, body }) => (statusCode === 200 ? body : [statusCode, json().code])),
    ['here', [500, 'internal_error'], [500, 'internal_error'], 'here'],
  )
  await server.close()
})

test('a body of 1 MB is refused, and so is one that is not declared as JSON', async () => {
  const { alice } = here
  assertProblem(await alice.post(READ, { ...call(), args: ['x'.repeat(1_000_000)] }), 413, 'body_too_large')
  assertProblem(
    await alice.post(READ, JSON.stringify(call()), { 'content-type': 'text/plain' }),
    415,
    'unsupported_media_type',
  )
  assertProblem(
    await alice.post(READ, 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }),
    415,
    'unsupported_media_type',
  )
  const missing = await here.request(READ, {
    method: 'POST',
    headers: { authorization: `Bearer ${alice.token}`, 'content-type': '' },
    body: Buffer.from(JSON.stringify(call())),
  })
  assertProblem(missing, 415, 'unsupported_media_type')
})

test('unknown body fields, wrong types and missing fields name their place', async () => {
  const { alice } = here
  const unknown = await alice.post(READ, { ...call(), network: 'mainnet' })
  assertProblem(unknown, 400, 'unknown_parameter')
  assert.deepEqual(
    unknown.body.errors.map((one: { pointer: string }) => one.pointer),
    ['/network'],
  )
  for (const [change, pointer] of [
    [{ args: [1] }, '/args/0'],
    [{ args: ['1', null] }, '/args/1'],
    [{ args: 'x' }, '/args'],
    [{ abi: 5 }, '/abi'],
    [{ address: null }, '/address'],
    [{ address: undefined }, '/address'],
  ] as const) {
    const answer = await alice.post(READ, { ...call(), ...change })
    assertProblem(answer, 400, 'invalid_request')
    assert.equal(answer.body.errors[0].pointer, pointer)
  }
  assertProblem(await alice.post(`${READ}?a=1`, call()), 400, 'unknown_parameter')
})

test('addresses that do not decode are refused without a 500', async () => {
  const { alice } = here
  assertProblem(await alice.get('/v1/users/%zz/balance'), 400, 'invalid_request')
  assertProblem(await alice.get(`/v1/users/${'x'.repeat(5_000)}/balance`), 414, 'uri_too_long')
  assertProblem(await alice.get('/v1/users/%00/balance'), 400, 'invalid_user_id')
  assertProblem(await alice.get('/v1/users/DEV-%00/balance'), 400, 'invalid_user_id')
  assertProblem(await alice.get('/v1/users/DEV-%F0%9F%92%A9/balance'), 403, 'forbidden_user')
})

/** What comes back for bytes that no HTTP client would send. */
function raw(bytes: string): Promise<string> {
  const { port } = new URL(here.facts.origin)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(bytes))
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
  })
}

test('what is not HTTP, or has headers past the limit, is a problem document too', async () => {
  const garbage = await raw('NONSENSE\r\n\r\n')
  assert.match(garbage, /^HTTP\/1\.1 400 /)
  assert.match(garbage, /\r\nContent-Language: en\r\n/)
  const { code, userMessage } = JSON.parse(garbage.slice(garbage.indexOf('\r\n\r\n')))
  assert.deepEqual([code, userMessage], ['invalid_request', en.userMessages.invalid_request])
  const large = await raw(`GET /healthz HTTP/1.1\r\nHost: a\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`)
  assert.match(large, /^HTTP\/1\.1 431 /)
  assert.equal(JSON.parse(large.slice(large.indexOf('\r\n\r\n'))).code, 'headers_too_large')
  const head = await raw(`HEAD /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`)
  assert.match(head, /^HTTP\/1\.1 431 .*Content-Length: [1-9]\d*\r\nConnection: close\r\n\r\n$/s, 'it has no body')
})

test('every refusal has a text for the user in the language that is asked for, and names it for caches', async () => {
  const unread = { address: here.facts.contracts.erc20!, abi: 'name() public' }
  for (const words of languages) {
    const asked = (path: string) =>
      here.request(path, { headers: { 'accept-language': `${words.language}-XX, xx;q=0.5` } })
    for (const [path, code, vary] of [
      ['/v1/nothing', 'not_found', /(^|, )Accept-Language$/],
      ['/v1/me', 'invalid_token', /(^|, )Accept-Language$/],
      ['/operator/v1/nothing', 'not_found', /(^|, )Accept-Language$/],
      ['/oauth/me', 'invalid_token', /^Origin, Accept-Language$/],
    ] as const) {
      const { body, headers } = await asked(path)
      assert.deepEqual([body.code, body.userMessage], [code, words.userMessages[code]], path)
      assert.equal(headers.get('content-language'), words.language)
      assert.match(headers.get('vary') ?? '', vary, path)
    }
    const batch = await here.alice.post(
      `${READ}/batch`,
      { calls: [call(), unread] },
      { 'accept-language': words.language },
    )
    assert.equal(batch.status, 200)
    assert.equal(batch.body.results[0].status, 'SUCCESS')
    assert.equal(batch.body.results[1].userMessage, words.userMessages.abi_not_view)
    assert.equal(batch.headers.get('content-language'), words.language)
  }
  const { body, headers } = await here.request('/v1/nothing', { headers: { 'accept-language': 'xx' } })
  assert.deepEqual([body.userMessage, headers.get('content-language')], [en.userMessages.not_found, 'en'])
})

test('a request id is taken when it is harmless, and made otherwise', async () => {
  assert.equal(
    (await here.request('/healthz', { headers: { 'x-request-id': 'abcdef-123456' } })).headers.get('x-request-id'),
    'abcdef-123456',
  )
  for (const bad of ['short', 'with space in it', 'x'.repeat(65), '<script>alert</script>']) {
    assert.notEqual(
      (await here.request('/healthz', { headers: { 'x-request-id': bad } })).headers.get('x-request-id'),
      bad,
    )
  }
})

test('every way of not having a token is a 401 that says so, and nothing else is', async () => {
  const { alice, facts } = here
  const path = `/v1/users/${alice.userId}/balance`
  const [head, body, signature] = alice.token.split('.') as [string, string, string]
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString())
  const forged = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const publicKey = here.app.tokenKeys.keys.find((key) => key.alg === 'ES256')!
  const sign = async (change: Record<string, unknown>, header: Record<string, unknown> = {}) =>
    new SignJWT({ ...claims, ...change })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: publicKey.kid!, ...header })
      .sign(forged)
  const hmacHead = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'at+jwt', kid: publicKey.kid })).toString(
    'base64url',
  )
  const hmac = createHmac('sha256', JSON.stringify(publicKey)).update(`${hmacHead}.${body}`).digest('base64url')
  const headers: (string | undefined)[] = [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    `Basic ${Buffer.from('a:b').toString('base64')}`,
    'Bearer nonsense',
    'Bearer a.b.c',
    `Bearer ${alice.token} extra`,
    `Bearer ${head}.${body}.${signature.slice(0, -4)}AAAA`,
    `Bearer ${head}.${body}.`,
    `Bearer ${new UnsecuredJWT(claims).encode()}`,
    `Bearer ${hmacHead}.${body}.${hmac}`,
    `Bearer ${await sign({})}`,
    `Bearer ${'x'.repeat(5_000)}`,
  ]
  for (const authorization of headers) {
    const answer = await here.request(path, authorization === undefined ? {} : { headers: { authorization } })
    assertProblem(answer, 401, 'invalid_token')
    assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"')
  }
  assert.equal(facts.baseUrl, audienceOf(here.app.origin))
})

test('a token that is expired, of another audience, issuer or type is refused although its signature is right', async (t) => {
  const { alice, app } = here
  const { readFile } = await import('node:fs/promises')
  const { keys } = JSON.parse(await readFile(`${here.dataDir}/auth-keys.json`, 'utf8')) as {
    keys: { alg: string; kid: string }[]
  }
  const jwk = keys.find(({ alg }) => alg === 'ES256')!
  const key = await importJWK(jwk, 'ES256')
  const claims = JSON.parse(Buffer.from(alice.token.split('.')[1]!, 'base64url').toString())
  const now = Math.floor(Date.now() / 1_000)
  const cases: [string, Record<string, unknown>, string][] = [
    ['as it is', {}, 'at+jwt'],
    ['expired', { exp: now - 1 }, 'at+jwt'],
    ['another audience', { aud: 'https://elsewhere.example/v1' }, 'at+jwt'],
    ['another issuer', { iss: `${issuerOf(app)}x` }, 'at+jwt'],
    ['an id token', { aud: 'demo' }, 'JWT'],
    ['another type', {}, 'JWT'],
    ['not yet', { nbf: now + 600 }, 'at+jwt'],
    ['no such user', { sub: 'DEV-nobody' }, 'at+jwt'],
    ['no application', { client_id: undefined }, 'at+jwt'],
    ['no grant', { gid: undefined }, 'at+jwt'],
  ]
  for (const [name, change, typ] of cases) {
    await t.test(name, async () => {
      const token = await new SignJWT({ ...claims, ...change })
        .setProtectedHeader({ alg: 'ES256', typ, kid: jwk.kid })
        .sign(key)
      const answer = await here.request(`/v1/users/${alice.userId}/balance`, {
        headers: { authorization: `Bearer ${token}` },
      })
      if (name === 'as it is') assert.equal(answer.status, 200)
      else assertProblem(answer, 401, 'invalid_token')
    })
  }
  await t.test('of the origin of the API, with a separate authorization server', async () => {
    const separate = { ...app, authOrigin: 'https://sign-in.example', state: openState() }
    const signed = (iss: string) =>
      new SignJWT({ ...claims, iss }).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid }).sign(key)
    await assert.rejects(verifyAccessToken(separate, await signed(`${app.origin}/oauth`)), { code: 'invalid_token' })
    assert.equal((await verifyAccessToken(separate, await signed(issuerOf(separate)))).clientId, claims.client_id)
  })
  await t.test('without the permission', async () => {
    const token = await new SignJWT({ ...claims, scope: 'openid email' })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid })
      .sign(key)
    const answer = await here.request(`/v1/users/${alice.userId}/balance`, {
      headers: { authorization: `Bearer ${token}` },
    })
    assertProblem(answer, 403, 'insufficient_scope')
    assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"')
  })
})

test('a revoked grant stops working within seconds', async () => {
  const carol = await here.person('carol')
  const { gid } = JSON.parse(Buffer.from(carol.token.split('.')[1]!, 'base64url').toString())
  assert.equal((await carol.get('/v1/me')).status, 200)
  await here.app.db
    .insertInto('revoked_grants')
    .values({ grant_id: gid, forget_at: new Date(Date.now() + 3_600_000) })
    .execute()
  const refused = await until('the token is refused', async () => {
    const answer = await carol.get('/v1/me')
    return answer.status === 401 ? answer : null
  })
  assertProblem(refused, 401, 'invalid_token')
})

test('a clock that is put back by an hour hides no revocation for that hour', async (t) => {
  const dave = await here.person('dave')
  const { gid } = JSON.parse(Buffer.from(dave.token.split('.')[1]!, 'base64url').toString())
  assert.equal((await dave.get('/v1/me')).status, 200)
  const { clock } = here.app
  t.after(() => {
    here.app.clock = clock
  })
  here.app.clock = withWall(() => clock.wall() - 3_600_000)
  await here.app.db
    .insertInto('revoked_grants')
    .values({ grant_id: gid, forget_at: new Date(Date.now() + 3_600_000) })
    .execute()
  assertProblem(await dave.get('/v1/me'), 401, 'invalid_token')
})

test('profile and /v1/me answer with every field, and another user is refused', async () => {
  const { alice, bob, facts } = here
  const user = await alice.get(`/v1/users/${alice.userId}`)
  assert.equal(user.status, 200)
  assert.deepEqual(user.body, {
    id: 'DEV-alice',
    provider: 'DEV',
    username: 'alice',
    address: alice.address,
    imageSrc: `${facts.origin}/devnet/avatar/alice.svg`,
  })
  assert.match(user.body.address, /^0x[0-9a-fA-F]{40}$/)
  const me = await alice.get('/v1/me')
  assert.deepEqual(me.body, {
    ...user.body,
    network: 'devnet',
    chainId: 31_337,
    scopes: me.body.scopes,
    linked: ['DEV-alice'],
    exportedAt: null,
  })
  for (const scope of ['wallet:read', 'contracts:read', 'contracts:write']) assert.ok(me.body.scopes.includes(scope))
  assertProblem(await alice.get(`/v1/users/${bob.userId}`), 403, 'forbidden_user')
  assertProblem(await alice.get('/v1/users/nobody'), 400, 'invalid_user_id')
  assertProblem(await here.request('/v1/me'), 401, 'invalid_token')
  assertProblem(await alice.get('/v1/me?x=1'), 400, 'unknown_parameter')
})

test('probes, metrics, the OpenAPI document and its page answer without a token', async () => {
  assert.deepEqual((await here.request('/healthz')).body, { status: 'ok' })
  const ready = await until('it is ready', async () => {
    const answer = await here.request('/readyz')
    return answer.status === 200 && answer
  })
  assert.deepEqual(
    ready.body.checks.map((check: { name: string }) => check.name),
    ['database', 'signer', 'chain devnet'],
  )
  assert.match((await here.request('/metrics')).body, /http_request_seconds_count/)
  assert.match((await here.request('/docs/')).body, /openapi\.json/)
  const { body: document } = await here.request('/openapi.json')
  assert.equal(document.openapi, '3.1.0')
  for (const path of [
    '/v1/users/{userId}',
    '/v1/users/{userId}/balance',
    '/v1/users/{userId}/balance/{tokenAddress}',
    '/v1/users/{userId}/history',
    '/v1/contracts/method/read',
    '/v1/contracts/method/write',
    '/v1/me',
  ]) {
    assert.ok(document.paths[path] !== undefined, `${path} is missing`)
  }
  for (const path of Object.keys(document.paths)) assert.match(path, /^\/(operator\/)?v1\//)
})

test('the page of errors explains every code', async () => {
  const { body } = await here.request('/docs/errors')
  for (const code of errorCodes) assert.ok(body.includes(`id="${code}"`), code)
  assert.equal(describeError('internal_error').status, 500)
})

test('every refusal that can be retried says when, and no other does, wherever it is told: at the API, on a page, by the library', () => {
  for (const code of errorCodes) {
    const { status, retryable } = describeError(code)
    for (const [extras, seconds] of [
      [{}, '1'],
      [{ retryAfter: 7 }, '7'],
    ] as const) {
      // prettier-ignore
      const error = new AppError(code, 'Why.', extras)
      assert.deepEqual(error.headers, retryable ? { 'retry-after': seconds } : {}, code)
      assert.equal(problemOf(error, { origin: '', instance: '/', requestId: 'r', words: en }).retryable, error.retryAfter !== undefined, code) // prettier-ignore
    }
    assert.ok(status !== 429 || retryable, code)
  }
})

test('pages of registered origins may call the API, others may not', async () => {
  const { alice } = here
  const path = `/v1/users/${alice.userId}/balance`
  const allowed = await here.request(path, {
    method: 'OPTIONS',
    headers: {
      origin: 'http://localhost:3999',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization',
    },
  })
  assert.equal(allowed.headers.get('access-control-allow-origin'), 'http://localhost:3999')
  const signing = await here.request('/v1/signatures/message', {
    method: 'OPTIONS',
    headers: {
      origin: 'http://localhost:3999',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,idempotency-key',
    },
  })
  assert.match(signing.headers.get('access-control-allow-methods') ?? '', /POST/)
  assert.match(signing.headers.get('access-control-allow-headers') ?? '', /idempotency-key/)
  const answer = await alice.get(path, { origin: 'http://localhost:3999' })
  assert.equal(answer.headers.get('access-control-allow-origin'), 'http://localhost:3999')
  assert.match(answer.headers.get('access-control-expose-headers') ?? '', /X-Next-Cursor/)
  assert.equal(
    (await alice.get(path, { origin: 'https://elsewhere.example' })).headers.get('access-control-allow-origin'),
    null,
  )
})

test('limits answer 429 with the seconds to wait', async (t) => {
  const limited = await world({
    RATE_LIMITS: 'on',
    READS_PER_SECOND: '1',
    READS_BURST: '3',
    APPLICATION_PER_SECOND: '1000',
  })
  t.after(() => limited.close())
  const dave = await limited.person('dave')
  const answers = await Promise.all(Array.from({ length: 6 }, () => dave.get('/v1/me')))
  const refused = answers.filter((answer) => answer.status === 429)
  assert.ok(refused.length >= 3)
  assert.equal(refused[0]!.body.code, 'rate_limited')
  assert.ok(Number(refused[0]!.headers.get('retry-after')) >= 1)
  assert.match(answers[0]!.headers.get('ratelimit-policy') ?? '', /"reads";q=3/)
  const erin = await limited.person('erin')
  const batch = {
    calls: Array.from({ length: 5 }, () => ({
      address: limited.facts.contracts.erc20,
      abi: 'totalSupply() public view returns (uint256)',
    })),
  }
  limited.app.clock = withWall(() => Date.now() + 3_100)
  assert.equal((await erin.post(`${READ}/batch`, batch)).status, 200, 'a full bucket is enough for any batch')
  assertProblem(await erin.post(`${READ}/batch`, batch), 429, 'rate_limited', limited.facts.origin)
})
