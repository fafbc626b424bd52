// tier: all, because it signs people in and waits for what becomes of them
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { mkdtemp, readFile, stat, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type World } from '../../test/world.ts'
import { findApplication } from '../applications/registry.ts'
import { openListener } from '../http/listener.ts'
import { publishNow } from '../oauth/revocations.ts'
import { obtainTokens } from '../../test/rehearsal.ts'
import { doorOf, newOperatorToken, openOperatorDoor } from './auth.ts'
import { operatorApi } from './routes.ts'
import { appLike, changeApplication } from '../../test/opened.ts'
import { withWall } from '../../test/kit/clock.ts'

let here: World
let token: string
let loud: string[]
const { writeSync } = fs
before(async () => {
  // Every line of the log, which is written past `process.stderr`.
  loud = []
  fs.writeSync = ((fd: number, data: string | Uint8Array, ...rest: never[]) => {
    if (fd !== 2) return writeSync(fd, data as never, ...rest)
    loud.push(typeof data === 'string' ? data : Buffer.from(data).toString())
    return Buffer.byteLength(data)
  }) as typeof writeSync
  syncBuiltinESMExports()
  here = await world({ LOG_LEVEL: 'debug' })
  token = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
})
after(async () => {
  await here.close()
  fs.writeSync = writeSync
  syncBuiltinESMExports()
})

