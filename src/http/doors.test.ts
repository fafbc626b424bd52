// tier: default, because it tries every door of the API
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { importJWK, SignJWT, type JWK } from 'jose'
import { audienceOf, issuerOf } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { updateApplication } from '../applications/manage.ts'
import { noteUser, saveApplication } from '../applications/registry.ts'
import { accountIdOf } from '../ids.ts'
import { withWall } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type Person, type World } from '../../test/world.ts'
import { addConsent } from '../oauth/consents.ts'
import { addRevokedGrant } from './bearer.ts'

/** Consents are not asked for here. */
const ANY = { redirectUris: [], secretHashes: [] }

/**
 * Every route of the API behind every wrong key. The routes are those of the OpenAPI document, so a new one is tried
 * as soon as it is there, and fails here until someone has said what it needs.
 */
type Route = { method: string; template: string; security: unknown }

/** What a token needs for a route: nothing but to be one of ours. */
const OPEN_TO_ANY = ['GET /v1/me', 'GET /v1/approvals/{id}', 'POST /v1/signatures/verify']
/** What answers from our own tables alone, whatever network the application is bound to. */
const WITHOUT_NETWORK = [
  'GET /v1/users',
  'GET /v1/users/{userId}',
  'GET /v1/transactions',
  'GET /v1/transactions/{id}',
  'GET /v1/signatures',
  'GET /v1/signatures/{id}',
  'GET /v1/approvals/{id}',
]
const UNKNOWN_NETWORK = 999_999

let here: World
let routes: Route[]
let key: JWK
/** what bob has, by the route that reads it: a transaction, a signature, a question */
let ofBob: { transactions: string; signatures: string; approvals: string; webhooks: string }
before(async () => {
  here = await world()
  const { body: document } = await here.request('/openapi.json')
  type Operation = { security?: unknown }
  routes = Object.entries(document.paths as Record<string, Record<string, Operation>>).flatMap(
    ([template, operations]) =>
      template.startsWith('/v1/')
        ? Object.entries(operations).map(([method, { security }]) => ({
            method: method.toUpperCase(),
            template,
            security,
          }))
        : [],
  )
  const { keys } = JSON.parse(await readFile(join(here.dataDir, 'auth-keys.json'), 'utf8')) as { keys: JWK[] }
  key = keys.find(({ alg }) => alg === 'ES256')!
  const application: Application = {
    clientId: 'stopped',
    name: 'Stopped',
    chainId: here.facts.chainId,
    kind: 'public',
    redirectUris: ['http://localhost/x'],
    permissions: ['wallet:read', 'contracts:read', 'contracts:write', 'messages:sign'],
    allowedOrigins: [],
    secretHashes: [],
    logoUri: null,
    isSuspended: true,
    sponsor: null,
  }
  await saveApplication(here.app, application)
  await saveApplication(here.app, { ...application, clientId: 'second', isSuspended: false })
  const permissions = [
    'wallet:read',
    'contracts:read',
    'contracts:write',
    'messages:sign',
    'users:directory',
    'events:read',
  ]
  await updateApplication(here.app, here.facts.clientId, { permissions })
  // Alice signed in to `backend` as well; nobody ever signed in to `stranger`.
  for (const clientId of ['backend', 'stranger'])
    await saveApplication(here.app, {
      ...application,
      clientId,
      kind: 'confidential',
      permissions: ['wallet:read', 'users:read', 'events:read'],
      secretHashes: ['0'.repeat(64)],
      isSuspended: false,
    })
  await noteUser(here.app.db, { clientId: 'backend', accountId: accountIdOf('DEV', 'alice') })
  await addConsent(here.app, { accountId: accountIdOf('DEV', 'alice'), clientId: 'backend', permissions: ['users:read'], application: ANY }) // prettier-ignore
  const { body } = await here.bob.write({ address: here.facts.contracts.erc20!, abi: 'mint(address,uint256) public', args: [here.bob.address, '1'] }) // prettier-ignore
  const asked = { 'idempotency-key': 'door' }
  const signed = await here.bob.post('/v1/signatures/typed-data', { typedData: permitOf(here.bob) }, asked)
  const question = await here.bob.post('/v1/signatures/message', { message: 'Hello' }, asked)
  ofBob = {
    transactions: body.id,
    signatures: signed.body.id,
    approvals: question.body.approval.id,
    webhooks: 'whk_none',
  }
})
after(() => here.close())

