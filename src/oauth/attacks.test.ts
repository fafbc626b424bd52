import assert from 'node:assert/strict'
import { createHmac, createPrivateKey, createSign } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, importJWK, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose'
import { saveApplication } from '../applications/registry.ts'
import { newKey } from './keys.ts'
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
import { openBrowser, type Page } from '../../test/kit/browser.ts'

/**
 * What is tried against an authorization server, each case by its name and each refused. Races are in races.test.ts,
 * lies of identity providers in federation.test.ts, the doors of the API in http/doors.test.ts.
 */
let world: Rehearsal
before(async () => {
  world = await rehearse()
  await saveApplication(world.app, { ...world.demo, clientId: 'other' })
  await saveApplication(world.app, { ...world.demo, clientId: 'web', redirectUris: ['https://app.example/callback', 'com.example.app:/done'] }) // prettier-ignore
})
after(() => world.close())

const ask = (parameters: Record<string, string | null>): Promise<Page> =>
  openBrowser(world.origin).go(authorizationUrl(world.origin, parameters).url)
const errorIn = ({ url }: Page): string | null =>
  url.searchParams.get('error') ?? new URLSearchParams(url.hash.slice(1)).get('error')
const token = (form: Record<string, string>, headers?: Record<string, string>) => post(world.origin, '/oauth/token', form, headers) // prettier-ignore

suite('a redirect address that is not registered never gets an answer', () => {
  const addresses = {
    'with a slash behind': 'https://app.example/callback/',
    'with a path below': 'https://app.example/callback/more',
    'with a path that climbs': 'https://app.example/callback/../other',
    'with an encoded climb': 'https://app.example/callback/%2e%2e/other',
    'with a query': 'https://app.example/callback?next=https://evil.example',
    'with a fragment': 'https://app.example/callback#x',
    'with other letters': 'https://app.example/Callback',
    'with an encoded letter': 'https://app.example/callb%61ck',
    'with a double slash': 'https://app.example//callback',
    'with a longer name': 'https://app.example.evil.example/callback',
    'with a shorter name': 'https://example/callback',
    'with a subdomain': 'https://x.app.example/callback',
    'with a trailing dot': 'https://app.example./callback',
    'with the name as user': 'https://app.example@evil.example/callback',
    'with a user': 'https://user@app.example/callback',
    'with another port': 'https://app.example:8443/callback',
    'without TLS': 'http://app.example/callback',
    'without a scheme': '//app.example/callback',
    'with a path alone': '/callback',
    'with a backslash': 'https://app.example\\@evil.example/callback',
    'with a tab': 'https://app.example/call\tback',
    'with a line break': 'https://app.example/callback\r\nLocation: https://evil.example',
    'with NUL': 'https://app.example/callback\0',
    'with a space in front': ' https://app.example/callback',
    'with full-width letters': 'https://ａｐｐ.example/callback',
    'of scripts': 'javascript:alert(1)//https://app.example/callback',
    'of data': 'data:text/html,<script>alert(1)</script>',
    'of a file': 'file:///etc/passwd',
    'of another private scheme': 'com.example.other:/done',
    'of a private scheme with another path': 'com.example.app:/else',
    'on a loopback address': 'http://127.0.0.1:8080/callback',
    'of our own account pages': 'http://localhost/account/signed-in',
    'that is empty': '',
    'that is missing': null,
  }
  for (const [name, redirect_uri] of Object.entries(addresses))
    test(name, async () => {
      const page = await ask({ client_id: 'web', redirect_uri })
      assert.equal(page.url.origin, world.origin)
      assert.equal(page.status, 400)
    })
})