function operate(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return here.request(`/operator/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
}

const shop = { name: 'Shop', network: 'devnet', redirectUris: ['https://shop.example/callback'] }

test('an application is registered, read, changed, given secrets, suspended and resumed', async () => {
  const made = await operate('POST', '/applications', {
    ...shop,
    clientId: 'shop',
    kind: 'confidential',
    permissions: ['wallet:read', 'users:read'],
  })
  assert.equal(made.status, 201)
  assert.equal(made.headers.get('location'), `${here.facts.origin}/operator/v1/applications/shop`)
  assert.equal(made.headers.get('cache-control'), 'no-store')
  assert.match(made.body.secret, /^chs_[\w-]{43}$/)
  assert.equal(made.body.application.liveSecrets, 1)

  const read = await operate('GET', '/applications/shop')
  assert.deepEqual([read.status, read.body], [200, made.body.application])
  const changed = await operate('PATCH', '/applications/shop', { name: 'Shop 2', logoUri: null })
  assert.deepEqual(
    [changed.status, changed.body.name, changed.body.permissions],
    [200, 'Shop 2', ['wallet:read', 'users:read']],
  )

  const rotated = await operate('POST', '/applications/shop/rotate-secret')
  assert.deepEqual([rotated.status, rotated.body.application.liveSecrets], [200, 2])
  const reset = await operate('POST', '/applications/shop/reset-secret')
  assert.deepEqual([reset.status, reset.body.application.liveSecrets], [200, 1])

  assert.notEqual((await operate('POST', '/applications/shop/suspend')).body.suspendedAt, null)
  assert.equal((await operate('POST', '/applications/shop/resume')).body.suspendedAt, null)

  const listed = await operate('GET', '/applications')
  assert.deepEqual(
    listed.body.map(({ clientId }: { clientId: string }) => clientId),
    ['demo', 'shop'],
  )
  assert.equal((await operate('GET', '/applications?limit=1&after=demo')).body[0].clientId, 'shop')
  const [network] = (await operate('GET', '/networks')).body
  assert.deepEqual([network.name, network.chainId, network.isServed, network.applications], ['devnet', 31_337, true, 2])

  // What is shown once is in no list and in no log.
  const secrets = [made.body.secret, rotated.body.secret, reset.body.secret, token]
  const hashes = secrets.map((secret) => createHash('sha256').update(secret).digest('hex'))
  const shown = JSON.stringify([read.body, listed.body, changed.body]) + loud.join('')
  assert.ok(loud.length > 0, 'nothing was logged, so nothing was looked at')
  for (const secret of [...secrets, ...hashes]) assert.ok(!shown.includes(secret))
})

test('an application is told which identity provider of its own it may exchange tokens of', async () => {
  await operate('POST', '/applications', { ...shop, clientId: 'bringer', kind: 'confidential' })
  const path = '/applications/bringer/issuers/APP_BRINGER'
  const { status, body } = await operate('PUT', path, { issuer: 'https://id.bringer.example', audience: 'wallet' })
  const trusted = {
    provider: 'APP_BRINGER',
    issuer: 'https://id.bringer.example',
    audience: 'wallet',
    jwksUri: null,
    algorithms: ['RS256', 'ES256'],
    subjectClaim: 'sub',
    usernameClaims: ['preferred_username', 'name', 'nickname'],
    pictureClaim: 'picture',
    maxAgeSeconds: 3_600,
    isReusable: false,
    allowsPrivate: false,
  }
  assert.deepEqual([status, body.issuers], [200, [trusted]])
  const more = { issuer: trusted.issuer, audience: 'wallet', maxAgeSeconds: 600, algorithms: ['RS256'] }
  const changed = (await operate('PUT', path, more)).body.issuers
  assert.deepEqual(changed, [{ ...trusted, maxAgeSeconds: 600, algorithms: ['RS256'] }])
  assert.deepEqual((await operate('GET', '/applications/bringer')).body.issuers, changed)

  await operate('POST', '/applications', { ...shop, clientId: 'second', kind: 'confidential' })
  const good = { issuer: trusted.issuer, audience: 'second' }
  const refused: [path: string, body: unknown, status: number, code: string][] = [
    [path, { ...good, issuer: 'https://evil.example' }, 400, 'invalid_request'],
    [path, { ...good, subjectClaim: 'email' }, 400, 'invalid_request'],
    [path, { ...good, algorithms: ['HS256'] }, 400, 'invalid_request'],
    [path, { ...good, colour: 'red' }, 400, 'unknown_parameter'],
    // People who are there are brought by another way, or shared, on the operator’s machine.
    [path, { ...good, jwksUri: 'https://evil.example/keys' }, 400, 'invalid_request'],
    [path, { ...good, allowsPrivate: true }, 400, 'invalid_request'],
    [path, { ...good, isShared: true }, 400, 'unknown_parameter'],
    [path, { audience: 'second' }, 400, 'invalid_request'],
    ['/applications/bringer/issuers/GOOGLE', good, 400, 'invalid_request'],
    ['/applications/demo/issuers/APP_DEMO', good, 400, 'invalid_request'],
    ['/applications/nobody/issuers/APP_X', good, 404, 'not_found'],
    ['/applications/second/issuers/APP_BRINGER', good, 409, 'already_exists'],
  ]
  for (const [where, sent, expected, code] of refused) {
    const answer = await operate('PUT', where, sent)
    assert.deepEqual([answer.status, answer.body.code], [expected, code], `${where} ${JSON.stringify(sent)}`)
  }
  assert.deepEqual((await operate('DELETE', path)).body.issuers, [])
  assert.equal((await operate('DELETE', path)).status, 404)
})

test('only a token of the operator opens it: none, a user’s, a wrong one and an empty one are 401, everywhere', async () => {
  const routes = Object.entries((await here.request('/openapi.json')).body.paths as Record<string, object>).filter(
    ([path]) => path.startsWith('/operator/'),
  )
  assert.ok(routes.length >= 9)
  const wrong = [
    `Bearer ${here.alice.token}`,
    `Bearer ${token}x`,
    `Bearer ${token.slice(0, -1)}`,
    'Bearer x',
    `Bearer ${'a'.repeat(5_000)}`,
    `Basic ${token}`,
    'Bearer ',
    '',
  ]
  for (const [path, methods] of routes)
    for (const method of Object.keys(methods)) {
      for (const authorization of wrong) {
        const { status, headers, body } = await here.request(path.replace('{clientId}', 'demo'), {
          method: method.toUpperCase(),
          headers: { authorization },
        })
        assert.deepEqual(
          [status, body.code, headers.get('www-authenticate')],
          [401, 'invalid_token', 'Bearer error="invalid_token"'],
          `${method} ${path}`,
        )
      }
    }
  const { status } = await here.request('/v1/me', { headers: { authorization: `Bearer ${token}` } })
  assert.equal(status, 401)
})

test('what cannot be is refused with its places', async () => {
  const many = await operate('POST', '/applications', {
    ...shop,
    name: ' ',
    network: 'mars',
    redirectUris: ['http://shop.example/'],
    permissions: ['users:read'],
  })
  assert.deepEqual([many.status, many.body.code], [400, 'invalid_request'])
  assert.deepEqual(
    many.body.errors.map(({ pointer }: { pointer: string }) => pointer),
    ['/name', '/redirectUris/0', '/permissions/0', '/network'],
  )
  const cases: [string, string, unknown, number, string][] = [
    ['POST', '/applications', { ...shop, clientId: 'demo' }, 409, 'already_exists'],
    ['POST', '/applications', { ...shop, isSuspended: false }, 400, 'unknown_parameter'],
    // Whose application it is, a token does not say.
    ['POST', '/applications', { ...shop, isFirstParty: true }, 400, 'unknown_parameter'],
    ['PATCH', '/applications/demo', { isFirstParty: true }, 400, 'unknown_parameter'],
    ['POST', '/applications', { ...shop, kind: 'secret' }, 400, 'invalid_request'],
    ['POST', '/applications', { name: 'x' }, 400, 'invalid_request'],
    ['POST', '/applications', '{', 400, 'invalid_json'],
    ['POST', '/applications', 'x'.repeat(70_000), 413, 'body_too_large'],
    ['PATCH', '/applications/demo', {}, 400, 'invalid_request'],
    ['PATCH', '/applications/demo', { chainId: 1 }, 400, 'unknown_parameter'],
    ['PATCH', '/applications/demo', { redirectUris: [] }, 400, 'invalid_request'],
    ['PATCH', '/applications/nobody', { name: 'x' }, 404, 'not_found'],
    ['GET', '/applications/nobody', undefined, 404, 'not_found'],
    ['GET', '/applications/%00', undefined, 404, 'not_found'],
    ['POST', '/applications/nobody/suspend', undefined, 404, 'not_found'],
    ['POST', '/applications/nobody/resume', undefined, 404, 'not_found'],
    ['POST', '/applications/nobody/rotate-secret', undefined, 404, 'not_found'],
    ['POST', '/applications/demo/rotate-secret', undefined, 400, 'invalid_request'],
    ['POST', '/applications/demo/reset-secret', undefined, 400, 'invalid_request'],
    ['GET', '/applications?limit=0', undefined, 400, 'invalid_request'],
    ['GET', '/applications?offset=1', undefined, 400, 'unknown_parameter'],
    ['GET', '/networks?x=1', undefined, 400, 'unknown_parameter'],
    ['DELETE', '/networks', undefined, 405, 'method_not_allowed'],
    ['GET', '/nothing', undefined, 404, 'not_found'],
  ]
  for (const [method, path, body, status, code] of cases) {
    const answer = await operate(method, path, body)
    assert.deepEqual(
      [answer.status, answer.body.code],
      [status, code],
      `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}`,
    )
  }
})

test('pages of other origins cannot call it, registered or not', async () => {
  for (const origin of ['http://localhost:3000', 'https://evil.example']) {
    const preflight = await here.request('/operator/v1/applications', {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' },
    })
    assert.equal(preflight.headers.get('access-control-allow-origin'), null)
    const { headers } = await operate('GET', '/applications', undefined, { origin })
    assert.equal(headers.get('access-control-allow-origin'), null)
  }
})

test('a suspended application’s tokens answer 403 on every route and in every process, its sign-ins stop, and both go on when it is resumed', async (t) => {
  const { alice } = here
  assert.equal((await alice.get('/v1/me')).status, 200)
  let clock = Date.now()
  const { clock: real } = here.app
  t.after(() => (here.app.clock = real))
  here.app.clock = withWall(() => clock)
  assert.equal((await operate('POST', '/applications/demo/suspend')).status, 200)
  // A minute is promised; five seconds is how old the list of suspended applications may be.
  clock += 5_001
  for (const path of ['/v1/me', `/v1/users/${alice.userId}/balance`, '/v1/transactions', '/oauth/me']) {
    const { status, body } = await alice.get(path)
    assert.deepEqual([status, body.code], [403, 'application_suspended'], path)
  }
  assert.equal((await alice.post('/v1/contracts/method/write', {})).body.code, 'application_suspended')
  const form = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'demo' }
  const token = await here.request('/oauth/token', { method: 'POST', body: new URLSearchParams(form) })
  assert.equal(token.body.error, 'invalid_client')
  const page = await here.request(
    '/oauth/auth?client_id=demo&response_type=code&scope=openid&redirect_uri=http%3A%2F%2Flocalhost%2Fx&code_challenge=abc&code_challenge_method=S256',
  )
  assert.equal(page.status, 400)

  assert.equal((await operate('POST', '/applications/demo/resume')).status, 200)
  clock += 5_001
  assert.equal((await alice.get('/v1/me')).status, 200)
  // The signer learns of it from the next list, which may be five seconds away: a write before that would be refused.
  await publishNow(here.app)
})

test('requests for a network that is not served at the moment are chain_unavailable, others are served', async () => {
  const demo = (await findApplication(here.app, 'demo'))!
  await changeApplication(here.app, { ...demo, chainId: 5 })
  const carol = await here.person('carol')
  await changeApplication(here.app, demo)
  const answer = await carol.get('/v1/users/DEV-carol/balance')
  assert.deepEqual([answer.status, answer.body.code, answer.body.retryable], [502, 'chain_unavailable', true])
  assert.equal((await here.alice.get(`/v1/users/${here.alice.userId}/balance`)).status, 200)
})

test('the token of a development installation is kept for its user alone', async () => {
  const path = join(here.dataDir, 'operator-token')
  assert.equal((await stat(path)).mode & 0o777, 0o600)
  const again = await openOperatorDoor({
    NODE_ENV: 'development',
    DATA_DIR: here.dataDir,
    OPERATOR_TOKEN_FILE: undefined,
  })
  assert.deepEqual(again!.whose(token), { name: 'this machine', role: 'operator' })
  // A crash between making the file and writing it must not make the empty token the right one.
  const folder = await mkdtemp(join(here.dataDir, 'half-'))
  await writeFile(join(folder, 'operator-token'), '')
  const settings = { NODE_ENV: 'development' as const, DATA_DIR: folder, OPERATOR_TOKEN_FILE: undefined }
  await assert.rejects(openOperatorDoor(settings), /holds no token/)
})

test('production opens it with the hashes of a file, and not at all without', async () => {
  const file = join(here.dataDir, 'operators')
  const [first, second] = [newOperatorToken(), newOperatorToken()]
  const settings = { NODE_ENV: 'production' as const, DATA_DIR: here.dataDir, OPERATOR_TOKEN_FILE: file }
  await writeFile(file, `# the first\n${first.hash}\n\n${second.hash.toUpperCase()}  mira viewer # the second\n`)
  const door = (await openOperatorDoor(settings))!
  assert.deepEqual(
    [first.token, second.token, token, '', first.hash].map((one) => door.whose(one)),
    [{ name: `token ${first.hash.slice(0, 8)}`, role: 'operator' }, { name: 'mira', role: 'viewer' }, null, null, null],
  )
  assert.equal(await openOperatorDoor({ ...settings, OPERATOR_TOKEN_FILE: undefined }), null)
  for (const text of [
    '',
    '# nothing',
    first.token,
    `${first.hash}\nnonsense`,
    `${first.hash} mira owner`,
    `${first.hash} mi/ra`,
    `${first.hash} mira viewer too`,
  ]) {
    await writeFile(file, text)
    await assert.rejects(
      openOperatorDoor(settings),
      (error: Error) => /^OPERATOR_TOKEN_FILE/.test(error.message) && !error.message.includes(first.token),
    )
  }
  await assert.rejects(
    openOperatorDoor({ ...settings, OPERATOR_TOKEN_FILE: join(here.dataDir, 'missing') }),
    /cannot be read/,
  )
  assert.equal(doorOf([]).whose(''), null)
})

