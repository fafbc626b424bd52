import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { saveApplication } from '../applications/registry.ts'
import {
  askMe,
  authorizationUrl,
  obtainCode,
  obtainTokens,
  post,
  REDIRECT,
  rehearse,
  type Rehearsal,
} from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { reseal } from '../../test/reseal.ts'

let world: Rehearsal
before(async () => {
  world = await rehearse()
  await saveApplication(world.app, { ...world.demo, clientId: 'other' })
  await saveApplication(world.app, {
    ...world.demo,
    clientId: 'web',
    redirectUris: ['https://app.example/callback', 'http://localhost/native', 'com.example.app:/done'],
  })
})
after(() => world.close())

const refresh = (token: string, more: Record<string, string> = {}) =>
  post(world.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo', ...more })

/** Moves the moment at which refresh tokens were used into the past: the grace time is over without waiting. */
const endGrace = async () => {
  await sql`update oauth_records set consumed_at = consumed_at - interval '21 seconds' where kind = 'RefreshToken' and consumed_at is not null`.execute(
    world.app.db,
  )
  await reseal(world.app)
}

const errorOf = async (parameters: Record<string, string | null>): Promise<string | null> => {
  const page = await openBrowser(world.origin).go(authorizationUrl(world.origin, parameters).url)
  const { searchParams, hash } = page.url
  return (
    searchParams.get('error') ??
    new URLSearchParams(hash.slice(1)).get('error') ??
    (page.status === 200 ? null : 'page')
  )
}

test('a request without PKCE S256 is refused', async () => {
  assert.equal(await errorOf({ code_challenge: null, code_challenge_method: null }), 'invalid_request')
  assert.equal(await errorOf({ code_challenge_method: 'plain' }), 'invalid_request')
  assert.equal(await errorOf({ code_challenge_method: null }), 'invalid_request')
  assert.equal(await errorOf({ code_challenge: null }), 'invalid_request')
  assert.equal(await errorOf({ code_challenge: 'short' }), 'invalid_request')
  assert.equal(await errorOf({}), null)
})

test('response types other than code, request objects and other resources are refused', async () => {
  for (const response_type of ['token', 'id_token', 'code id_token', 'code token', 'none']) {
    assert.equal(await errorOf({ response_type }), 'unsupported_response_type')
  }
  assert.equal(await errorOf({ request: 'eyJhbGciOiJub25lIn0.e30.' }), 'request_not_supported')
  assert.equal(await errorOf({ request_uri: 'https://evil.example/request' }), 'request_uri_not_supported')
  assert.equal(await errorOf({ resource: 'https://evil.example/api' }), 'invalid_target')
  assert.equal(await errorOf({ client_id: 'nobody' }), 'page')
  assert.equal(await errorOf({ client_id: 'demo\0' }), 'page')
  assert.equal(await errorOf({ state: '\0' }), 'page')
})

test('redirect addresses match character by character, on loopback with any port', async () => {
  const ask = (redirect_uri: string) => errorOf({ client_id: 'web', redirect_uri })
  for (const good of [
    'https://app.example/callback',
    'http://localhost/native',
    'http://localhost:53120/native',
    'com.example.app:/done',
  ])
    assert.equal(await ask(good), null, good)
  const bad = [
    'https://app.example/callback/',
    'https://app.example/callback/../other',
    'https://app.example/callback?x=1',
    'https://app.example/callback#x',
    'https://APP.example/callback2',
    'https://app.example.evil.example/callback',
    'https://evil.example/callback',
    'https://app.example@evil.example/callback',
    'https://app.example:8443/callback',
    'http://app.example/callback',
    '//app.example/callback',
    'javascript:alert(1)',
    'com.example.app:/other',
    'http://localhost:53120/other',
    'http://localhost.evil.example/native',
    'http://localhost@evil.example/native',
    'http://localhost:53120@evil.example/native',
    'http://evil.example\\@localhost/native',
    'https://localhost/native',
    'http://127.0.0.1/native',
  ]
  for (const uri of bad) assert.equal(await ask(uri), 'page', uri)
})

test('the demo application may use any path on loopback, and nothing else', async () => {
  const ask = (redirect_uri: string) => errorOf({ redirect_uri })
  for (const good of ['http://localhost:1/a/b?c=d', 'http://127.0.0.1:65535/', 'http://[::1]:8080/x'])
    assert.equal(await ask(good), null, good)
  for (const bad of [
    'http://localhost:1/a#b',
    'http://localhost:1@evil.example/',
    'http://evil.example/',
    'https://localhost/',
    'http://127.0.0.2/',
    'http://localhost\\.evil.example/',
  ]) {
    assert.equal(await ask(bad), 'page', bad)
  }
})

test('a code is good for its verifier, its redirect address and its client only', async () => {
  const { exchange } = await obtainCode(world)
  assert.equal((await exchange({ code_verifier: 'x'.repeat(43) })).body.error, 'invalid_grant')
  assert.equal((await exchange({ code_verifier: '' })).body.error, 'invalid_grant')
  assert.equal((await exchange({ redirect_uri: 'http://localhost:9/else' })).body.error, 'invalid_grant')
  assert.equal((await exchange({ client_id: 'other' })).body.error, 'invalid_grant')
  assert.equal((await exchange({ code: 'unknown' })).body.error, 'invalid_grant')
  assert.equal((await exchange()).status, 200, 'wrong attempts do not spend it')
})

test('a code used twice is refused, and ends what it gave', async () => {
  const { exchange } = await obtainCode(world)
  const { body } = await exchange()
  assert.equal((await askMe(world.origin, body.access_token!)).status, 200)
  assert.equal((await exchange()).body.error, 'invalid_grant')
  assert.equal((await askMe(world.origin, body.access_token!)).status, 401)
  assert.equal((await refresh(body.refresh_token!)).body.error, 'invalid_grant')
})

test('a code expires', async () => {
  const { exchange } = await obtainCode(world)
  await sql`update oauth_records set payload = jsonb_set(payload, '{exp}', '1') where kind = 'AuthorizationCode'`.execute(
    world.app.db,
  )
  await reseal(world.app)
  assert.equal((await exchange()).body.error, 'invalid_grant')
})

test('each use of a refresh token gives the next one, and within the grace time the same one', async () => {
  const first = (await obtainTokens(world)).refresh
  const second = (await refresh(first)).body.refresh_token!
  assert.notEqual(second, first)
  assert.equal((await refresh(first)).body.refresh_token, second)
  const third = (await refresh(second)).body.refresh_token!
  assert.notEqual(third, second)
  assert.equal((await refresh(first)).body.refresh_token, second, 'still the same, though it was used since')
  assert.equal((await refresh(second)).body.refresh_token, third)
})

test('a refresh token used again after the grace time revokes the whole family', async () => {
  const { refresh: first, access } = await obtainTokens(world)
  const second = (await refresh(first)).body
  await endGrace()
  assert.equal((await refresh(first)).body.error, 'invalid_grant')
  assert.equal((await refresh(second.refresh_token!)).body.error, 'invalid_grant')
  for (const token of [access, second.access_token!]) assert.equal((await askMe(world.origin, token)).status, 401)
})

test('what ends one sign-in leaves the same person’s other sign-ins alone', async () => {
  const [phone, laptop] = [await obtainTokens(world), await obtainTokens(world)]
  await refresh(phone.refresh)
  await endGrace()
  assert.equal((await refresh(phone.refresh)).body.error, 'invalid_grant')
  assert.equal((await askMe(world.origin, laptop.access)).status, 200)
  assert.equal((await refresh(laptop.refresh)).status, 200)
})

test('a refresh token is of no use to another client, and gives no more than it had', async () => {
  const { refresh: token } = await obtainTokens(world, { parameters: { scope: 'openid wallet:read contracts:read' } })
  assert.equal((await refresh(token, { client_id: 'other' })).body.error, 'invalid_grant')
  assert.equal((await refresh(token, { scope: 'openid contracts:write' })).body.error, 'invalid_scope')
  const narrower = await refresh(token, { scope: 'openid wallet:read' })
  assert.equal(narrower.body.scope, 'openid wallet:read')
})

test('other grant types are refused', async () => {
  for (const grant_type of ['password', 'implicit', 'urn:ietf:params:oauth:grant-type:device_code']) {
    assert.equal(
      (await post(world.origin, '/oauth/token', { grant_type, client_id: 'demo', username: 'a', password: 'b' })).body
        .error,
      'unsupported_grant_type',
    )
  }
})

test('a grant lives as long as its newest refresh token', async () => {
  const { refresh: token } = await obtainTokens(world)
  const soon = Math.floor(Date.now() / 1_000) + 100
  await sql`update oauth_records set expires_at = to_timestamp(${soon}), payload = jsonb_set(payload, '{exp}', to_jsonb(${soon}::bigint)) where kind = 'Grant'`.execute(
    world.app.db,
  )
  assert.equal((await refresh(token)).status, 200)
  const newest = await world.app.db.selectFrom('oauth_records').select('payload').where('kind', '=', 'Grant').execute()
  assert.equal(newest.filter(({ payload }) => Number(payload.exp) > soon + 2_000_000).length, 1)
})

test('a client looks at its own tokens and takes them back, refresh and access tokens alike', async () => {
  const mine = await obtainTokens(world)
  const look = async (token: string, client_id = 'demo') =>
    (await post(world.origin, '/oauth/token/introspection', { token, client_id })).body as Record<string, unknown>
  const seen = await look(mine.access)
  assert.deepEqual(
    [seen.active, seen.sub, seen.client_id, seen.scope, seen.token_type],
    [true, 'DEV-alice', 'demo', mine.scope, 'Bearer'],
  )
  assert.equal((await look(mine.refresh)).active, true)
  assert.deepEqual(await look(mine.access, 'other'), { active: false })
  assert.deepEqual(await look(mine.id), { active: false })
  assert.deepEqual(await look('nonsense'), { active: false })

  await post(world.origin, '/oauth/token/revocation', { token: mine.access, client_id: 'other' })
  assert.equal((await askMe(world.origin, mine.access)).status, 200, 'nobody revokes a token of another client')
  assert.equal(
    (await post(world.origin, '/oauth/token/revocation', { token: mine.access, client_id: 'demo' })).status,
    200,
  )
  assert.equal((await askMe(world.origin, mine.access)).status, 401)
  assert.deepEqual(await look(mine.access), { active: false })
  assert.equal((await refresh(mine.refresh)).body.error, 'invalid_grant')

  const next = await obtainTokens(world)
  await post(world.origin, '/oauth/token/revocation', { token: next.refresh, client_id: 'demo' })
  assert.equal((await askMe(world.origin, next.access)).status, 401)
})

test('no credential lies in the database or in the log', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'canary' })
  const { body } = await exchange()
  const next = (await refresh(body.refresh_token!)).body
  await exchange()
  const rows = await world.app.db.selectFrom('oauth_records').selectAll().execute()
  const visits = await world.app.db.selectFrom('sign_ins').select(['state_hash', 'browser_hash']).execute()
  const stored = JSON.stringify([rows, visits])
  const logged = JSON.stringify(world.logged, (_key, value: unknown) =>
    value instanceof Error ? [value.message, value.stack, value.cause] : value,
  )
  const credentials = [
    code,
    body.access_token,
    body.refresh_token,
    body.id_token,
    next.access_token,
    next.refresh_token,
  ]
  for (const credential of credentials) {
    assert.ok(!stored.includes(credential!))
    assert.ok(!logged.includes(credential!))
  }
  const sessions = rows.filter(({ kind }) => kind === 'Session')
  assert.ok(sessions.length > 0 && sessions.every(({ payload }) => payload.jti === undefined))
  const interactions = rows.filter(({ kind }) => kind === 'Interaction')
  assert.ok(
    interactions.every(({ payload }) => (payload.session as { cookie?: string } | undefined)?.cookie === undefined),
  )
})

test('only registered origins may call the token endpoint from a page', async () => {
  const call = async (origin: string) => {
    const { exchange } = await obtainCode(world)
    const answer = await exchange({})
    const response = await fetch(`${world.origin}/oauth/token`, {
      method: 'POST',
      headers: { origin },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: answer.body.refresh_token!,
        client_id: 'demo',
      }),
    })
    return { status: response.status, allowed: response.headers.get('access-control-allow-origin') }
  }
  assert.deepEqual(await call('http://localhost:5173'), { status: 200, allowed: 'http://localhost:5173' })
  assert.deepEqual(await call('https://evil.example'), { status: 400, allowed: null })
})

test('a redirect with another state keeps it as it was sent', async () => {
  const state = 'ä & b=c#d'
  const page = await openBrowser(world.origin).signIn(authorizationUrl(world.origin, { state }).url, 'alice')
  assert.equal(page.url.searchParams.get('state'), state)
  assert.equal(page.url.origin + page.url.pathname, REDIRECT)
})