/** A token signed with the right key that says what a case wants. */
async function tokenOf(claims: Record<string, unknown> = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1_000)
  return new SignJWT({
    iss: issuerOf(here.app),
    aud: audienceOf(here.app.origin),
    sub: here.alice.userId,
    client_id: here.facts.clientId,
    chain_id: here.facts.chainId,
    gid: 'doors',
    jti: Math.random().toString(36),
    scope: 'openid wallet:read contracts:read contracts:write messages:sign users:directory',
    iat: now,
    exp: now + 600,
    ...claims,
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid! })
    .sign(await importJWK(key, 'ES256'))
}

const machines = new Set<string>()
/** A token of an application for itself. */
async function machineOf(clientId: string, claims: Record<string, unknown> = {}): Promise<string> {
  const token = await tokenOf({ sub: clientId, client_id: clientId, gid: undefined, scope: 'users:read', ...claims })
  machines.add(token)
  return token
}

/** A permit that is signed without asking anyone. */
const permitOf = ({ address }: Pick<Person, 'address'>) => ({
  types: { Permit: ['owner', 'spender', 'value', 'nonce', 'deadline'].map((name, index) => ({ name, type: index < 2 ? 'address' : 'uint256' })) }, // prettier-ignore
  primaryType: 'Permit',
  domain: { name: 'Sample', version: '1', chainId: here.facts.chainId, verifyingContract: here.facts.contracts.erc20! },
  message: { owner: address, spender: here.alice.address, value: '1', nonce: '0', deadline: String(Math.floor(Date.now() / 1_000) + 600) }, // prettier-ignore
})

