import assert from 'node:assert/strict'
import { withWall } from '../../test/kit/clock.ts'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import * as oauth4webapi from 'oauth4webapi'
import * as client from 'openid-client'
import type { Application } from '../applications/application.ts'
import { saveApplication } from '../applications/registry.ts'
import { checksumAddress } from '../digits.ts'
import {
  addressOf,
  demoApplication,
  askMe,
  authorizationUrl,
  obtainTokens,
  post,
  REDIRECT,
  rehearse,
  type Rehearsal,
} from '../../test/rehearsal.ts'
import { openBrowser, textOf } from '../../test/kit/browser.ts'
import { en } from '../texts/en.ts'
import { changeApplication } from '../../test/opened.ts'

let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

test('openid-client with scope `openid email` signs a person in and may do what its application may', async () => {
  const config = await client.discovery(new URL(`${world.origin}/oauth`), 'demo', undefined, client.None(), {
    execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks],
  })
  const [verifier, state, nonce] = [client.randomPKCECodeVerifier(), client.randomState(), client.randomNonce()]
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid email',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  })
  const page = await openBrowser(world.origin).signIn(url.href, ' Alice ')
  assert.equal(page.url.origin + page.url.pathname, REDIRECT, textOf(page.text))
  assert.equal(page.url.searchParams.get('iss'), `${world.origin}/oauth`)
  const tokens = await client.authorizationCodeGrant(config, page.url, {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  })

  const access = decodeJwt(tokens.access_token)
  assert.deepEqual(
    [decodeProtectedHeader(tokens.access_token).typ, decodeProtectedHeader(tokens.access_token).alg],
    ['at+jwt', 'ES256'],
  )
  assert.equal(decodeProtectedHeader(tokens.id_token!).alg, 'RS256')
  assert.deepEqual(
    [access.sub, access.aud, access.client_id, access.chain_id],
    ['DEV-alice', `${world.origin}/v1`, 'demo', 31_337],
  )
  assert.equal(typeof access.gid, 'string')
  assert.equal(access.scope, 'openid email wallet:read contracts:read contracts:write')
  assert.equal(tokens.scope, access.scope)
  assert.deepEqual(
    [tokens.claims()?.sub, tokens.claims()?.email, tokens.claims()?.email_verified],
    ['DEV-alice', 'alice@dev.invalid', true],
  )
  // A client that takes the profile from the id token, as NextAuth v4 does, finds it there.
  assert.deepEqual(
    [tokens.claims()?.username, tokens.claims()?.address],
    ['alice', checksumAddress(addressOf('DEV-alice'))],
  )

  const me = await client.fetchUserInfo(config, tokens.access_token, 'DEV-alice')
  assert.deepEqual(me, {
    sub: 'DEV-alice',
    id: 'DEV-alice',
    provider: 'DEV',
    username: 'alice',
    address: checksumAddress(addressOf('DEV-alice')),
    imageSrc: `${world.origin}/devnet/avatar/alice.svg`,
    name: 'alice',
    preferred_username: 'alice',
    picture: `${world.origin}/devnet/avatar/alice.svg`,
    email: 'alice@dev.invalid',
    email_verified: true,
  })
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token!)
  assert.notEqual(refreshed.refresh_token, tokens.refresh_token)
  assert.equal(refreshed.scope, tokens.scope)
})