suite('an authorization request is refused', () => {
  const requests: Record<string, Record<string, string | null>> = {
    'without PKCE': { code_challenge: null, code_challenge_method: null },
    'with plain PKCE': { code_challenge_method: 'plain' },
    'with PKCE of no method': { code_challenge_method: null },
    'with PKCE of an unknown method': { code_challenge_method: 'S512' },
    'with a method and no challenge': { code_challenge: null },
    'with a challenge too short': { code_challenge: 'x'.repeat(42) },
    'with a challenge too long': { code_challenge: 'x'.repeat(129) },
    'with a challenge of other characters': { code_challenge: `${'x'.repeat(42)}!` },
    'for a token': { response_type: 'token' },
    'for an id token': { response_type: 'id_token' },
    'for a code and a token': { response_type: 'code token' },
    'for a code and an id token': { response_type: 'code id_token' },
    'for everything': { response_type: 'code id_token token' },
    'for nothing': { response_type: 'none' },
    'for a code in capitals': { response_type: 'CODE' },
    'without a response type': { response_type: null },
    'with an unsigned request object': { request: 'eyJhbGciOiJub25lIn0.e30.' },
    'with a request object elsewhere': { request_uri: 'https://evil.example/request' },
    'with a pushed request of nobody': { request_uri: 'urn:ietf:params:oauth:request_uri:x' },
    'for another resource': { resource: 'https://evil.example/api' },
    'for a resource that begins like ours': { resource: 'http://localhost.evil.example/v1' },
    'with an unknown response mode': { response_mode: 'carrier-pigeon' },
    'with an unknown prompt': { prompt: 'whatever' },
    'with prompt none beside another': { prompt: 'none login' },
    'with prompt none and no session': { prompt: 'none' },
    'with a negative age': { max_age: '-1' },
    'of an unknown client': { client_id: 'nobody' },
    'of a client with NUL': { client_id: 'demo\0' },
    'of a client of the prototype': { client_id: '__proto__' },
    'without a client': { client_id: null },
    'of our own pages to another address': { client_id: 'urn:chatelaine:account' },
    'with NUL in the state': { state: '\0' },
    'with an id token of nobody as hint': { id_token_hint: 'x.y.z' },
  }
  for (const [name, parameters] of Object.entries(requests))
    test(name, async () => {
      const page = await ask(parameters)
      const error = errorIn(page)
      assert.ok(error !== null || page.status >= 400, `${page.status} ${page.url.href}`)
      assert.equal(page.url.searchParams.get('code'), null)
    })
  for (const name of ['client_id', 'redirect_uri', 'scope', 'state', 'nonce', 'code_challenge', 'response_type'])
    test(`with two of ${name}`, async () => {
      const page = await openBrowser(world.origin).go(`${authorizationUrl(world.origin).url}&${name}=x`)
      assert.ok(errorIn(page) !== null || page.status >= 400)
    })
})

suite('a code is refused', () => {
  const changes: Record<string, Record<string, string>> = {
    'with another verifier': { code_verifier: 'x'.repeat(43) },
    'with an empty verifier': { code_verifier: '' },
    'with a verifier too long': { code_verifier: 'x'.repeat(129) },
    'at another redirect address': { redirect_uri: 'http://localhost:9/else' },
    'at an empty redirect address': { redirect_uri: '' },
    'of another client': { client_id: 'other' },
    'of an unknown client': { client_id: 'nobody' },
    'of no client': { client_id: '' },
    'that nobody issued': { code: 'x'.repeat(43) },
    'that is empty': { code: '' },
    'as a refresh token': { grant_type: 'refresh_token' },
    'with the grant type of passwords': { grant_type: 'password', username: 'alice', password: 'x' },
    'with the implicit grant type': { grant_type: 'implicit' },
    'with an unknown grant type': { grant_type: 'whatever' },
    'without a grant type': { grant_type: '' },
  }
  for (const [name, change] of Object.entries(changes))
    test(name, async () => {
      const { exchange } = await obtainCode(world)
      assert.ok((await exchange(change)).status >= 400)
      assert.equal((await exchange()).status, 200, 'and the right request still works')
    })
  test('with the challenge instead of the verifier', async () => {
    const begun = authorizationUrl(world.origin)
    const page = await openBrowser(world.origin).signIn(begun.url, 'alice')
    const challenge = new URL(begun.url).searchParams.get('code_challenge')!
    const { body } = await token({ grant_type: 'authorization_code', client_id: 'demo', redirect_uri: REDIRECT, code: page.url.searchParams.get('code')!, code_verifier: challenge }) // prettier-ignore
    assert.equal(body.error, 'invalid_grant')
  })
  test('with the verifier of another sign-in', async () => {
    const [one, two] = [authorizationUrl(world.origin), authorizationUrl(world.origin)]
    const page = await openBrowser(world.origin).signIn(one.url, 'alice')
    const { body } = await token({ grant_type: 'authorization_code', client_id: 'demo', redirect_uri: REDIRECT, code: page.url.searchParams.get('code')!, code_verifier: two.verifier }) // prettier-ignore
    assert.equal(body.error, 'invalid_grant')
  })
  test('the second time, and its tokens end', async () => {
    const { exchange } = await obtainCode(world)
    const { body } = await exchange()
    assert.equal((await exchange()).body.error, 'invalid_grant')
    assert.equal((await askMe(world.origin, body.access_token!)).status, 401)
  })
})