/** Bodies that are right, so that only the token can be what is wrong. */
const bodyOf = (template: string): unknown => {
  const address = here.facts.contracts.erc20!
  const read = { address, abi: 'totalSupply() public view returns (uint256)' }
  const write = { address, abi: 'mint(address,uint256) public', args: [here.alice.address, '1'] }
  const bodies: Record<string, unknown> = {
    '/v1/contracts/method/read': read,
    '/v1/rpc': { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber' },
    '/v1/contracts/method/read/batch': { calls: [read] },
    '/v1/contracts/method/write': write,
    '/v1/contracts/method/write/batch': { calls: [write, write] },
    '/v1/tokens/transfers': { tokenType: 'NATIVE', amount: '0.001', toAddress: here.bob.address },
    '/v1/transactions': { to: here.bob.address, value: '1' },
    '/v1/signatures/message': { message: 'Hello', dryRun: true },
    '/v1/signatures/typed-data': { typedData: permitOf(here.alice), dryRun: true },
    '/v1/signatures/verify': { address, message: 'Hello', signature: '0x' },
    '/v1/transactions/{id}/cancel': undefined,
    '/v1/transactions/{id}/speed-up': undefined,
    '/v1/webhooks': { url: 'https://shop.example/webhooks' },
    '/v1/webhooks/{id}': { types: ['*'] },
    '/v1/webhooks/{id}/test': undefined,
    '/v1/webhooks/{id}/rotate-secret': undefined,
    '/v1/webhooks/{id}/enable': undefined,
    '/v1/webhooks/{id}/replay': { from: '2026-01-31T12:00:00Z' },
    '/v1/webhooks/{id}/redeliver': { eventId: `evt_${'0'.repeat(32)}` },
  }
  assert.ok(template in bodies, `say in this test what the body of ${template} is`)
  return bodies[template]
}

async function call(
  { method, template }: Route,
  token: string | null,
  values: Record<string, string> = {},
): Promise<Answer> {
  const known: Record<string, string> = { userId: here.alice.userId, tokenAddress: here.facts.contracts.erc20!, id: idOf(template), ...values } // prettier-ignore
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    assert.ok(known[name] !== undefined, `say in this test what {${name}} of ${template} is`)
    return encodeURIComponent(known[name])
  })
  const body = method === 'GET' ? undefined : bodyOf(template)
  // A user looks someone up by name; an application lists.
  const isLookUp = template === '/v1/users' && !machines.has(token ?? '')
  return here.request(isLookUp ? `${path}?username=nobody` : path, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

/** What bob has that a route reads. */
const idOf = (template: string): string => ofBob[template.split('/')[2] as keyof typeof ofBob]
/** Routes that users may call; the others are for applications by themselves. */
const forUsers = (): Route[] => routes.filter(({ template }) => !template.startsWith('/v1/webhooks'))
/** The refusal of what is not there. */
const missingFrom = (template: string): string =>
  template.startsWith('/v1/transactions/') ? 'transaction_not_found' : 'not_found'

const nameOf = ({ method, template }: Route): string => `${method} ${template}`
const plain = ({ status, body: { requestId: _r, instance: _i, ...rest } }: Answer) => ({ status, ...rest })

test('a token that was good a moment ago is refused from the second in which it expires', async (t) => {
  const exp = Math.floor(Date.now() / 1_000) + 600
  const token = await tokenOf({ exp })
  const { clock } = here.app
  t.after(() => (here.app.clock = clock))
  const ask = () => here.request('/v1/me', { headers: { authorization: `Bearer ${token}` } })
  assert.equal((await ask()).status, 200)
  assert.equal((await ask()).status, 200)
  here.app.clock = withWall(() => exp * 1_000)
  const { status, body } = await ask()
  assert.deepEqual(
    [status, body.code, body.detail],
    [401, 'invalid_token', 'The access token has expired. Nothing was done. Get a new access token.'],
  )
})

suite('every route of the API refuses', () => {
  const past = Math.floor(Date.now() / 1_000) - 10
  const wrong: Record<string, () => Promise<string | null> | string | null> = {
    'no token': () => null,
    'a word': () => 'word',
    'an expired token': () => tokenOf({ iat: past - 60, exp: past }),
    'a token of another issuer': () => tokenOf({ iss: 'https://evil.example/oauth' }),
    'a token for another service': () => tokenOf({ aud: 'https://evil.example/v1' }),
    'a token of a user who does not exist': () => tokenOf({ sub: 'DEV-nobody-at-all' }),
    'a revoked token': () => tokenOf({ gid: 'revoked' }),
    'a token of the operator': async () => (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim(),
  }
  for (const [name, make] of Object.entries(wrong))
    test(name, async () => {
      await here.app.db.insertInto('revoked_grants').values({ grant_id: 'revoked', forget_at: new Date(Date.now() + 600_000) }).onConflict((on) => on.doNothing()).execute() // prettier-ignore
      addRevokedGrant(here.app, 'revoked')
      for (const route of routes) {
        const { status, headers, body } = await call(route, await make())
        assert.deepEqual([status, body.code], [401, 'invalid_token'], nameOf(route))
        assert.equal(headers.get('www-authenticate'), 'Bearer error="invalid_token"', nameOf(route))
      }
    })

  test('a token without the permission, with 403 and never 401', async () => {
    const token = await tokenOf({ scope: 'openid email' })
    for (const route of routes) {
      const { status, headers, body } = await call(route, token)
      if (OPEN_TO_ANY.includes(nameOf(route)))
        assert.equal(status, route.template.includes('{id}') ? 404 : 200, nameOf(route))
      else {
        assert.deepEqual([status, body.code], [403, 'insufficient_scope'], nameOf(route))
        assert.equal(headers.get('www-authenticate'), 'Bearer error="insufficient_scope"', nameOf(route))
      }
    }
  })

  test('a token of an application that was stopped, with 403 and never 401', async () => {
    const token = await tokenOf({ client_id: 'stopped' })
    const me = { authorization: `Bearer ${token}` }
    await until('it is known', async () => (await here.request('/v1/me', { headers: me })).status === 403)
    for (const route of routes) {
      const { status, body } = await call(route, token)
      assert.deepEqual([status, body.code], [403, 'application_suspended'], nameOf(route))
    }
  })

  test('a token of a frozen account, where something would be written and nowhere else', async () => {
    const frozen = await here.person('frozen')
    await here.app.db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', frozen.userId).execute() // prettier-ignore
    const token = await tokenOf({ sub: frozen.userId })
    // Not the write itself: the signer may be the first to refuse that.
    const cancel = routes.find(({ template }) => template.endsWith('/cancel'))!
    await until('it is known', async () => (await call(cancel, token)).status === 403)
    let written = 0
    for (const route of forUsers()) {
      const { status, body } = await call(route, token, { userId: frozen.userId })
      if (body.code === 'account_frozen') written += 1
      const isWrite = route.method === 'POST' && !/\/read|\/(verify|rpc)$/.test(route.template)
      assert.equal(body.code === 'account_frozen', isWrite, `${nameOf(route)} ${status}`)
    }
    assert.ok(written >= 3)
  })

  test('another user, in the same words whether there is one or not', async () => {
    const token = await tokenOf()
    const named = routes.filter(({ template }) => template.includes('{userId}'))
    assert.ok(named.length >= 5)
    for (const route of named) {
      const there = await call(route, token, { userId: here.bob.userId })
      const nobody = await call(route, token, { userId: 'DEV-nobody-at-all' })
      assert.deepEqual([there.status, there.body.code], [403, 'forbidden_user'], nameOf(route))
      assert.deepEqual(plain(there), plain(nobody), nameOf(route))
    }
  })

  test('another user’s transaction, in the same words whether there is one or not', async () => {
    const token = await tokenOf()
    const named = forUsers().filter(({ template }) => template.includes('{id}'))
    assert.ok(named.length >= 3)
    for (const route of named) {
      const there = await call(route, token)
      const nothing = await call(route, token, { id: 'tx_00000000-0000-4000-8000-000000000000' })
      assert.deepEqual([there.status, there.body.code], [404, missingFrom(route.template)], nameOf(route))
      assert.deepEqual(plain(there), plain(nothing), nameOf(route))
    }
  })

  test('another application of the same person: what the first one sent is not there, cannot be read and not stopped', async () => {
    const asBob = { sub: here.bob.userId }
    const [own, others] = [await tokenOf(asBob), await tokenOf({ ...asBob, client_id: 'second' })]
    const list: Route = { method: 'GET', template: '/v1/transactions', security: null }
    const idsOf = async (token: string): Promise<string[]> =>
      (await call(list, token)).body.map(({ id }: { id: string }) => id)
    assert.deepEqual([(await idsOf(own)).includes(ofBob.transactions), await idsOf(others)], [true, []])
    for (const route of forUsers().filter(({ template }) => template.includes('{id}'))) {
      const there = await call(route, others)
      const nothing = await call(route, others, { id: 'tx_00000000-0000-4000-8000-000000000000' })
      assert.deepEqual([there.status, there.body.code], [404, missingFrom(route.template)], nameOf(route))
      assert.deepEqual(plain(there), plain(nothing), nameOf(route))
    }
  })

  test('another network: nothing of ours is answered for it', async () => {
    const token = await tokenOf({ chain_id: UNKNOWN_NETWORK })
    for (const route of forUsers()) {
      const { status, body } = await call(route, token)
      if (WITHOUT_NETWORK.includes(nameOf(route)))
        assert.ok([200, 404, 502].includes(status), `${nameOf(route)} ${status}`)
      else if (route.template.includes('{id}')) assert.ok([404, 502].includes(status), `${nameOf(route)} ${status}`)
      else assert.deepEqual([status, body.code], [502, 'chain_unavailable'], nameOf(route))
    }
  })
})

/** Where an application may read for itself, by what these routes say of themselves. */
const FOR_MACHINES = [
  'GET /v1/users',
  'GET /v1/users/{userId}',
  'GET /v1/users/{userId}/balance',
  'GET /v1/users/{userId}/balance/{tokenAddress}',
  'GET /v1/users/{userId}/balances',
  'GET /v1/users/{userId}/nfts',
  'GET /v1/users/{userId}/history',
]

suite('the token of an application for itself', () => {
  test('reads who signed in to it, and is refused as 403 everywhere else', async () => {
    const token = await machineOf('backend')
    let open = 0
    for (const route of routes) {
      const { status, headers, body } = await call(route, token)
      if (FOR_MACHINES.includes(nameOf(route))) {
        assert.equal(status, 200, nameOf(route))
        open++
      } else {
        assert.deepEqual([status, body.code], [403, 'insufficient_scope'], nameOf(route))
        assert.equal(headers.get('www-authenticate'), 'Bearer error="insufficient_scope"', nameOf(route))
      }
    }
    assert.equal(open, FOR_MACHINES.length)
  })

  test('of another application, and without the permission, reads nobody', async () => {
    for (const [token, code] of [
      [await machineOf('stranger'), 'forbidden_user'],
      [await machineOf('backend', { scope: '' }), 'insufficient_scope'],
      [await machineOf('backend', { scope: 'wallet:read contracts:write' }), 'insufficient_scope'],
    ] as const)
      for (const route of routes) {
        const { status, body } = await call(route, token)
        const expected = FOR_MACHINES.includes(nameOf(route)) ? code : 'insufficient_scope'
        if (nameOf(route) === 'GET /v1/users' && code === 'forbidden_user') assert.deepEqual([status, body], [200, []])
        else assert.deepEqual([status, body.code], [403, expected], nameOf(route))
      }
  })

  test('expired, revoked, suspended or of another service, it is refused like every other', async () => {
    const past = Math.floor(Date.now() / 1_000) - 10
    for (const [claims, status, code] of [
      [{ iat: past - 60, exp: past }, 401, 'invalid_token'],
      [{ aud: 'https://evil.example/v1' }, 401, 'invalid_token'],
      [{ client_id: 'stopped', sub: 'stopped' }, 403, 'application_suspended'],
    ] as const)
      for (const route of routes) {
        const answer = await call(route, await machineOf('backend', claims))
        assert.deepEqual([answer.status, answer.body.code], [status, code], nameOf(route))
      }
  })
})

test('a user’s token of another application reads the same account, and has that application’s permissions only', async () => {
  const [mine, theirs] = [await tokenOf(), await tokenOf({ client_id: 'backend', scope: 'openid wallet:read' })]
  for (const route of forUsers()) {
    const { status, body } = await call(route, theirs)
    if (route.method === 'GET' && !route.template.includes('{id}') && route.template !== '/v1/users') {
      assert.equal(status, 200, nameOf(route))
      if (route.template.startsWith('/v1/users/')) assert.deepEqual(body, (await call(route, mine)).body, nameOf(route))
    } else if (!OPEN_TO_ANY.includes(nameOf(route)))
      assert.ok(status === 403 || status === 404, `${nameOf(route)} ${status}`)
  }
})

test('whether a user exists changes neither the answer nor what is done for it', async () => {
  // Time on a busy machine says nothing; the statements that are run say what the time is spent on.
  const executor = here.app.db.getExecutor()
  const run = executor.executeQuery.bind(executor)
  let about = ''
  let ran: string[] = []
  executor.executeQuery = ((query: { sql: string; parameters: readonly unknown[] }, ...rest: never[]) => {
    if (about !== '' && query.parameters.includes(about)) ran.push(query.sql)
    return (run as (...args: unknown[]) => unknown)(query, ...rest)
  }) as never
  try {
    const watch = async (route: Route, token: string, subject: string) => {
      ;[about, ran] = [subject, []]
      const answer = plain(await call(route, token, { userId: `DEV-${subject}` }))
      about = ''
      return { answer, ran }
    }
    // Long names, so that nothing else that runs meanwhile has them among its parameters.
    await here.person('somebody-who-is-here')
    const named = routes.filter(({ template }) => template.includes('{userId}'))
    let looked = 0
    for (const token of [await tokenOf(), await machineOf('backend'), await machineOf('stranger')])
      for (const route of named) {
        const there = await watch(route, token, 'somebody-who-is-here')
        const nobody = await watch(route, token, 'somebody-who-is-not')
        assert.deepEqual(there, nobody, nameOf(route))
        assert.equal(there.answer.status, 403, nameOf(route))
        looked += there.ran.length
      }
    // One more where a user with `users:directory` may see the profile of another.
    assert.equal(looked, 3 * named.length + 1, 'one statement decides it, each time')
  } finally {
    executor.executeQuery = run as never
  }
})

test('every route of the document says that it needs a token', () => {
  assert.ok(routes.length >= 12, `${routes.length} routes`)
  for (const route of routes) {
    const ways = route.security as Record<string, string[]>[]
    assert.deepEqual([...new Set(ways.flatMap((way) => Object.keys(way)))], ['oauth'], nameOf(route))
  }
})
