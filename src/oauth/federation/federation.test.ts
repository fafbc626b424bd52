import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { SignJWT, UnsecuredJWT, importJWK, type JWK, type JWTPayload } from 'jose'
import { newKey } from '../keys.ts'
import { authorizationUrl, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { freePort } from '../../../test/kit/ports.ts'
import type { ProviderSettings } from './providers.ts'

/** A provider of another house, which answers as a test tells it to. */
type Lie = {
  claims?: (right: JWTPayload) => JWTPayload
  /** signs with a key that the provider does not publish */
  isForged?: boolean
  sign?: (claims: JWTPayload) => Promise<string>
  userinfo?: Record<string, unknown> | number
  tokenStatus?: number
  /** fields of the token response over the right ones */
  answer?: Record<string, unknown>
}
let lie: Lie = {}
let areKeysAway = false
let issuer: string
const keys = [newKey('ES256')]
const forger = newKey('ES256')
const nonces = new Map<string, string>()

const provider = createServer((request, response) => {
  const json = (body: unknown, status = 200) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  const path = request.url!.split('?', 1)[0]
  if (path === '/.well-known/openid-configuration') {
    return json({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      userinfo_endpoint: `${issuer}/userinfo`,
      id_token_signing_alg_values_supported: ['ES256'],
    })
  }
  if (path === '/jwks' && areKeysAway) return json({}, 503)
  if (path === '/jwks') return json({ keys: keys.map(({ d: _d, ...key }) => key) })
  if (path === '/userinfo')
    return typeof lie.userinfo === 'number' ? json({}, lie.userinfo) : json(lie.userinfo ?? { sub: '42' })
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on(
    'end',
    () => void answerToken(new URLSearchParams(body).get('code')!).then(({ status, answer }) => json(answer, status)),
  )
})

async function answerToken(code: string): Promise<{ status: number; answer: unknown }> {
  if (lie.tokenStatus !== undefined) return { status: lie.tokenStatus, answer: { error: 'invalid_grant' } }
  const now = Math.floor(Date.now() / 1_000)
  const right = {
    iss: issuer,
    sub: '42',
    aud: 'us',
    iat: now,
    exp: now + 60,
    nonce: nonces.get(code),
    name: 'Mallory',
    email: 'alice@dev.invalid',
    email_verified: true,
  }
  const claims = lie.claims?.(right) ?? right
  const key = lie.isForged ? forger : keys[0]!
  const id_token = await (lie.sign?.(claims) ??
    new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: keys[0]!.kid }).sign(await importJWK(key, 'ES256')))
  return { status: 200, answer: { access_token: 'x', token_type: 'Bearer', expires_in: 60, id_token, ...lie.answer } }
}

let world: Rehearsal
before(async () => {
  const port = await freePort()
  issuer = `http://localhost:${port}`
  await new Promise<void>((done) => void provider.listen(port, 'localhost', done))
  const settings: ProviderSettings = {
    name: 'FAKE',
    label: 'Fake',
    issuer,
    clientId: 'us',
    clientSecret: 'hush',
    scopes: ['openid'],
    subjectClaim: 'sub',
    usernameClaims: ['name'],
    pictureClaim: 'picture',
    parameters: { access_type: 'online' },
    isDevelopment: true,
  }
  world = await rehearse({ others: () => [settings] })
})
after(async () => {
  provider.closeAllConnections()
  provider.close()
  await world.close()
})

/** Goes to the provider, which answers with a code at once. */
async function visit(told: Lie = {}): Promise<Page> {
  lie = told
  const browser = openBrowser(world.origin)
  const away = await browser.go(authorizationUrl(world.origin, { login_provider: 'FAKE' }).url)
  assert.equal(away.url.pathname, '/authorize', textOf(away.text))
  const { searchParams } = away.url
  assert.deepEqual(
    [searchParams.get('code_challenge_method'), searchParams.get('access_type'), searchParams.get('redirect_uri')],
    ['S256', 'online', `${world.origin}/login/callback/FAKE`],
  )
  const code = searchParams.get('state')!
  nonces.set(code, searchParams.get('nonce')!)
  return browser.go(`${world.origin}/login/callback/FAKE?code=${code}&state=${code}`)
}