test('oauth4webapi completes the flow from the RFC 8414 document', async () => {
  const insecure = { [oauth4webapi.allowInsecureRequests]: true } as const
  const issuer = new URL(`${world.origin}/oauth`)
  const as = await oauth4webapi.processDiscoveryResponse(
    issuer,
    await oauth4webapi.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure }),
  )
  assert.equal(as.userinfo_endpoint, `${world.origin}/oauth/me`)
  assert.deepEqual(as.response_types_supported, ['code'])
  assert.deepEqual(as.code_challenge_methods_supported, ['S256'])
  const demo: oauth4webapi.Client = { client_id: 'demo' }
  const { url, verifier, state, nonce } = authorizationUrl(world.origin, { scope: 'openid profile wallet:read' })
  const page = await openBrowser(world.origin).signIn(url, 'bob')
  const parameters = oauth4webapi.validateAuthResponse(as, demo, page.url, state)
  const response = await oauth4webapi.authorizationCodeGrantRequest(
    as,
    demo,
    oauth4webapi.None(),
    parameters,
    REDIRECT,
    verifier,
    insecure,
  )
  const tokens = await oauth4webapi.processAuthorizationCodeResponse(as, demo, response, {
    expectedNonce: nonce,
    requireIdToken: true,
  })
  assert.equal(tokens.scope, 'openid profile wallet:read')
  const claims = oauth4webapi.getValidatedIdTokenClaims(tokens)!
  assert.deepEqual(
    [claims.sub, claims.username, claims.picture],
    ['DEV-bob', 'bob', `${world.origin}/devnet/avatar/bob.svg`],
  )
})

test('discovery is the same at both addresses and names our own endpoints', async () => {
  const [openid, oauth] = await Promise.all(
    ['/oauth/.well-known/openid-configuration', '/.well-known/oauth-authorization-server/oauth'].map(
      async (path) => (await fetch(world.origin + path)).json() as Promise<Record<string, unknown>>,
    ),
  )
  assert.deepEqual(openid, oauth)
  const {
    issuer,
    authorization_endpoint,
    token_endpoint,
    jwks_uri,
    introspection_endpoint,
    revocation_endpoint,
    end_session_endpoint,
  } = openid!
  assert.deepEqual(
    [
      issuer,
      authorization_endpoint,
      token_endpoint,
      jwks_uri,
      introspection_endpoint,
      revocation_endpoint,
      end_session_endpoint,
    ],
    ['', '/auth', '/token', '/jwks', '/token/introspection', '/token/revocation', '/session/end'].map(
      (path) => `${world.origin}/oauth${path}`,
    ),
  )
})

test('the published keys hold nothing private', async () => {
  const { keys } = (await (await fetch(`${world.origin}/oauth/jwks`)).json()) as { keys: Record<string, string>[] }
  assert.deepEqual(new Set(keys.map(({ alg }) => alg)), new Set(['ES256', 'RS256']))
  for (const key of keys)
    for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) assert.equal(key[secret], undefined)
})