test('guessing is limited for each address, right tokens included', async () => {
  const app = appLike(here.app, { config: { ...here.app.config, RATE_LIMITS: 'on' } })
  const server = openListener(app)
  await operatorApi(server, app, doorOf([{ hash: Buffer.alloc(32), name: 'x', role: 'operator' }]))
  const ask = async () =>
    (await server.inject({ url: '/operator/v1/networks', headers: { authorization: 'Bearer guess' } })).statusCode
  const statuses = new Set<number>()
  for (let tries = 0; tries < 100; tries++) statuses.add(await ask())
  assert.deepEqual([...statuses], [401, 429])
  await server.close()
})

test('an account is made for someone who has not signed in yet, and is theirs at the first sign-in', async () => {
  const first = await operate('POST', '/accounts', { provider: 'DEV', providerUserId: 'later' })
  assert.equal(first.status, 201)
  assert.deepEqual([first.body.userId, first.body.isNew], ['DEV-later', true])
  const again = await operate('POST', '/accounts', { provider: 'DEV', providerUserId: 'later' })
  assert.deepEqual(again.body, { ...first.body, isNew: false })
  assert.equal((await here.person('later')).address, first.body.address)
  for (const body of [
    {},
    { provider: 'dev', providerUserId: 'x' },
    { provider: 'DEV', providerUserId: '' },
    { provider: 'DEV', username: 'later' },
  ])
    assert.equal((await operate('POST', '/accounts', body)).status, 400)
  const stranger = await operate(
    'POST',
    '/accounts',
    { provider: 'DEV', providerUserId: 'x' },
    { authorization: `Bearer ${here.alice.token}` },
  )
  assert.equal(stranger.status, 401)
})

