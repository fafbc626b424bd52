import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import { saveApplication } from '../applications/registry.ts'
import { reseal } from '../../test/reseal.ts'
import {
  askMe,
  authorizationUrl,
  obtainTokens,
  post,
  REDIRECT,
  rehearse,
  type Rehearsal,
} from '../../test/rehearsal.ts'
import { openBrowser, textOf } from '../../test/kit/browser.ts'

/** Corners of the standards that independent clients look into. */
let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

const ORIGIN = 'http://localhost:5173'
const ask = (path: string, init: RequestInit = {}) => fetch(`${world.origin}${path}`, { redirect: 'manual', ...init })

test('pages of a registered origin read userinfo and its refusals, pages of others do not', async () => {
  const { access } = await obtainTokens(world)
  for (const [origin, allowed] of [
    [ORIGIN, ORIGIN],
    ['https://elsewhere.example', null],
    ['null', null],
  ] as const) {
    const preflight = await ask('/oauth/me', {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' },
    })
    assert.equal(preflight.status, 204)
    assert.equal(preflight.headers.get('access-control-allow-origin'), allowed)
    if (allowed !== null) assert.match(preflight.headers.get('access-control-allow-headers')!, /authorization/i)
    for (const token of [access, 'nonsense']) {
      const answer = await ask('/oauth/me', { headers: { origin, authorization: `Bearer ${token}` } })
      assert.equal(answer.headers.get('access-control-allow-origin'), allowed, `${origin} ${answer.status}`)
      assert.equal(answer.headers.get('access-control-allow-credentials'), null)
      assert.match(answer.headers.get('vary')!, /origin/i)
    }
  }
})

test('pages of a registered origin revoke a token, and the answer is JSON', async () => {
  const { refresh } = await obtainTokens(world)
  const preflight = await ask('/oauth/token/revocation', {
    method: 'OPTIONS',
    headers: { origin: ORIGIN, 'access-control-request-method': 'POST' },
  })
  assert.equal(preflight.headers.get('access-control-allow-origin'), ORIGIN)
  for (const token of [refresh, refresh, 'unknown']) {
    const answer = await ask('/oauth/token/revocation', {
      method: 'POST',
      headers: { origin: ORIGIN },
      body: new URLSearchParams({ token, client_id: 'demo' }),
    })
    assert.deepEqual([answer.status, await answer.json()], [200, {}])
    assert.match(answer.headers.get('content-type')!, /^application\/json/)
    assert.equal(answer.headers.get('access-control-allow-origin'), ORIGIN)
  }
  const refused = await post(world.origin, '/oauth/token/revocation', { client_id: 'demo' })
  assert.deepEqual([refused.status, refused.body.error], [400, 'invalid_request'])
})

test('what discovery lists is given, and what is given is listed', async () => {
  const described = (await (await ask('/oauth/.well-known/openid-configuration')).json()) as Record<string, string[]>
  assert.deepEqual(described.scopes_supported, ['openid', 'profile', 'email', 'offline_access', 'wallet:read', 'contracts:read', 'contracts:write', 'messages:sign', 'users:directory', 'users:read', 'events:read', 'webhooks:manage']) // prettier-ignore
  const { access, id } = await obtainTokens(world, { parameters: { scope: 'openid profile email', max_age: '600' } })
  const { body } = await askMe(world.origin, access)
  const given = new Set([...Object.keys(body), ...Object.keys(decodeJwt(id))])
  for (const claim of described.claims_supported!) assert.ok(given.has(claim), `${claim} is listed and not given`)
  const ofEveryToken = ['aud', 'exp', 'iat', 'nonce', 'at_hash', 'id', 'provider', 'imageSrc']
  for (const claim of given)
    assert.ok(described.claims_supported!.includes(claim) || ofEveryToken.includes(claim), `${claim} is not listed`)
  assert.deepEqual([body.name, body.preferred_username, body.picture], [body.username, body.username, body.imageSrc])
})

test('HEAD of discovery and of the keys is answered like GET, without a body', async () => {
  for (const path of [
    '/oauth/jwks',
    '/oauth/.well-known/openid-configuration',
    '/oauth/.well-known/oauth-authorization-server',
  ]) {
    const [head, get] = [await ask(path, { method: 'HEAD' }), await ask(path)]
    assert.deepEqual(
      [head.status, head.headers.get('content-type'), await head.text()],
      [200, get.headers.get('content-type'), ''],
    )
  }
})

test('who sends no token to userinfo is told so without an error code, who sends a bad one with it', async () => {
  const bare = await ask('/oauth/me')
  assert.deepEqual([bare.status, bare.headers.get('www-authenticate')], [401, 'Bearer'])
  const bad = await ask('/oauth/me', { headers: { authorization: 'Bearer nonsense' } })
  assert.deepEqual([bad.status, bad.headers.get('www-authenticate')], [401, 'Bearer error="invalid_token"'])
})