test('addresses come from the settings, whatever Host and X-Forwarded headers say', async () => {
  const response = await fetch(`${world.origin}/oauth/.well-known/openid-configuration`, {
    headers: { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https', forwarded: 'host=evil.example' },
  })
  assert.ok(!(await response.text()).includes('evil'))
})

test('login_provider skips the chooser in any letter case, and an unknown one shows it', async () => {
  for (const name of ['DEV', 'dev', 'Dev']) {
    const page = await openBrowser(world.origin).go(
      authorizationUrl(world.origin, { login_provider: name, login_hint: 'carol' }).url,
    )
    assert.match(page.url.pathname, /^\/devnet\/idp\/sign-in\//)
    assert.match(page.text, /value="carol"/)
  }
  for (const login_provider of ['NOWHERE', '__proto__']) {
    const chooser = await openBrowser(world.origin).go(authorizationUrl(world.origin, { login_provider }).url)
    assert.match(chooser.url.pathname, /^\/login\//)
    assert.match(chooser.text, /Continue with/)
  }
})

test('prompt, max_age and the session decide who is asked to sign in', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn(authorizationUrl(world.origin).url, 'dora')
  const silent = await browser.go(authorizationUrl(world.origin, { prompt: 'none' }).url)
  assert.ok(silent.url.searchParams.get('code'))
  const again = await browser.go(authorizationUrl(world.origin, { prompt: 'login' }).url)
  assert.match(again.url.pathname, /^\/login\//)
  const old = await browser.go(authorizationUrl(world.origin, { max_age: '0' }).url)
  assert.match(old.url.pathname, /^\/login\//)
  const stranger = await openBrowser(world.origin).go(authorizationUrl(world.origin, { prompt: 'none' }).url)
  assert.equal(stranger.url.searchParams.get('error'), 'login_required')
})

test('another person may sign in in the same browser', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn(authorizationUrl(world.origin).url, 'erin')
  const begun = authorizationUrl(world.origin, { prompt: 'login' })
  const page = await browser.signIn(begun.url, 'frank')
  const { body } = await post(world.origin, '/oauth/token', {
    grant_type: 'authorization_code',
    code: page.url.searchParams.get('code')!,
    redirect_uri: REDIRECT,
    code_verifier: begun.verifier,
    client_id: 'demo',
  })
  assert.equal(decodeJwt(body.access_token!).sub, 'DEV-frank')
})

test('consent is asked once, remembered in every browser, and asked again when permissions grow', async () => {
  const grows: Application = { ...world.demo, clientId: 'grows', redirectUris: ['https://grows.example/callback'] }
  await saveApplication(world.app, { ...grows, permissions: ['wallet:read'] })
  const open = (scope = 'openid') =>
    authorizationUrl(world.origin, {
      client_id: 'grows',
      scope,
      login_provider: 'DEV',
      redirect_uri: grows.redirectUris[0]!,
    }).url
  const asked = async (address: string): Promise<string> => {
    const browser = openBrowser(world.origin)
    const page = await browser.submit(await browser.go(address), '/sign-in/', { username: 'gina' })
    if (page.url.pathname.startsWith('/consent/')) await browser.submit(page, '/consent/', { answer: 'allow' })
    return page.text
  }
  assert.match(await asked(open()), /see your balances/)
  assert.equal(await asked(open()), '')
  assert.match(await asked(open('openid email')), /e-mail address/)
  await changeApplication(world.app, { ...grows, permissions: ['wallet:read', 'contracts:write'] })
  assert.match(await asked(open()), /able to spend everything in your account/)
  assert.equal(await asked(open('openid email')), '')
})

test('consent is asked again, for all of it, when answers go elsewhere or there is another secret, whoever brought that', async () => {
  const [A, B] = ['a'.repeat(64), 'b'.repeat(64)] as const
  const reached: Application = { ...world.demo, clientId: 'reached', kind: 'confidential', secretHashes: [A], redirectUris: ['https://reached.example/callback'] } // prettier-ignore
  await saveApplication(world.app, reached)
  const asks = async (redirectUri = reached.redirectUris[0]!) => {
    const browser = openBrowser(world.origin)
    const { url } = authorizationUrl(world.origin, { client_id: 'reached', scope: 'openid wallet:read contracts:write', login_provider: 'DEV', redirect_uri: redirectUri }) // prettier-ignore
    const page = await browser.submit(await browser.go(url), '/sign-in/', { username: 'rita' })
    if (!page.url.pathname.startsWith('/consent/')) return false
    assert.match(page.text, /able to spend everything in your account/)
    await browser.submit(page, '/consent/', { answer: 'allow' })
    return true
  }
  const thief = 'https://thief.example/callback'
  assert.deepEqual([await asks(), await asks()], [true, false])
  // Another path of the same origin is the same program.
  await changeApplication(world.app, { ...reached, redirectUris: [...reached.redirectUris, 'https://reached.example/2'] }) // prettier-ignore
  assert.equal(await asks(), false)
  await changeApplication(world.app, { ...reached, redirectUris: [...reached.redirectUris, thief] })
  assert.deepEqual([await asks(thief), await asks()], [true, false])
  await changeApplication(world.app, { ...reached, redirectUris: [...reached.redirectUris, thief], secretHashes: [A, B] }) // prettier-ignore
  assert.deepEqual([await asks(), await asks()], [true, false])
  // What is gone needs no yes.
  await changeApplication(world.app, { ...reached, secretHashes: [B] })
  assert.equal(await asks(), false)
})

test('a permission to spend that was not allowed before takes a recent sign-in, also where the page was open for long; what was allowed before does not', async () => {
  const spender: Application = {
    ...world.demo,
    clientId: 'spender',
    redirectUris: ['https://spender.example/callback'],
  }
  await saveApplication(world.app, spender)
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', 'sven')
  const ask = (scope: string) => browser.go(authorizationUrl(world.origin, { client_id: 'spender', scope, redirect_uri: spender.redirectUris[0]! }).url) // prettier-ignore
  const { clock } = world.app
  const later = () => void (world.app.clock = withWall(() => clock.wall() + 16 * 60_000))
  try {
    const open = await ask('openid wallet:read contracts:write')
    assert.match(open.url.pathname, /^\/consent\//)
    later()
    assert.match((await browser.submit(open, '/consent/', { answer: 'allow' })).url.pathname, /^\/login\//)
    const page = await ask('openid wallet:read contracts:write')
    assert.match(page.url.pathname, /^\/login\//)
    assert.ok(textOf(page.text).includes(en.chooser.why.spends))
    assert.match((await ask('openid wallet:read')).url.pathname, /^\/consent\//)
    // The provider’s clock is the system's: what it says of the time of a sign-in is not ahead of it.
    world.app.clock = clock
    const allowed = await browser.signIn((await ask('openid wallet:read contracts:write')).url.href, 'sven')
    assert.ok(allowed.url.searchParams.has('code'), allowed.text)
    later()
    assert.ok((await ask('openid wallet:read contracts:write')).url.searchParams.has('code'))
  } finally {
    world.app.clock = clock
  }
})

test('who does not allow it sends the application an access_denied, and nothing is granted', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(authorizationUrl(world.origin, { login_provider: 'DEV' }).url)
  const consent = await browser.submit(login, '/sign-in/', { username: 'hans' })
  const denied = await browser.submit(consent, '/consent/', { answer: 'deny' })
  assert.equal(denied.url.searchParams.get('error'), 'access_denied')
  assert.equal(denied.url.searchParams.get('code'), null)
  const cancelled = openBrowser(world.origin)
  const page = await cancelled.submit(await cancelled.go(authorizationUrl(world.origin).url), '/cancel')
  assert.equal(page.url.searchParams.get('error'), 'access_denied')
})

test('an application gets no permission that it is not registered with', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'reader', permissions: ['wallet:read', 'users:read'] })
  const { scope } = await obtainTokens(world, {
    parameters: { client_id: 'reader', scope: 'openid wallet:read contracts:write users:read nonsense' },
  })
  assert.equal(scope, 'openid wallet:read')
  const all = await obtainTokens(world, { parameters: { client_id: 'reader', scope: null, nonce: null } })
  assert.equal(all.scope, 'openid wallet:read')
})

test('a confidential application proves its secret, by either of two live ones, in the header or the body', async () => {
  const sha = (secret: string) => createHash('sha256').update(secret).digest('hex')
  await saveApplication(world.app, {
    ...world.demo,
    clientId: 'server',
    kind: 'confidential',
    secretHashes: [sha('first'), sha('second')],
  })
  const trade = async (secret: string | null, how: 'header' | 'body') => {
    const begun = authorizationUrl(world.origin, { client_id: 'server' })
    const page = await openBrowser(world.origin).signIn(begun.url, 'ivan')
    const form = {
      grant_type: 'authorization_code',
      code: page.url.searchParams.get('code')!,
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    }
    if (secret === null) return post(world.origin, '/oauth/token', { ...form, client_id: 'server' })
    if (how === 'body')
      return post(world.origin, '/oauth/token', { ...form, client_id: 'server', client_secret: secret })
    return post(world.origin, '/oauth/token', form, {
      authorization: `Basic ${Buffer.from(`server:${secret}`).toString('base64')}`,
    })
  }
  assert.equal((await trade('first', 'header')).status, 200)
  assert.equal((await trade('second', 'body')).status, 200)
  for (const wrong of ['third', 'kept as a hash', sha('first')])
    assert.equal((await trade(wrong, 'header')).body.error, 'invalid_client')
  assert.equal((await trade(null, 'body')).body.error, 'invalid_client')
})

test('a suspended application gets nothing any more', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'gone' })
  const { refresh } = await obtainTokens(world, { parameters: { client_id: 'gone' } })
  await changeApplication(world.app, { ...world.demo, clientId: 'gone', isSuspended: true })
  assert.equal(
    (
      await post(world.origin, '/oauth/token', {
        grant_type: 'refresh_token',
        refresh_token: refresh,
        client_id: 'gone',
      })
    ).body.error,
    'invalid_client',
  )
  const page = await openBrowser(world.origin).go(authorizationUrl(world.origin, { client_id: 'gone' }).url)
  assert.equal(page.status, 400)
})