test('a frozen account is read and moves nothing, at the door and in the signer; unfrozen it goes on', async () => {
  const { erc20 } = here.facts.contracts
  const carol = await here.person('carol')
  const mint = { address: erc20!, abi: 'mint(address,uint256) public', args: [carol.address, '1'] }
  await carol.write(mint)
  const path = `/accounts/${encodeURIComponent(carol.userId)}`
  const frozen = await operate('POST', `${path}/freeze`)
  assert.deepEqual([frozen.status, frozen.body.userId], [200, carol.userId])
  assert.notEqual(frozen.body.frozenAt, null)
  assert.deepEqual((await operate('GET', '/accounts/frozen')).body, [frozen.body])

  // Too far ahead: with a good token it would be a gap.
  const signed = () =>
    here.app.signer.sign({
      ...{ intentId: `direct-${Math.random()}`, accessToken: carol.token, chainId: here.facts.chainId },
      ...{ from: carol.address, nonce: 1_000, to: carol.address, value: '0', data: '0x', gas: '21000' },
      ...{ maxFeePerGas: '1', maxPriorityFeePerGas: '1', kind: 'send' },
    })
  await until('the door says no', async () => (await carol.post('/v1/contracts/method/write', mint)).status === 403)
  const refused = await carol.post('/v1/contracts/method/write', mint)
  assert.deepEqual([refused.status, refused.body.code], [403, 'account_frozen'])
  await until('the signer says no', () =>
    signed().then(
      () => false,
      ({ code }) => code === 'account_frozen',
    ),
  )
  assert.equal((await carol.get(`/v1/users/${encodeURIComponent(carol.userId)}/balance`)).status, 200)
  const bob = { ...mint, args: [here.bob.address, '1'] }
  await here.bob.write(bob)

  assert.equal((await operate('POST', `${path}/unfreeze`)).body.frozenAt, null)
  assert.deepEqual((await operate('GET', '/accounts/frozen')).body, [])
  await until('it may write again', async () => (await carol.post('/v1/contracts/method/write', mint)).status === 200)
  assert.equal((await operate('POST', '/accounts/DEV-nobody/freeze')).status, 404)
})

test('somebody is signed out everywhere by any identity of theirs, and nobody else is', async () => {
  const signIn = (username: string) => obtainTokens(here.facts, { username, parameters: { client_id: here.facts.clientId, redirect_uri: 'http://127.0.0.1:7777/callback' } }) // prettier-ignore
  const [nina, otto] = [await signIn('nina'), await signIn('otto')]
  const me = async (token: string) => (await here.request('/v1/me', { headers: { authorization: `Bearer ${token}` } })).status // prettier-ignore
  assert.deepEqual([await me(nina.access), await me(otto.access)], [200, 200])
  const done = await operate('POST', '/accounts/DEV-nina/sign-out')
  assert.deepEqual([done.status, done.body], [200, { userId: 'DEV-nina', browsers: 1, applications: 1 }])
  assert.deepEqual([await me(nina.access), await me(otto.access)], [401, 200])
  assert.deepEqual((await operate('POST', '/accounts/DEV-nina/sign-out')).body, { userId: 'DEV-nina', browsers: 0, applications: 0 }) // prettier-ignore
  assert.equal((await operate('POST', '/accounts/DEV-nobody/sign-out')).status, 404)
})