async function refused(told: Lie, status = 400, code = 'sign_in_refused'): Promise<void> {
  const page = await visit(told)
  assert.equal(page.status, status, `${page.url.pathname} ${textOf(page.text)}`)
  assert.ok(page.text.includes(`<code>${code}</code>`))
}

const changed = (change: JWTPayload): Lie => ({ claims: (right) => ({ ...right, ...change }) })

test('a provider of another house signs its own people in, whatever e-mail it claims for them', async () => {
  const page = await visit()
  assert.match(page.url.pathname, /^\/consent\//, textOf(page.text))
  assert.match(page.text, /Mallory/)
  const users = await world.app.db.selectFrom('accounts').select('user_id').execute()
  assert.deepEqual(users, [{ user_id: 'FAKE-42' }])
})

test('an id token of another issuer, for another client, too old or without a nonce is refused', async () => {
  await refused(changed({ iss: 'https://other.example' }))
  await refused(changed({ aud: 'somebody' }))
  await refused(changed({ aud: ['us', 'somebody'], azp: 'somebody' }))
  await refused(changed({ exp: Math.floor(Date.now() / 1_000) - 120 }))
  await refused(changed({ nonce: 'another' }))
  await refused(changed({ nonce: undefined }))
})

test('an id token that is unsigned, signed by another key or with the client secret is refused', async () => {
  await refused({ sign: async (claims) => new UnsecuredJWT(claims).encode() })
  await refused({ isForged: true })
  await refused({
    sign: (claims) => new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from('hush')),
  })
})

test('a provider that changes its keys from one moment to the next keeps signing people in, and the old key is over', async () => {
  assert.match((await visit()).url.pathname, /^\/consent\//)
  const [old] = keys
  keys.splice(0, 1, newKey('ES256'))
  assert.match((await visit()).url.pathname, /^\/consent\//)
  await refused({
    sign: async (claims) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: old!.kid }).sign(await importJWK(old!, 'ES256')),
  })
})

