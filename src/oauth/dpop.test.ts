import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import { decodeJwt } from 'jose'
import { keyHolder, type KeyHolder } from '../../test/key-holder.ts'
import type { Application } from '../applications/application.ts'
import { trustIssuer } from '../applications/issuers.ts'
import { saveApplication } from '../applications/registry.ts'
import { issuerStandIn, type IssuerStandIn } from '../../test/issuer-stand-in.ts'
import { issueToken } from './issue.ts'
import { changeApplication } from '../../test/opened.ts'
import { authorizationUrl, demoApplication, obtainCode, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'

/** Access tokens that are bound to a key (RFC 9449), and what is asked of whom. Attacks are in dpop-attacks.test.ts. */
const SECRET = 'a secret of forty-three characters, at least'
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const basic = { authorization: `Basic ${Buffer.from(`shop:${encodeURIComponent(SECRET)}`).toString('base64')}` }

let world: Rehearsal
let idp: IssuerStandIn
let phone: KeyHolder
let other: KeyHolder
before(async () => {
  ;[world, idp, phone, other] = await Promise.all([rehearse(), issuerStandIn(), keyHolder(), keyHolder('Ed25519')])
  const shop: Application = {
    ...demoApplication,
    clientId: 'shop',
    kind: 'confidential',
    permissions: ['wallet:read', 'users:read'],
    secretHashes: [createHash('sha256').update(SECRET).digest('hex')],
  }
  await saveApplication(world.app, shop)
  await trustIssuer(world.app, 'shop', 'APP_SHOP', { issuer: idp.issuer, audience: 'shop' })
  await saveApplication(world.app, { ...demoApplication, clientId: 'careful', needsDpop: true })
})
after(async () => {
  idp.close()
  await world.close()
})

const endpoint = () => `${world.origin}/oauth/token`
/** One request to the token endpoint with a proof. */
const token = async (form: Record<string, string>, holder: KeyHolder | null, headers: Record<string, string> = {}) =>
  post(world.origin, '/oauth/token', form, { ...(await proofOf(holder)), ...headers })
const proofOf = async (holder: KeyHolder | null): Promise<Record<string, string>> =>
  holder === null ? {} : { dpop: await holder.prove({ method: 'POST', uri: endpoint() }) }
/** A sign-in whose code is exchanged by a key. */
const signIn = async (holder: KeyHolder | null, parameters: Record<string, string> = {}) => {
  const { exchange } = await obtainCode(world, { parameters })
  return exchange({}, await proofOf(holder))
}
const me = async (headers: Record<string, string>) => {
  const response = await fetch(`${world.origin}/oauth/me`, { headers })
  const body = (await response.json()) as Record<string, unknown>
  return { status: response.status, challenge: response.headers.get('www-authenticate'), body }
}
const boundTo = (text: string | undefined): unknown => (decodeJwt(text!).cnf as { jkt?: unknown } | undefined)?.jkt

suite('the token endpoint binds to the key of a proof', () => {
  for (const alg of ['ES256', 'Ed25519'] as const)
    test(`the tokens of a code (${alg}), and the refresh token of a public client with them`, async () => {
      const holder = await keyHolder(alg)
      const { status, body } = await signIn(holder)
      assert.deepEqual([status, body.token_type, boundTo(body.access_token)], [200, 'DPoP', holder.jkt])
      const uri = `${world.origin}/oauth/me`
      const answer = await me(await holder.headers({ uri, token: body.access_token! }))
      assert.deepEqual([answer.status, answer.body.sub], [200, 'DEV-alice'])

      const form = { grant_type: 'refresh_token', client_id: 'demo', refresh_token: body.refresh_token! }
      for (const wrong of [null, other]) assert.equal((await token(form, wrong)).body.error, 'invalid_grant')
      const renewed = await token(form, holder)
      assert.deepEqual([renewed.body.token_type, boundTo(renewed.body.access_token)], ['DPoP', holder.jkt])
      const successor = { ...form, refresh_token: renewed.body.refresh_token! }
      assert.equal((await token(successor, null)).body.error, 'invalid_grant', 'a renewed one is bound, too')
      assert.equal((await token(successor, holder)).status, 200)
    })

  test('an application that keeps a secret proves itself by that: its refresh token goes with any key', async () => {
    const { exchange } = await obtainCode(world, { parameters: { client_id: 'shop' } })
    const first = await exchange({}, { ...basic, dpop: await phone.prove({ method: 'POST', uri: endpoint() }) })
    assert.equal(boundTo(first.body.access_token), phone.jkt)
    const form = { grant_type: 'refresh_token', refresh_token: first.body.refresh_token! }
    const second = await token(form, other, basic)
    assert.equal(boundTo(second.body.access_token), other.jkt)
    const third = await token({ ...form, refresh_token: second.body.refresh_token! }, null, basic)
    assert.deepEqual([third.body.token_type, boundTo(third.body.access_token)], ['Bearer', undefined])
  })

  test('the token of an application for itself', async () => {
    const { body } = await token({ grant_type: 'client_credentials' }, phone, basic)
    assert.deepEqual([body.token_type, boundTo(body.access_token)], ['DPoP', phone.jkt])
  })

  test('a token that was exchanged for one of another issuer', async () => {
    const form = async () => ({
      grant_type: EXCHANGE,
      subject_token: await idp.sign(),
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
    })
    const { body } = await token(await form(), phone, basic)
    assert.deepEqual([body.token_type, boundTo(body.access_token)], ['DPoP', phone.jkt])
    const dpop = await phone.prove({ method: 'POST', uri: endpoint() })
    assert.equal((await post(world.origin, '/oauth/token', await form(), { ...basic, dpop })).status, 200)
    const again = await post(world.origin, '/oauth/token', await form(), { ...basic, dpop })
    assert.deepEqual([again.status, again.body.error], [400, 'invalid_dpop_proof'])
    const elsewhere = await phone.prove({ method: 'POST', uri: `${world.origin}/oauth/me` })
    const wrong = await post(world.origin, '/oauth/token', await form(), { ...basic, dpop: elsewhere })
    assert.equal(wrong.body.error, 'invalid_dpop_proof')
  })

  test('and without one the token is for whoever holds it, as ever', async () => {
    const { body } = await signIn(null)
    assert.deepEqual([body.token_type, boundTo(body.access_token)], ['Bearer', undefined])
  })
})

test('an application that is registered so is given nothing without a proof, by any grant', async () => {
  const careful = { client_id: 'careful' }
  assert.equal((await signIn(null, careful)).body.error, 'invalid_grant')
  const { body } = await signIn(phone, careful)
  assert.equal(boundTo(body.access_token), phone.jkt)
  await saveApplication(world.app, { ...world.demo, clientId: 'later' })
  const unbound = await signIn(null, { client_id: 'later' })
  await changeApplication(world.app, { ...world.demo, clientId: 'later', needsDpop: true })
  const form = { grant_type: 'refresh_token', client_id: 'later', refresh_token: unbound.body.refresh_token! }
  assert.equal((await token(form, null)).body.error, 'invalid_grant', 'also with what it got before')
  const old = await me({ authorization: `Bearer ${unbound.body.access_token}` })
  assert.equal(old.status, 200, 'what is out stays good until it ends')
  assert.equal(boundTo((await token(form, phone)).body.access_token), phone.jkt)
})

test('a refresh token from before an application had a key is bound by the first proof that comes with it', async () => {
  const { body } = await signIn(null)
  const form = { grant_type: 'refresh_token', client_id: 'demo' }
  const unbound = await token({ ...form, refresh_token: body.refresh_token! }, null)
  assert.equal(unbound.body.token_type, 'Bearer')
  const bound = await token({ ...form, refresh_token: unbound.body.refresh_token! }, phone)
  assert.equal(boundTo(bound.body.access_token), phone.jkt)
  const repeated = await token({ ...form, refresh_token: unbound.body.refresh_token! }, phone)
  assert.equal(repeated.body.refresh_token, bound.body.refresh_token, 'again within the grace time, by the same key')
  const successor = { ...form, refresh_token: bound.body.refresh_token! }
  for (const wrong of [null, other]) assert.equal((await token(successor, wrong)).body.error, 'invalid_grant')
  const renewed = await token(successor, phone)
  assert.deepEqual([renewed.status, boundTo(renewed.body.access_token)], [200, phone.jkt])
  const last = { ...form, refresh_token: renewed.body.refresh_token! }
  assert.equal((await token(last, other)).body.error, 'invalid_grant', 'and stays bound')
})

for (const what of ['another key', 'no key'])
  test(`a refresh token that somebody has bound to their key ends the sign-in when it comes again with ${what}`, async () => {
    const { body } = await signIn(null)
    const form = { grant_type: 'refresh_token', client_id: 'demo' }
    const first = await token({ ...form, refresh_token: body.refresh_token! }, phone)
    assert.equal(first.status, 200)
    const second = await token({ ...form, refresh_token: body.refresh_token! }, what === 'no key' ? null : other)
    assert.deepEqual([second.status, second.body.error], [400, 'invalid_grant'])
    const again = await token({ ...form, refresh_token: first.body.refresh_token! }, phone)
    assert.deepEqual([again.status, again.body.error], [400, 'invalid_grant'], 'whoever was first has nothing of it')
  })

test('a token that is given out in development without a sign-in is bound to no key, whatever the application wants', async () => {
  const { token: given } = await issueToken(world.app, world.keys, { username: 'ann', clientId: 'careful' })
  const { status, body } = await me({ authorization: `Bearer ${given}` })
  assert.deepEqual([status, body.sub, boundTo(given)], [200, 'DEV-ann', undefined])
})

test('a confidential application that is registered so is given nothing without a proof', async () => {
  const strict = { ...demoApplication, clientId: 'strict', kind: 'confidential', needsDpop: true } as const
  const secretHashes = [createHash('sha256').update(SECRET).digest('hex')]
  await saveApplication(world.app, { ...strict, permissions: ['wallet:read', 'users:read'], secretHashes })
  await trustIssuer(world.app, 'strict', 'APP_STRICT', { issuer: idp.issuer, audience: 'strict' })
  const secret = { client_id: 'strict', client_secret: SECRET }
  const subject_token_type = 'urn:ietf:params:oauth:token-type:id_token'
  const forms: Record<string, string>[] = [
    { grant_type: 'client_credentials' },
    { grant_type: EXCHANGE, subject_token_type, subject_token: await idp.sign({ aud: 'strict' }) },
  ]
  for (const form of forms) {
    const refused = await token({ ...form, ...secret }, null)
    assert.deepEqual([refused.status, refused.body.error], [400, 'invalid_grant'], form.grant_type)
    const { body } = await token({ ...form, ...secret }, phone)
    assert.equal(boundTo(body.access_token), phone.jkt, form.grant_type)
  }
})

test('a code whose request named a key is exchanged by that key alone', async () => {
  for (const wrong of [null, other]) {
    const { status, body } = await signIn(wrong, { dpop_jkt: phone.jkt })
    assert.deepEqual([status, body.error], [400, 'invalid_grant'])
  }
  assert.equal(boundTo((await signIn(phone, { dpop_jkt: phone.jkt })).body.access_token), phone.jkt)
})

test('introspection says the key, and revocation takes a bound token', async () => {
  const { body } = await signIn(phone)
  const form = { token: body.access_token!, client_id: 'demo' }
  const seen = await post(world.origin, '/oauth/token/introspection', form)
  assert.deepEqual([seen.body.active, seen.body.token_type, seen.body.cnf], [true, 'DPoP', { jkt: phone.jkt }])
  const unbound = await signIn(null)
  const plain = await post(world.origin, '/oauth/token/introspection', { ...form, token: unbound.body.access_token! })
  assert.deepEqual([plain.body.token_type, plain.body.cnf], ['Bearer', undefined])
  assert.equal((await post(world.origin, '/oauth/token/revocation', form)).status, 200)
  const uri = `${world.origin}/oauth/me`
  const { status, body: refusal, challenge } = await me(await phone.headers({ uri, token: body.access_token! }))
  assert.deepEqual(
    [status, refusal.code, challenge?.split(',')[0]],
    [401, 'invalid_token', 'DPoP error="invalid_token"'],
  )
})

test('discovery lists the signatures, and pages of other origins may send the header', async () => {
  for (const path of ['openid-configuration', 'oauth-authorization-server']) {
    const answer = await fetch(`${world.origin}/oauth/.well-known/${path}`)
    const described = (await answer.json()) as Record<string, unknown>
    assert.deepEqual(described.dpop_signing_alg_values_supported, ['ES256', 'Ed25519', 'EdDSA'])
  }
  for (const path of ['/oauth/token', '/oauth/me']) {
    const { headers } = await fetch(world.origin + path, {
      method: 'OPTIONS',
      headers: {
        origin: 'http://localhost:5000',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,dpop',
      },
    })
    assert.match(headers.get('access-control-allow-headers') ?? '', /dpop/i, path)
    const refused = await fetch(world.origin + path, {
      method: 'POST',
      headers: { origin: 'http://localhost:5000', dpop: 'x' },
      body: new URLSearchParams({ grant_type: 'refresh_token', client_id: 'demo', refresh_token: 'x' }),
    })
    assert.match(refused.headers.get('access-control-expose-headers') ?? '', /WWW-Authenticate/i, path)
  }
})

suite('a program that nothing tells from others on the device', () => {
  const redirect_uri = 'http://127.0.0.1:4001/callback'
  const begin = (browser: ReturnType<typeof openBrowser>, more: Record<string, string> = {}) =>
    browser.go(authorizationUrl(world.origin, { redirect_uri, ...more }).url)
  const isAsked = ({ url }: Page): boolean => url.pathname.startsWith('/consent/')
  const errorOf = ({ headers }: Page) => new URL(headers.get('location')!).searchParams.get('error')

  test('is asked about once where its requests name its key, and its tokens are bound to that', async () => {
    const browser = openBrowser(world.origin)
    const allowed = { redirect_uri, dpop_jkt: phone.jkt, scope: 'openid wallet:read' }
    const page = await begin(browser, allowed)
    assert.equal(isAsked(page), false, 'nobody is signed in')
    const first = authorizationUrl(world.origin, allowed)
    const done = await browser.signIn(first.url, 'kay')
    assert.ok(done.url.searchParams.get('code'))
    const silent = await obtainCode(world, { browser, username: 'kay', parameters: { ...allowed, prompt: 'none' } })
    assert.equal((await silent.exchange()).body.error, 'invalid_grant', 'without the key the code is worth nothing')
    const right = await obtainCode(world, { browser, username: 'kay', parameters: { ...allowed, prompt: 'none' } })
    assert.equal((await right.exchange({}, await proofOf(other))).body.error, 'invalid_grant')
    const last = await obtainCode(world, { browser, username: 'kay', parameters: { ...allowed, prompt: 'none' } })
    const { body } = await last.exchange({}, await proofOf(phone))
    assert.deepEqual([body.token_type, boundTo(body.access_token)], ['DPoP', phone.jkt])
    const data = JSON.parse((await browser.go('/account/data.json')).text) as { applications: { keys: object[] }[] }
    const [{ keys }] = data.applications as [{ keys: { thumbprint: string; permissions: string[] }[] }]
    assert.deepEqual(
      keys.map(({ thumbprint, permissions }) => [thumbprint, permissions]),
      [[phone.jkt, ['wallet:read']]],
    )
    // The page of the account forgets it with the application.
    const account = await browser.go('/account/applications')
    await browser.submit(account, '/applications/revoke')
    assert.equal(isAsked(await begin(browser, allowed)), true)
  })

  test('is asked about by another key, without one, for more, and for less to somebody else’s key', async () => {
    const browser = openBrowser(world.origin)
    const allowed = { redirect_uri, dpop_jkt: phone.jkt, scope: 'openid wallet:read' }
    await browser.signIn(authorizationUrl(world.origin, allowed).url, 'lou')
    const small = { ...allowed, dpop_jkt: other.jkt, scope: 'openid contracts:read' }
    await browser.signIn(authorizationUrl(world.origin, small).url, 'lou')
    for (const [name, more] of Object.entries({
      'another key': { ...allowed, dpop_jkt: (await keyHolder()).jkt },
      'no key': { redirect_uri, scope: 'openid wallet:read' },
      'more than that key was allowed': { ...allowed, scope: 'openid wallet:read contracts:write' },
      'what the other key was allowed': { ...small, scope: 'openid wallet:read' },
      'a key that is none': { ...allowed, dpop_jkt: 'x' },
      'the key in other letters': { ...allowed, dpop_jkt: `${phone.jkt} ` },
    })) {
      const page = await begin(browser, more)
      assert.equal(isAsked(page), true, name)
      const isToldSo = textOf(page.text).includes('you are asked at every sign-in')
      assert.equal(isToldSo, !/^[\w-]{43}$/.test((more as { dpop_jkt?: string }).dpop_jkt ?? ''), name)
      assert.equal(errorOf(await begin(browser, { ...more, prompt: 'none' })), 'consent_required', name)
    }
    assert.equal(isAsked(await begin(browser, allowed)), false, 'and the right one is not')
    assert.equal(isAsked(await begin(browser, { ...allowed, redirect_uri: 'http://127.0.0.1:6666/callback' })), false)
    assert.equal(isAsked(await begin(browser, { ...allowed, prompt: 'consent' })), true)
  })

  test('the oldest of more than twenty keys is asked about again, and what was allowed stays', async () => {
    const browser = openBrowser(world.origin)
    const keys = await Promise.all(Array.from({ length: 21 }, () => keyHolder('Ed25519')))
    for (const { jkt } of keys)
      await browser.signIn(authorizationUrl(world.origin, { redirect_uri, dpop_jkt: jkt, scope: 'openid' }).url, 'max')
    const asked = []
    for (const { jkt } of keys) asked.push(isAsked(await begin(browser, { dpop_jkt: jkt, scope: 'openid' })))
    assert.deepEqual(asked, [true, ...Array.from({ length: 20 }, () => false)])
  })
})