test('/oauth/me answers GET and POST, without e-mail unless that was granted, and 401 otherwise', async () => {
  const { access } = await obtainTokens(world, { parameters: { scope: 'openid' } })
  for (const method of ['GET', 'POST']) {
    const { status, body, headers } = await askMe(world.origin, access, method)
    assert.equal(status, 200)
    assert.deepEqual(Object.keys(body), ['sub', 'id', 'provider', 'username', 'address', 'imageSrc', 'name', 'preferred_username', 'picture']) // prettier-ignore
    assert.equal(headers.get('cache-control'), 'no-store')
  }
  const { id } = await obtainTokens(world)
  for (const token of ['x', id, `${access}x`]) {
    const { status, headers, body } = await askMe(world.origin, token)
    assert.deepEqual(
      [status, body.code, headers.get('www-authenticate')],
      [401, 'invalid_token', 'Bearer error="invalid_token"'],
    )
  }
})

test('signing out ends the session of the browser', async () => {
  const browser = openBrowser(world.origin)
  const begun = authorizationUrl(world.origin)
  await browser.signIn(begun.url, 'jane')
  const page = await browser.go(
    `${world.origin}/oauth/session/end?client_id=demo&post_logout_redirect_uri=${encodeURIComponent('http://localhost:9/bye')}`,
  )
  const out = await browser.submit(page, '/session/end/confirm', { logout: 'yes' })
  assert.equal(out.url.href, 'http://localhost:9/bye')
  const silent = await browser.go(authorizationUrl(world.origin, { prompt: 'none' }).url)
  assert.equal(silent.url.searchParams.get('error'), 'login_required')
  const evil = await browser.go(
    `${world.origin}/oauth/session/end?client_id=demo&post_logout_redirect_uri=https%3A%2F%2Fevil.example`,
  )
  assert.equal(evil.status, 400)
})

