import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { world, type Answer, type World } from '../../test/world.ts'
import { createApplication, updateApplication } from '../applications/manage.ts'
import { forgetApplication, noteUser, saveApplication } from '../applications/registry.ts'
import { accountIdOf } from '../ids.ts'
import { addConsent } from '../oauth/consents.ts'
import { authorizationUrl } from '../../test/rehearsal.ts'
import { openBrowser, textOf } from '../../test/kit/browser.ts'

/** Consents are not asked for here. */
const ANY = { redirectUris: [], secretHashes: [] }

let here: World
let secret: string
let machine: string
before(async () => {
  here = await world()
  secret = await register('backend', ['wallet:read', 'users:read'])
  // Alice signed in to this application, Bob did not.
  await noteUser(here.app.db, { clientId: 'backend', accountId: accountIdOf('DEV', 'alice') })
  await addConsent(here.app, { accountId: accountIdOf('DEV', 'alice'), clientId: 'backend', permissions: ['users:read'], application: ANY }) // prettier-ignore
  machine = (await ask('backend', secret)).body.access_token
})
after(() => here.close())

async function register(clientId: string, permissions: string[]): Promise<string> {
  const made = await createApplication(here.app, {
    clientId,
    name: clientId,
    network: 'devnet',
    kind: 'confidential',
    redirectUris: ['https://app.example/callback'],
    permissions,
    allowedOrigins: [],
    logoUri: null,
  })
  return made.secret!
}

const post = (path: string, form: Record<string, string>, basic?: [string, string]): Promise<Answer> =>
  here.request(path, {
    method: 'POST',
    body: new URLSearchParams(form),
    ...(basic === undefined
      ? {}
      : { headers: { authorization: `Basic ${Buffer.from(basic.join(':')).toString('base64')}` } }),
  })
const ask = (clientId: string, password: string, more: Record<string, string> = {}): Promise<Answer> =>
  post('/oauth/token', { grant_type: 'client_credentials', ...more }, [clientId, password])
const get = (path: string, token: string): Promise<Answer> =>
  here.request(path, { headers: { authorization: `Bearer ${token}` } })

test('an application gets a token for itself, without a user and without a refresh token', async () => {
  const { status, body } = await ask('backend', secret)
  assert.equal(status, 200)
  assert.deepEqual([body.token_type, body.scope, body.refresh_token, body.id_token], ['Bearer', 'users:read', undefined, undefined]) // prettier-ignore
  const claims = JSON.parse(Buffer.from(body.access_token.split('.')[1], 'base64url').toString())
  assert.deepEqual(
    [claims.sub, claims.client_id, claims.scope, claims.aud, claims.chain_id, claims.gid],
    ['backend', 'backend', 'users:read', here.facts.baseUrl, here.facts.chainId, undefined],
  )
  const inBody = { grant_type: 'client_credentials', client_id: 'backend', client_secret: secret }
  assert.equal((await post('/oauth/token', inBody)).status, 200)
})

test('who is not confidential, or may not, or does not prove itself, gets none', async () => {
  const plain = await register('plain', ['wallet:read', 'contracts:write'])
  await saveApplication(here.app, {
    clientId: 'browser',
    name: 'browser',
    chainId: here.facts.chainId,
    kind: 'public',
    redirectUris: ['https://app.example/callback'],
    permissions: ['wallet:read'],
    allowedOrigins: [],
    secretHashes: [],
    logoUri: null,
    isSuspended: false,
  })
  const wrong: [string, Promise<Answer>][] = [
    ['invalid_client', ask('backend', 'wrong')],
    ['invalid_client', ask('nobody', secret)],
    ['invalid_client', post('/oauth/token', { grant_type: 'client_credentials', client_id: 'backend' })],
    ['invalid_request', ask('plain', plain)],
    ['invalid_request', post('/oauth/token', { grant_type: 'client_credentials', client_id: 'browser' })],
    ['invalid_scope', ask('backend', secret, { scope: 'contracts:write' })],
    ['invalid_scope', ask('backend', secret, { scope: 'users:read wallet:read' })],
    ['invalid_scope', ask('backend', secret, { scope: 'openid' })],
    ['invalid_target', ask('backend', secret, { resource: 'https://other.example' })],
  ]
  for (const [error, answer] of wrong) {
    const { status, body } = await answer
    assert.equal(body.error, error)
    assert.ok(status === 400 || status === 401)
  }
})