suite('a refresh token is refused', () => {
  const refresh = (refresh_token: string, more: Record<string, string> = {}) =>
    token({ grant_type: 'refresh_token', client_id: 'demo', refresh_token, ...more })
  test('of another client', async () => {
    const { refresh: mine } = await obtainTokens(world)
    assert.equal((await refresh(mine, { client_id: 'other' })).body.error, 'invalid_grant')
  })
  test('for more than it had', async () => {
    const { refresh: mine } = await obtainTokens(world, { parameters: { scope: 'openid wallet:read' } })
    assert.equal((await refresh(mine, { scope: 'openid contracts:write' })).body.error, 'invalid_scope')
  })
  test('for another resource', async () => {
    const { refresh: mine } = await obtainTokens(world)
    assert.equal((await refresh(mine, { resource: 'https://evil.example' })).body.error, 'invalid_target')
  })
  test('that is an access token, an id token or nothing', async () => {
    const { access, id } = await obtainTokens(world)
    for (const wrong of [access, id, 'x', '']) assert.ok((await refresh(wrong)).status >= 400)
  })
  test('after it was taken back', async () => {
    const { refresh: mine } = await obtainTokens(world)
    await post(world.origin, '/oauth/token/revocation', { token: mine, client_id: 'demo' })
    assert.equal((await refresh(mine)).body.error, 'invalid_grant')
  })
  test('by whom it was not issued to, who also cannot look at it or take it back', async () => {
    const { refresh: mine, access } = await obtainTokens(world)
    for (const one of [mine, access]) {
      const seen = await post(world.origin, '/oauth/token/introspection', { token: one, client_id: 'other' })
      assert.notEqual((seen.body as { active?: unknown }).active, true)
      await post(world.origin, '/oauth/token/revocation', { token: one, client_id: 'other' })
    }
    assert.equal((await askMe(world.origin, access)).status, 200)
    assert.equal((await refresh(mine)).status, 200)
  })
})