test('a sign-in may begin by POST', async () => {
  const browser = openBrowser(world.origin)
  const begun = authorizationUrl(world.origin)
  const page = await browser.go('/oauth/auth', { method: 'POST', body: new URL(begun.url).searchParams })
  assert.match(page.url.pathname, /^\/login\//)
  const answer = await ask('/oauth/auth', { method: 'POST', body: new URL(begun.url).searchParams })
  assert.equal(answer.status, 303)
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  const elsewhere = await ask('/oauth/auth', { method: 'POST', body: new URLSearchParams({ client_id: '\r\nlocation: https://evil.example' }) }) // prettier-ignore
  assert.ok(elsewhere.headers.get('location')!.startsWith('/oauth/auth?client_id=%0D%0A'))
  for (const [type, body] of [
    ['application/json', '{}'],
    ['application/x-www-form-urlencoded', 'x'.repeat(9_000)],
  ] as const)
    assert.ok((await ask('/oauth/auth', { method: 'POST', headers: { 'content-type': type }, body })).status < 500)
})

test('a sign-out may begin by POST, and a bad one is called a sign-out', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn(authorizationUrl(world.origin).url, 'lea')
  const page = await browser.go('/oauth/session/end', {
    method: 'POST',
    body: new URLSearchParams({ client_id: 'demo', post_logout_redirect_uri: REDIRECT }),
  })
  assert.match(textOf(page.text), /Sign out\?/)
  const bad = await browser.go(`/oauth/session/end?client_id=demo&post_logout_redirect_uri=https://evil.example`)
  assert.equal(bad.status, 400)
  assert.match(textOf(bad.text), /This sign-out is not possible/)
  assert.doesNotMatch(textOf(bad.text), /sign-in cannot be started/)
})

test('prompt=select_account shows the chooser, and somebody else may be chosen', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn(authorizationUrl(world.origin).url, 'mia')
  const begun = authorizationUrl(world.origin, { prompt: 'select_account' })
  const chooser = await browser.go(begun.url)
  assert.match(chooser.url.pathname, /^\/login\//)
  const dev = await browser.submit(chooser, '/DEV')
  let page = await browser.submit(dev, '/sign-in/', { username: 'mio' })
  if (page.url.pathname.startsWith('/consent/')) page = await browser.submit(page, '/consent/', { answer: 'allow' })
  const { body } = await post(world.origin, '/oauth/token', {
    grant_type: 'authorization_code',
    code: page.url.searchParams.get('code')!,
    redirect_uri: REDIRECT,
    code_verifier: begun.verifier,
    client_id: 'demo',
  })
  console.log(page.url.href, body)
  assert.equal(decodeJwt(body.access_token!).sub, 'DEV-mio')
  const { prompt_values_supported: prompts } = (await (await ask('/oauth/.well-known/openid-configuration')).json()) as Record<string, string[]> // prettier-ignore
  assert.ok(prompts === undefined || prompts.includes('select_account'))
})

test('refresh tokens end with the longest life of a sign-in, however often they are used', async (t) => {
  const short = await rehearse({ env: { REFRESH_FAMILY_SECONDS: '3600' } })
  t.after(() => short.close())
  const { refresh } = await obtainTokens(short)
  const use = (token: string) =>
    post(short.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })
  const lives = async (): Promise<number> => {
    const { rows } = await sql<{ seconds: number }>`
      select max(extract(epoch from expires_at - now()))::int as seconds from oauth_records where kind = 'RefreshToken'`.execute(short.app.db) // prettier-ignore
    return rows[0]!.seconds
  }
  assert.ok((await lives()) <= 3_600)
  // Fifty minutes later, by what is stored.
  await sql`update oauth_records set payload = jsonb_set(payload, '{iiat}', to_jsonb((payload->>'iiat')::bigint - 3000)), expires_at = expires_at - interval '3000 seconds' where kind = 'RefreshToken'`.execute(short.app.db) // prettier-ignore
  await reseal(short.app)
  const { status, body } = await use(refresh)
  assert.equal(status, 200)
  assert.ok((await lives()) <= 600, `${await lives()}`)
  await sql`update oauth_records set payload = jsonb_set(payload, '{exp}', to_jsonb((payload->>'exp')::bigint - 601)) where kind = 'RefreshToken'`.execute(short.app.db) // prettier-ignore
  await reseal(short.app)
  assert.equal((await use(body.refresh_token!)).body.error, 'invalid_grant')
})

test('a client id that looks like the id of a user is not registered', async () => {
  for (const clientId of ['DEV-vera', 'X-1', 'APP_SHOP-7'])
    await assert.rejects(saveApplication(world.app, { ...world.demo, clientId }), /must not look like the id of a user/)
  await saveApplication(world.app, { ...world.demo, clientId: 'my-shop' })
})