test('it reads profile, balances and history of who signed in to the application', async () => {
  const profile = await get('/v1/users/DEV-alice', machine)
  assert.equal(profile.status, 200)
  assert.deepEqual(profile.body, (await here.alice.get('/v1/users/DEV-alice')).body)
  const { erc20 } = here.facts.contracts
  for (const path of ['balance', `balance/${erc20}`, 'balances', 'nfts', 'history']) {
    const answer = await get(`/v1/users/DEV-alice/${path}`, machine)
    assert.equal(answer.status, 200, path)
    assert.deepEqual(answer.body, (await here.alice.get(`/v1/users/DEV-alice/${path}`)).body, path)
  }
})

test('others are refused with one body, whether or not they exist', async () => {
  for (const path of ['', '/balance', `/balance/${here.facts.contracts.erc20}`, '/balances', '/nfts', '/history']) {
    const [bob, nobody] = await Promise.all(
      ['DEV-bob', 'DEV-nobody'].map((id) => get(`/v1/users/${id}${path}`, machine)),
    )
    for (const { body } of [bob!, nobody!]) Object.assign(body, { instance: null, requestId: null })
    assert.deepEqual([bob!.status, bob!.body.code, bob!.body], [403, 'forbidden_user', nobody!.body], path)
  }
  assert.equal((await get('/v1/users/nonsense', machine)).status, 400)
  assert.equal((await get('/v1/users/backend', machine)).status, 400)
})

test('it does nothing that only a user may: every other route refuses it as 403 insufficient_scope', async () => {
  const document = (await here.request('/openapi.json')).body
  const open = new Set(['balance', 'balance/{tokenAddress}', 'balances', 'nfts', 'history', ''].map((end) => `/v1/users/{userId}${end && `/${end}`}`).concat('/v1/users')) // prettier-ignore
  let refused = 0
  for (const [path, methods] of Object.entries(
    document.paths as Record<string, Record<string, { security?: Record<string, unknown>[] }>>,
  )) {
    for (const [method, { security }] of Object.entries(methods)) {
      const full = path.startsWith('/v1') ? path : `/v1${path}`
      if (!security?.some((one) => 'oauth' in one) || (method === 'get' && open.has(full))) continue
      const { status, body } = await here.request(full.replaceAll(/\{\w+\}/g, 'DEV-alice'), {
        method: method.toUpperCase(),
        headers: {
          authorization: `Bearer ${machine}`,
          ...(method === 'post' ? { 'content-type': 'application/json' } : {}),
        },
        ...(method === 'post' ? { body: '{}' } : {}),
      })
      assert.deepEqual([status, body.code], [403, 'insufficient_scope'], `${method} ${full}`)
      refused++
    }
  }
  assert.ok(refused >= 6, `${refused} routes were tried`)
  assert.equal((await get('/oauth/me', machine)).status, 403)
})

test('the token of a user does not become one of the application by the permission’s name', async () => {
  assert.equal((await here.alice.get('/v1/users/DEV-bob')).status, 403)
})

test('another application’s machine does not read these users', async () => {
  const other = (await ask('other', await register('other', ['users:read']))).body.access_token
  assert.equal((await get('/v1/users/DEV-alice', other)).body.code, 'forbidden_user')
})