suite('an access token is refused', () => {
  let right: { header: Record<string, unknown>; claims: JWTPayload; text: string; id: string }
  before(async () => {
    const { access, id } = await obtainTokens(world)
    right = { header: { ...decodeProtectedHeader(access) }, claims: decodeJwt(access), text: access, id }
  })
  const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const own = (alg: 'ES256' | 'RS256') => world.keys.keys.find((key) => key.alg === alg)!
  const signed = async (claims: object, header: object = {}, key = own('ES256')) =>
    new SignJWT({ ...right.claims, ...claims } as JWTPayload)
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: own('ES256').kid, ...header })
      .sign(await importJWK(key, key.alg))
  const without = async (name: string) => {
    const { [name]: _gone, ...claims } = right.claims
    return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: own('ES256').kid }).sign(await importJWK(own('ES256'), 'ES256')) // prettier-ignore
  }
  const forger = newKey('ES256')
  const { d: _d, ...forgerPublic } = forger
  const now = Math.floor(Date.now() / 1_000)
  const parts = () => right.text.split('.') as [string, string, string]

  const tokens: Record<string, () => string | Promise<string>> = {
    'that is unsigned': () => new UnsecuredJWT(right.claims).encode(),
    'that is unsigned and says at+jwt': () => `${base64({ alg: 'none', typ: 'at+jwt' })}.${parts()[1]}.`,
    'that is unsigned in other letters': () => `${base64({ alg: 'nOnE', typ: 'at+jwt' })}.${parts()[1]}.`,
    'whose signature is cut off': () => parts().slice(0, 2).join('.') + '.',
    'whose signature is cut short': () => right.text.slice(0, -8),
    'whose signature is zeros': () => `${parts()[0]}.${parts()[1]}.${Buffer.alloc(64).toString('base64url')}`,
    'whose claims were changed': () => `${parts()[0]}.${base64({ ...right.claims, sub: 'DEV-bob' })}.${parts()[2]}`,
    'whose header was changed': () => `${base64({ ...right.header, x: 1 })}.${parts()[1]}.${parts()[2]}`,
    'signed with the public key as a shared secret': () => {
      const body = `${base64({ ...right.header, alg: 'HS256' })}.${parts()[1]}`
      return `${body}.${createHmac('sha256', JSON.stringify(world.app.tokenKeys.keys[0])).update(body).digest('base64url')}` // prettier-ignore
    },
    'signed with an empty secret': () => {
      const body = `${base64({ ...right.header, alg: 'HS256' })}.${parts()[1]}`
      return `${body}.${createHmac('sha256', '').update(body).digest('base64url')}`
    },
    'signed by the key of id tokens': () => signed({}, { alg: 'RS256', kid: own('RS256').kid }, own('RS256')),
    'signed in DER': () => {
      const body = `${parts()[0]}.${parts()[1]}`
      const key = createPrivateKey({ key: own('ES256') as never, format: 'jwk' })
      return `${body}.${createSign('sha256').update(body).sign(key).toString('base64url')}`
    },
    'signed by a stranger under our kid': () => signed({}, {}, forger),
    'signed by a stranger under their kid': () => signed({}, { kid: forger.kid }, forger),
    'signed by the key in its own header': () => signed({}, { jwk: forgerPublic, kid: undefined }, forger),
    'signed by the key at its own address': () => signed({}, { jku: 'https://evil.example/jwks', kid: forger.kid }, forger), // prettier-ignore
    'signed by a certificate at its own address': () => signed({}, { x5u: 'https://evil.example/x', kid: forger.kid }, forger), // prettier-ignore
    'whose kid is a path': () => signed({}, { kid: '../../../../dev/null' }),
    'whose kid is a query': () => signed({}, { kid: "x' union select 1 --" }),
    'with a critical extension': () => `${base64({ ...right.header, crit: ['x'], x: 1 })}.${parts()[1]}.${parts()[2]}`,
    'that says it is any JWT': () => signed({}, { typ: 'JWT' }),
    'that does not say what it is': () => signed({}, { typ: undefined }),
    'that is a logout token': () => signed({}, { typ: 'logout+jwt' }),
    'that is an id token': () => right.id,
    'for another audience': () => signed({ aud: 'https://evil.example' }),
    'for a client': () => signed({ aud: 'demo' }),
    'for the issuer': () => signed({ aud: right.claims.iss }),
    'for nobody': () => without('aud'),
    'of another issuer': () => signed({ iss: 'https://evil.example/oauth' }),
    'of an issuer with a slash behind': () => signed({ iss: `${right.claims.iss}/` }),
    'of no issuer': () => without('iss'),
    'that has expired': () => signed({ iat: now - 100, exp: now - 1 }),
    'that never expires': () => without('exp'),
    'that expires in words': () => signed({ exp: 'tomorrow' }),
    'that is not valid yet': () => signed({ nbf: now + 600 }),
    'of no user': () => without('sub'),
    'of an unknown user': () => signed({ sub: 'DEV-nobody-at-all' }),
    'of a user that is a list': () => signed({ sub: ['DEV-alice'] }),
    'of no client': () => without('client_id'),
    'of a client that is a number': () => signed({ client_id: 7 }),
    'of no network': () => without('chain_id'),
    'of a network in words': () => signed({ chain_id: '31337' }),
    'of no grant': () => without('gid'),
    'without an id': () => without('jti'),
    'that is an encrypted one': () => 'eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..x.y.z',
    'with a part too many': () => `${right.text}.x`,
    'with a part too few': () => parts().slice(1).join('.'),
    'that is very long': () => right.text + 'x'.repeat(5_000),
    'that is a word': () => 'null',
  }
  for (const [name, make] of Object.entries(tokens))
    test(name, async () => {
      const text = await make()
      assert.notEqual(text, right.text)
      const { status, body } = await askMe(world.origin, text)
      assert.deepEqual([status, body.code], [401, 'invalid_token'])
    })

  const carriers: Record<string, () => [string, RequestInit]> = {
    'in the address': () => [`/oauth/me?access_token=${right.text}`, {}],
    'in a form': () => ['/oauth/me', { method: 'POST', body: new URLSearchParams({ access_token: right.text }) }],
    'in a cookie': () => ['/oauth/me', { headers: { cookie: `access_token=${right.text}` } }],
    'by the Basic scheme': () => ['/oauth/me', { headers: { authorization: `Basic ${right.text}` } }],
    'without a scheme': () => ['/oauth/me', { headers: { authorization: right.text } }],
    'beside another': () => ['/oauth/me', { headers: { authorization: `Bearer ${right.text}, Bearer x` } }],
  }
  for (const [name, make] of Object.entries(carriers))
    test(name, async () => {
      const [path, init] = make()
      assert.equal((await fetch(world.origin + path, init)).status, 401)
      assert.equal((await askMe(world.origin, right.text)).status, 200, 'and it is a right one')
    })
})