test('fields of a token response that nobody reads are of any form, and without a token type it is Bearer', async () => {
  for (const answer of [
    { expires_in: null },
    { expires_in: 'soon' },
    { expires_in: -1 },
    { refresh_token: null },
    { refresh_token: '' },
    { scope: null },
    { scope: ['openid', 'profile'] },
    { token_type: undefined },
    { token_type: null },
    { token_type: 'bearer', more: { than: ['we know'] } },
  ])
    assert.match((await visit({ answer })).url.pathname, /^\/consent\//, JSON.stringify(answer))
  for (const answer of [{ id_token: undefined }, { id_token: null }, { id_token: 7 }, { access_token: undefined }])
    await refused({ answer })
})

test('of several keys with one name it is the one that signed the token, and none of them is another key', async () => {
  for (const beside of [(right: JWK) => right, (right: JWK) => ({ ...newKey('ES256'), kid: right.kid })]) {
    // A name that was not there yet: the keys are read again.
    const right = newKey('ES256')
    keys.splice(0, keys.length, right, beside(right) as typeof right)
    assert.match((await visit()).url.pathname, /^\/consent\//)
    await refused({ isForged: true })
  }
  keys.splice(0, keys.length, newKey('ES256'))
})

test('a provider whose keys cannot be read is said to be down', async () => {
  const kept = keys.splice(0, 1, newKey('ES256'))
  lie = {}
  areKeysAway = true
  await refused({}, 502, 'provider_unavailable')
  areKeysAway = false
  assert.match((await visit()).url.pathname, /^\/consent\//)
  assert.equal(kept.length, 1)
})

test('a subject that is missing, empty, too long or holds control characters is refused', async () => {
  for (const sub of [undefined, '', 'x'.repeat(256), 'a\0b']) await refused(changed({ sub }))
})

test('a provider that fails at the token endpoint is refused or said to be down', async () => {
  await refused({ tokenStatus: 400 })
  await refused({ tokenStatus: 503 }, 502, 'provider_unavailable')
})

test('userinfo of another subject is refused, and one of the right subject gives the missing name', async () => {
  const nameless = changed({ name: undefined })
  await refused({ ...nameless, userinfo: { sub: 'other', name: 'Eve' } })
  const page = await visit({ ...nameless, userinfo: { sub: '42', name: 'Trent' } })
  assert.match(page.text, /Trent/)
})

const keptOf = () =>
  world.app.db
    .selectFrom('identities')
    .select(['username', 'image_src', 'email', 'email_verified'])
    .where('provider', '=', 'FAKE')
    .executeTakeFirstOrThrow()

test('claims that only userinfo has are taken where the id token names the person', async () => {
  const picture = 'https://pictures.example/trent'
  const more = { sub: '42', name: 'Not Mallory', picture, email: 'trent@dev.invalid', email_verified: true }
  const mallory = { username: 'Mallory', image_src: picture }
  const cases: [said: JWTPayload, kept: object][] = [
    [
      { email: undefined, email_verified: undefined },
      { email: 'trent@dev.invalid', email_verified: true },
    ],
    [
      { email: null, email_verified: false },
      { email: 'trent@dev.invalid', email_verified: true },
    ],
    [
      { email: 'trent@dev.invalid', email_verified: undefined },
      { email: 'trent@dev.invalid', email_verified: true },
    ],
    [
      { email: 'other@dev.invalid', email_verified: undefined },
      { email: 'other@dev.invalid', email_verified: false },
    ],
    [
      { email: undefined, email_verified: true },
      { email: 'trent@dev.invalid', email_verified: true },
    ],
  ]
  for (const [said, kept] of cases) {
    await visit({ ...changed(said), userinfo: more })
    assert.deepEqual(await keptOf(), { ...mallory, ...kept }, JSON.stringify(said))
  }
})

test('someone whose id token is good signs in while userinfo fails, and what only userinfo has stays as it was', async () => {
  const silent = changed({ name: undefined, email: undefined, email_verified: undefined })
  const before = await keptOf()
  for (const userinfo of [500, 403, { sub: undefined }]) {
    assert.match((await visit({ ...silent, userinfo })).url.pathname, /^\/consent\//)
    assert.deepEqual(await keptOf(), before)
  }
  await visit({ ...silent, userinfo: { sub: '42' } })
  assert.deepEqual(await keptOf(), { username: 'Mallory', image_src: null, email: null, email_verified: null })
})

test('nothing of a refused sign-in is kept', async () => {
  const users = await world.app.db.selectFrom('accounts').select('user_id').execute()
  assert.deepEqual(users, [{ user_id: 'FAKE-42' }])
  const logged = JSON.stringify(world.logged, (_key, value: unknown) =>
    value instanceof Error ? value.message : value,
  )
  assert.ok(!logged.includes('hush'))
})

test('sign-ins and those that fail are counted by provider and reason; a visitor’s words are no label, and answers that nobody left for do not count', async () => {
  const { signIns, signInsFailed } = world.app.telemetry
  signIns.reset()
  signInsFailed.reset()
  await visit()
  await refused({ isForged: true })
  const browser = openBrowser(world.origin)
  const away = await browser.go(authorizationUrl(world.origin, { login_provider: 'FAKE' }).url)
  const state = away.url.searchParams.get('state')!
  await browser.go(`${world.origin}/login/callback/FAKE?error=access_denied&state=${state}`)
  await browser.go(`${world.origin}/login/callback/NOBODY-${'x'.repeat(50)}?code=1&state=1`)
  await browser.go(`${world.origin}/login/callback/FAKE?code=1&state=unknown`)
  const of = async (metric: typeof signIns) => (await metric.get()).values.map(({ value, labels }) => ({ ...labels, value })) // prettier-ignore
  assert.deepEqual(await of(signIns), [{ provider: 'FAKE', value: 1 }])
  assert.deepEqual(await of(signInsFailed), [
    { provider: 'FAKE', reason: 'sign_in_refused', value: 1 },
    { provider: 'FAKE', reason: 'cancelled', value: 1 },
  ])
})