test('who takes the application back at /account is read by it no more', async () => {
  const { origin } = here.facts
  const browser = openBrowser(origin)
  const begun = authorizationUrl(origin, { client_id: 'backend', redirect_uri: 'https://app.example/callback' })
  const back = await browser.signIn(begun.url, 'vera')
  const form = { grant_type: 'authorization_code', code: back.url.searchParams.get('code')!, redirect_uri: begun.redirectUri, code_verifier: begun.verifier } // prettier-ignore
  const { body } = await post('/oauth/token', form, ['backend', secret])
  const reads = async () => [
    (await get('/v1/users/DEV-vera', body.access_token)).status,
    (await get('/v1/users/DEV-vera', machine)).status,
    (await get('/v1/users/DEV-vera/balance', machine)).status,
  ]
  assert.deepEqual(await reads(), [200, 200, 200])
  const done = await browser.submit(await browser.go('/account/applications'), '/account/applications/revoke')
  assert.match(done.text, /Access revoked/)
  assert.deepEqual(await reads(), [401, 403, 403])
  assert.equal((await get('/v1/users/DEV-alice', machine)).status, 200, 'other people stay')
})

test('who signed in without being asked for it is not read, and who is asked is told in words', async () => {
  const { origin } = here.facts
  const quiet = await register('quiet', ['wallet:read'])
  const at = { client_id: 'quiet', redirect_uri: 'https://app.example/callback' }
  const browser = openBrowser(origin)
  await browser.signIn(authorizationUrl(origin, at).url, 'walt')
  // The permission comes later: nobody was asked for it yet.
  await updateApplication(here.app, 'quiet', { permissions: ['users:read'] })
  forgetApplication(here.app, 'quiet')
  const quietly = (await ask('quiet', quiet)).body.access_token
  assert.equal((await get('/v1/users/DEV-walt', quietly)).body.code, 'forbidden_user')
  // An application that wants nothing else asks, too: nothing of `users:read` goes without a page.
  const page = await browser.go(authorizationUrl(origin, { ...at, scope: 'openid' }).url)
  assert.match(page.url.pathname, /^\/consent\//)
  assert.match(textOf(page.text), /at any time, even when you are not using it new/)
  const silent = await browser.go(authorizationUrl(origin, { ...at, scope: 'openid', prompt: 'none' }).url)
  assert.equal(silent.url.searchParams.get('error'), 'consent_required')
  await browser.submit(page, '/consent/', { answer: 'allow' })
  for (const path of ['', '/balance', '/history'])
    assert.equal((await get(`/v1/users/DEV-walt${path}`, quietly)).status, 200)
  const again = await browser.go(authorizationUrl(origin, { ...at, scope: 'openid' }).url)
  assert.ok(again.url.searchParams.get('code'), 'asked once')
  assert.match(textOf((await browser.go('/account/applications')).text), /even when you are not using it/)
})

test('it can be looked at and taken back by its application only, and ends with the permission', async () => {
  const token = (await ask('backend', secret)).body.access_token as string
  const others = await register('stranger', ['users:read'])
  const look = async (basic: [string, string]) => (await post('/oauth/token/introspection', { token }, basic)).body
  assert.deepEqual(await look(['stranger', others]), { active: false })
  const seen = await look(['backend', secret])
  assert.deepEqual([seen.active, seen.client_id, seen.scope, seen.sub], [true, 'backend', 'users:read', undefined])
  await post('/oauth/token/revocation', { token }, ['stranger', others])
  assert.equal((await get('/v1/users/DEV-alice', token)).status, 200)
  await post('/oauth/token/revocation', { token }, ['backend', secret])
  assert.equal((await get('/v1/users/DEV-alice', token)).status, 401)
  assert.equal((await get('/v1/users/DEV-alice', machine)).status, 200)

  await updateApplication(here.app, 'backend', { permissions: ['wallet:read'] })
  forgetApplication(here.app, 'backend')
  assert.equal((await ask('backend', secret)).body.error, 'invalid_request')
})