suite('a browser is not led astray', () => {
  const csrfIn = ({ text }: Page): string => /name="csrf" value="([^"]*)"/.exec(text)![1]!
  const send = (browser: ReturnType<typeof openBrowser>, path: string, fields: Record<string, string>) =>
    browser.go(path, { method: 'POST', body: new URLSearchParams(fields) })

  for (const [name, csrf] of [
    ['no token', null],
    ['an empty token', ''],
    ['a wrong token', 'x'],
  ] as const)
    // prettier-ignore
    for (const step of ['DEV', 'cancel'])
      test(`by a login form (${step}) with ${name}`, async () => {
        const browser = openBrowser(world.origin)
        const { url } = await browser.go(authorizationUrl(world.origin).url)
        const page = await send(browser, `${url.pathname}/${step}`, csrf === null ? {} : { csrf })
        assert.equal(page.status, 400)
      })
  test('by a consent form without our token, or with that of the login form', async () => {
    const browser = openBrowser(world.origin)
    const login = await browser.go(authorizationUrl(world.origin, { client_id: 'other' }).url)
    const dev = await browser.submit(login, '/DEV')
    const consent = await browser.submit(dev, '/sign-in/', { username: 'una' })
    assert.match(consent.url.pathname, /^\/consent\//)
    for (const fields of [{}, { csrf: '' }, { csrf: csrfIn(login) }] as Record<string, string>[])
      assert.equal((await send(browser, consent.url.pathname, { answer: 'allow', ...fields })).status, 400)
    const page = await send(browser, `${consent.url.pathname}?answer=allow`, { csrf: csrfIn(consent) })
    assert.equal(errorIn(page), 'access_denied', 'what is in the address counts for nothing')
  })
  test('by a page that another browser began', async () => {
    const { url } = await openBrowser(world.origin).go(authorizationUrl(world.origin).url)
    assert.equal((await openBrowser(world.origin).go(url.href)).status, 400)
  })
  test('by a session that was there before the sign-in', async () => {
    const browser = openBrowser(world.origin)
    const sessions = () => [...browser.cookies.values()].filter(({ name }) => /^chatelaine_\w+_session$/.test(name)).map(({ value }) => value) // prettier-ignore
    await browser.go(authorizationUrl(world.origin).url)
    const fixed = sessions()
    await browser.signIn(authorizationUrl(world.origin).url, 'vic')
    assert.equal(sessions().length, 1)
    assert.ok(!fixed.includes(sessions()[0]!))
  })
  test('by a session cookie without our signature', async () => {
    const browser = openBrowser(world.origin)
    await browser.signIn('/account', 'wes')
    for (const [key, { name }] of browser.cookies) if (name.endsWith('.sig')) browser.cookies.delete(key)
    assert.match((await browser.go('/account')).url.pathname, /^\/login\//)
  })
  for (const path of [
    '/account?done=https://evil.example',
    '/account/signed-in?redirect_uri=https://evil.example&state=https://evil.example',
    '/account/signed-in?error=access_denied&error_uri=https://evil.example',
    '/login/callback/DEV?state=x&redirect_uri=https://evil.example',
    '/oauth/session/end?post_logout_redirect_uri=https://evil.example',
    '/oauth/session/end?client_id=demo&post_logout_redirect_uri=https://evil.example',
    '//evil.example/%2e%2e',
  ])
    test(`to another site by ${path}`, async () => {
      const page = await openBrowser(world.origin).go(world.origin + path)
      assert.equal(page.url.origin, world.origin)
      assert.ok(!page.text.includes('href="https://evil.example'))
    })
  for (const path of [
    'applications/revoke',
    'identities/add',
    'identities/remove',
    'sessions/end',
    'sessions/end-others',
  ])
    test(`by a link to /account/${path}`, async () => {
      const browser = openBrowser(world.origin)
      await browser.signIn('/account', 'xan')
      assert.ok([404, 405].includes((await browser.go(`/account/${path}`)).status))
    })
  test('into a frame: every page forbids it', async () => {
    const browser = openBrowser(world.origin)
    const pages = [await browser.go(authorizationUrl(world.origin).url), await browser.signIn('/account', 'yan')]
    for (const path of [
      '/account/erase',
      '/account/signed-in?error=x',
      '/login/nothing',
      '/consent/nothing',
      '/login/callback/NOBODY?state=x',
      '/oauth/session/end',
      '/oauth/auth?client_id=nobody',
    ])
      // prettier-ignore
      pages.push(await browser.go(path))
    for (const { url, headers } of pages) {
      assert.match(headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/, url.pathname)
      assert.match(headers.get('cache-control') ?? '', /no-store/, url.pathname)
      assert.equal(headers.get('referrer-policy'), 'no-referrer', url.pathname)
      assert.equal(headers.get('x-content-type-options'), 'nosniff', url.pathname)
    }
  })
})