test('a confidential application signs people out and gets them back at the address that it registered for that', async () => {
  await saveApplication(world.app, {
    ...demoApplication,
    clientId: 'site',
    kind: 'confidential',
    redirectUris: ['https://site.example/auth/callback'],
    postLogoutRedirectUris: ['https://site.example/'],
    allowedOrigins: [],
    secretHashes: [createHash('sha256').update('hush').digest('hex')],
  })
  const browser = openBrowser(world.origin)
  const redirect = { client_id: 'site', redirect_uri: 'https://site.example/auth/callback' }
  const back = await browser.signIn(authorizationUrl(world.origin, redirect).url, 'jules')
  assert.equal(back.url.origin, 'https://site.example')
  const leave = (to: string) =>
    browser.go(`/oauth/session/end?client_id=site&post_logout_redirect_uri=${encodeURIComponent(to)}&state=s`)
  assert.equal((await leave('https://site.example/elsewhere')).status, 400)
  const out = await browser.submit(await leave('https://site.example/'), '/session/end/confirm', { logout: 'yes' })
  assert.equal(out.url.href, 'https://site.example/?state=s')
  const silent = await browser.go(authorizationUrl(world.origin, { ...redirect, prompt: 'none' }).url)
  assert.equal(silent.url.searchParams.get('error'), 'login_required')
})

test('two installations on one host do not touch each other’s cookies', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn(authorizationUrl(world.origin).url, 'kim')
  const names = [...browser.cookies.values()].map(({ name }) => name)
  assert.ok(names.length > 0)
  const port = new URL(world.origin).port
  const { cookieNames } = await import('./cookies.ts')
  const other = Object.values(cookieNames(`http://localhost:${Number(port) + 1}`))
  assert.deepEqual(
    names.filter((name) => other.includes(name.replace(/\.sig$/, ''))),
    [],
  )
})
