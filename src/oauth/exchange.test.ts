import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import * as openid from 'openid-client'
import { until } from '../../test/kit/until.ts'
import { distrustIssuer, trustIssuer } from '../applications/issuers.ts'
import { forgetApplication, saveApplication } from '../applications/registry.ts'
import { accountIdOf } from '../ids.ts'
import { issuerStandIn, sendJson, type IssuerStandIn } from '../../test/issuer-stand-in.ts'
import { newKey, publicKeys } from './keys.ts'
import { askMe, demoApplication, obtainTokens, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
const type = (name: string): string => `urn:ietf:params:oauth:token-type:${name}`
const SECRET = 'a secret of forty-three characters, at least'

/** on the operator’s machine */
const COMMAND = { by: 'command' } as const

let world: Rehearsal
let idp: IssuerStandIn
let other: IssuerStandIn
before(async () => {
  ;[world, idp, other] = await Promise.all([rehearse(), issuerStandIn(), issuerStandIn()])
  for (const clientId of ['shop', 'forum', 'plain']) await register(clientId)
  await trustIssuer(world.app, 'shop', 'APP_SHOP', { issuer: idp.issuer, audience: 'shop' })
  await trustIssuer(world.app, 'forum', 'APP_FORUM', { issuer: other.issuer, audience: 'shop' })
})
after(async () => {
  idp.close()
  other.close()
  await world.close()
})

const register = (clientId: string): Promise<void> =>
  saveApplication(world.app, {
    ...demoApplication,
    clientId,
    name: clientId,
    kind: 'confidential',
    permissions: ['wallet:read', 'contracts:write'],
    secretHashes: [createHash('sha256').update(SECRET).digest('hex')],
  })

const basic = (clientId: string, secret = SECRET): { authorization: string } => ({
  authorization: `Basic ${Buffer.from(`${clientId}:${encodeURIComponent(secret)}`).toString('base64')}`,
})

/** An exchange by hand, so that a test can bend each part of it; an empty text leaves a parameter out. */
const exchange = (token: string, changes: Record<string, string> = {}, clientId = 'shop') => {
  const all = { grant_type: GRANT, subject_token: token, subject_token_type: type('id_token'), ...changes }
  const form = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''))
  return post(world.origin, '/oauth/token', form, basic(clientId))
}
const payloadOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>
const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

test('a token of the application’s own provider becomes a user and an access token like every other', async () => {
  const profile = { preferred_username: 'Alice', picture: 'https://x.example/a.png', email: 'alice@x.example', email_verified: true } // prettier-ignore
  const { status, body } = await exchange(await idp.sign(profile))
  assert.equal(status, 200, JSON.stringify(body))
  const { access_token, ...rest } = body
  assert.deepEqual(rest, {
    issued_token_type: type('access_token'),
    token_type: 'Bearer',
    expires_in: 3_600,
    scope: 'openid wallet:read contracts:write',
  })
  const { sub, aud, iss, client_id, chain_id, scope, gid } = payloadOf(access_token!)
  assert.deepEqual(
    [sub, aud, iss, client_id, chain_id, scope, typeof gid],
    ['APP_SHOP-alice', `${world.origin}/v1`, `${world.origin}/oauth`, 'shop', 31_337, rest.scope, 'string'],
  )
  const me = await askMe(world.origin, access_token!)
  assert.deepEqual(
    [me.status, me.body.sub, me.body.provider, me.body.username, me.body.imageSrc, me.body.email],
    [200, 'APP_SHOP-alice', 'APP_SHOP', 'Alice', 'https://x.example/a.png', undefined],
  )
  const members = await world.app.db.selectFrom('application_users').select('account_id').where('client_id', '=', 'shop').execute() // prettier-ignore
  assert.deepEqual(members, [{ account_id: accountIdOf('APP_SHOP', 'alice') }])
})

test('discovery names the grant', async () => {
  for (const path of ['openid-configuration', 'oauth-authorization-server']) {
    const answer = await fetch(`${world.origin}/oauth/.well-known/${path}`)
    const { grant_types_supported } = (await answer.json()) as { grant_types_supported: string[] }
    assert.ok(grant_types_supported.includes(GRANT), path)
  }
})

test('a client library that knows nothing of us exchanges, looks and takes back', async () => {
  const config = await openid.discovery(
    new URL(`${world.origin}/oauth`),
    'shop',
    undefined,
    openid.ClientSecretBasic(SECRET),
    { execute: [openid.allowInsecureRequests] },
  )
  const parameters = { subject_token: await idp.sign(), subject_token_type: type('id_token'), scope: 'openid wallet:read' } // prettier-ignore
  const tokens = await openid.genericGrantRequest(config, GRANT, parameters)
  assert.deepEqual(
    [tokens.token_type, tokens.scope, tokens.issued_token_type],
    ['bearer', 'openid wallet:read', type('access_token')],
  )
  // Whole seconds, by the clock of now.
  assert.ok([3_599, 3_600].includes(tokens.expiresIn()!))
  const info = await openid.fetchUserInfo(config, tokens.access_token, 'APP_SHOP-alice')
  assert.equal(info.provider, 'APP_SHOP')
  assert.equal((await openid.tokenIntrospection(config, tokens.access_token)).active, true)
  await openid.tokenRevocation(config, tokens.access_token)
  assert.equal((await openid.tokenIntrospection(config, tokens.access_token)).active, false)
  const again = openid.genericGrantRequest(config, GRANT, parameters)
  await assert.rejects(again, { error: 'invalid_request', error_description: /already exchanged/ })
})

test('it gives what is asked for, within what the application has', async () => {
  const less = await exchange(await idp.sign({ email: 'a@x.example' }), { scope: 'openid email wallet:read' })
  assert.equal(less.body.scope, 'openid email wallet:read')
  assert.equal((await askMe(world.origin, less.body.access_token!)).body.email, 'a@x.example')
  const asJwt = { subject_token_type: type('jwt'), resource: `${world.origin}/v1`, requested_token_type: type('access_token') } // prettier-ignore
  assert.equal((await exchange(await idp.sign(), asJwt)).status, 200)
  for (const scope of ['contracts:read', 'users:read', 'users:directory', 'offline_access', 'admin', 'openid nothing'])
    assert.equal((await exchange(await idp.sign(), { scope })).body.error, 'invalid_scope', scope)
})

test('the application looks at the token and takes it back; another one does neither', async () => {
  const token = (await exchange(await idp.sign())).body.access_token!
  const look = (clientId: string) =>
    post(world.origin, '/oauth/token/introspection', { token }, basic(clientId)) as Promise<{ body: object }>
  assert.deepEqual((await look('forum')).body, { active: false })
  const { body } = (await look('shop')) as { body: Record<string, unknown> }
  assert.deepEqual([body.active, body.sub, body.client_id], [true, 'APP_SHOP-alice', 'shop'])
  await post(world.origin, '/oauth/token/revocation', { token }, basic('forum'))
  assert.equal((await askMe(world.origin, token)).status, 200)
  await post(world.origin, '/oauth/token/revocation', { token }, basic('shop'))
  assert.equal((await askMe(world.origin, token)).status, 401)
})

suite('who the person is', () => {
  test('the same subject of another issuer, and the same e-mail, are somebody else', async () => {
    const said = { email: 'same@x.example', email_verified: true }
    const dev = await obtainTokens(world, { username: 'alice' })
    const [mine, theirs] = await Promise.all([
      exchange(await idp.sign(said)),
      exchange(await other.sign(said), {}, 'forum'),
    ])
    const people = await Promise.all([mine, theirs].map(({ body }) => askMe(world.origin, body.access_token!)))
    const everybody = [...people, await askMe(world.origin, dev.access)].map(({ body }) => body)
    assert.deepEqual(
      everybody.map(({ sub }) => sub),
      ['APP_SHOP-alice', 'APP_FORUM-alice', 'DEV-alice'],
    )
    assert.equal(new Set(everybody.map(({ address }) => address)).size, 3)
  })

  test('an application that trusts the issuer of an installed provider gets people of its own', async () => {
    await register('impostor')
    const dev = await (await fetch(`${world.origin}/devnet/idp/.well-known/openid-configuration`)).json()
    const { issuer } = dev as { issuer: string }
    for (const provider of ['DEV', 'GOOGLE', 'APP_', 'app_x', 'APP-X', 'XAPP_X', `APP_${'X'.repeat(29)}`])
      await assert.rejects(trustIssuer(world.app, 'impostor', provider, { issuer, audience: 'x' }), /APP_/, provider)
    const own = newKey('ES256')
    idp.instead['/own-keys'] = (response) => sendJson(response, publicKeys({ keys: [own] }))
    const keys = { jwksUri: `${idp.issuer}/own-keys` }
    await trustIssuer(world.app, 'impostor', 'APP_IMPOSTOR', { issuer, audience: 'x', ...keys })
    const { body } = await exchange(await idp.sign({ iss: issuer, aud: 'x' }, { key: own }), {}, 'impostor')
    const taken = await askMe(world.origin, body.access_token!)
    assert.equal(taken.body.sub, 'APP_IMPOSTOR-alice')
    const real = await askMe(world.origin, (await obtainTokens(world, { username: 'alice' })).access)
    assert.notEqual(taken.body.address, real.body.address)
  })

  test('two applications share people only when the operator says so', async () => {
    await register('sister')
    const same = { issuer: idp.issuer, audience: 'sister' }
    await assert.rejects(trustIssuer(world.app, 'sister', 'APP_SHOP', same), { code: 'already_exists' })
    await assert.rejects(trustIssuer(world.app, 'sister', 'APP_SHOP', { ...same, issuer: other.issuer, isShared: true }, COMMAND), { code: 'invalid_request' }) // prettier-ignore
    await assert.rejects(trustIssuer(world.app, 'sister', 'APP_SHOP', { ...same, isShared: true }), { code: 'already_exists' }) // prettier-ignore
    await trustIssuer(world.app, 'sister', 'APP_SHOP', { ...same, isShared: true }, COMMAND)
    const { body } = await exchange(await idp.sign({ aud: 'sister' }), {}, 'sister')
    const { sub, client_id } = payloadOf(body.access_token!)
    assert.deepEqual([sub, client_id], ['APP_SHOP-alice', 'sister'])
    const wrong = await exchange(await idp.sign({ aud: 'shop' }), {}, 'sister')
    assert.equal(wrong.body.error, 'invalid_request')
  })

  test('a name keeps its issuer and its subject claim after the trust has ended', async () => {
    await register('mover')
    await trustIssuer(world.app, 'mover', 'APP_MOVER', { issuer: idp.issuer, audience: 'm' })
    const { issuers } = await distrustIssuer(world.app, 'mover', 'APP_MOVER')
    assert.deepEqual(issuers, [])
    await assert.rejects(distrustIssuer(world.app, 'mover', 'APP_MOVER'), { code: 'not_found' })
    for (const changed of [{ issuer: other.issuer }, { subjectClaim: 'uid' }])
      await assert.rejects(trustIssuer(world.app, 'mover', 'APP_MOVER', { issuer: idp.issuer, audience: 'm', ...changed }), /permanently/) // prettier-ignore
    await trustIssuer(world.app, 'mover', 'APP_MOVER', { issuer: idp.issuer, audience: 'n' })
  })

  test('a token of the operator brings no other keys for people who are there; a command does', async () => {
    const draft = { issuer: idp.issuer, audience: 'keys' }
    const thief = { ...draft, jwksUri: `${other.issuer}/keys` }
    await register('keys')
    await register('keys-too')
    await trustIssuer(world.app, 'keys', 'APP_KEYS', draft)
    await assert.rejects(trustIssuer(world.app, 'keys', 'APP_KEYS', thief), { code: 'invalid_request' })
    await distrustIssuer(world.app, 'keys', 'APP_KEYS')
    await assert.rejects(trustIssuer(world.app, 'keys', 'APP_KEYS', thief), { code: 'invalid_request' })
    await assert.rejects(trustIssuer(world.app, 'keys-too', 'APP_KEYS', { ...thief, isShared: true }), { code: 'already_exists' }) // prettier-ignore
    await assert.rejects(trustIssuer(world.app, 'keys', 'APP_KEYS', { ...draft, allowsPrivate: true }), { code: 'invalid_request' }) // prettier-ignore
    await trustIssuer(world.app, 'keys', 'APP_KEYS', thief, COMMAND)
    await trustIssuer(world.app, 'keys', 'APP_KEYS', thief)
  })

  test('the id may be another claim, and a number; ids with odd characters stay what they are', async () => {
    await register('numbers')
    await trustIssuer(world.app, 'numbers', 'APP_NUMBERS', { issuer: idp.issuer, audience: 'numbers', subjectClaim: 'uid' }) // prettier-ignore
    const ids: [unknown, string][] = [
      [42, '42'],
      ['a-b-c', 'a-b-c'],
      ["'; drop table users; --", "'; drop table users; --"],
      ['../../v1/me?x=%2f', '../../v1/me?x=%2f'],
      ['Ünïcödé 💠', 'Ünïcödé 💠'],
      ['<script>', '<script>'],
      ['x'.repeat(255), 'x'.repeat(255)],
    ]
    for (const [uid, subject] of ids) {
      const { status, body } = await exchange(await idp.sign({ aud: 'numbers', uid }), {}, 'numbers')
      assert.equal(status, 200, JSON.stringify(body))
      assert.equal(payloadOf(body.access_token!).sub, `APP_NUMBERS-${subject}`)
      assert.equal((await askMe(world.origin, body.access_token!)).body.id, `APP_NUMBERS-${subject}`)
    }
    for (const uid of ['', 'a\0b', 'a\nb', '\ud800', 'x'.repeat(256), 1.5, 2 ** 60, true, null, { a: 1 }, ['a']]) {
      const { status, body } = await exchange(await idp.sign({ aud: 'numbers', uid }), {}, 'numbers')
      assert.deepEqual([status, body.error], [400, 'invalid_request'], JSON.stringify(uid))
    }
  })
})

suite('a subject token is refused as invalid_request', () => {
  const now = Math.floor(Date.now() / 1_000)
  const stranger = newKey('ES256')
  const cases: Record<string, () => Promise<string> | string> = {
    'for another audience': () => idp.sign({ aud: 'forum' }),
    'for several, and not said for whom': () => idp.sign({ aud: ['shop', 'forum'] }),
    'for several, and authorised for another': () => idp.sign({ aud: ['shop', 'forum'], azp: 'forum' }),
    'without an audience': () => idp.sign({ aud: undefined }),
    'of an issuer nobody configured': () => idp.sign({ iss: 'https://evil.example' }),
    'of the issuer of another application': () => other.sign(),
    'of an issuer that only looks like it': () => idp.sign({ iss: `${idp.issuer}/` }),
    'without an issuer': () => idp.sign({ iss: undefined }),
    'with a list as issuer': () => idp.sign({ iss: [idp.issuer] }),
    'signed by the other application’s issuer': () => idp.sign({}, { key: other.keys[0]! }),
    'signed by a stranger under the issuer’s key id': () =>
      idp.sign({}, { key: stranger, header: { kid: idp.keys[0]!.kid } }),
    'signed by a key nobody publishes': () => idp.sign({}, { key: stranger }),
    'with its own key in it (jwk)': () =>
      idp.sign({}, { key: stranger, header: { kid: undefined, jwk: publicKeys({ keys: [stranger] }).keys[0] } }),
    'with the address of its keys in it (jku)': () =>
      idp.sign({}, { key: stranger, header: { jku: `${other.issuer}/keys` } }),
    'with a certificate address in it (x5u)': () =>
      idp.sign({}, { key: stranger, header: { x5u: `${other.issuer}/certificate` } }),
    'with a key id that walks': () => idp.sign({}, { key: stranger, header: { kid: '../../../etc/passwd' } }),
    'with extensions that must be understood': async () =>
      (await idp.sign()).replace(/^[^.]+/, base64url({ alg: 'ES256', kid: idp.keys[0]!.kid, crit: ['exp'], exp: 1 })),
    'without a signature': async () => (await idp.sign()).replace(/[^.]+$/, ''),
    'unsigned (alg none)': async () => `${base64url({ alg: 'none' })}.${(await idp.sign()).split('.')[1]}.`,
    'unsigned (alg nOnE)': async () => `${base64url({ alg: 'nOnE' })}.${(await idp.sign()).split('.')[1]}.x`,
    'signed with the public key as a shared secret (HS256)': async () => {
      const content = `${base64url({ alg: 'HS256', kid: idp.keys[0]!.kid })}.${(await idp.sign()).split('.')[1]}`
      const secret = JSON.stringify(publicKeys({ keys: [idp.keys[0]!] }).keys[0])
      return `${content}.${createHmac('sha256', secret).update(content).digest('base64url')}`
    },
    'signed with an algorithm that is not configured': () => {
      const key = newKey('RS256')
      return idp.sign({}, { key, alg: 'PS256' })
    },
    'changed after it was signed': async () => {
      const [header, , signature] = (await idp.sign()).split('.')
      return `${header}.${base64url({ ...payloadOf(await idp.sign()), sub: 'mallory' })}.${signature}`
    },
    expired: () => idp.sign({ iat: now - 400, exp: now - 60 }),
    'without an end': () => idp.sign({ exp: undefined }),
    'with an end that is a text': () => idp.sign({ exp: 'never' }),
    'from the future (iat)': () => idp.sign({ iat: now + 600, exp: now + 900 }),
    'without a beginning': () => idp.sign({ iat: undefined }),
    'not good yet (nbf)': () => idp.sign({ nbf: now + 600 }),
    'issued too long ago, though it has not expired': () => idp.sign({ iat: now - 4_000, exp: now + 600 }),
    'that lives for years': () => idp.sign({ exp: now + 1e8 }),
    'that ends before it begins': () => idp.sign({ iat: now, exp: now - 5 }),
    'without a subject': () => idp.sign({ sub: undefined }),
    'with an empty subject': () => idp.sign({ sub: '' }),
    'with NUL in the subject': () => idp.sign({ sub: 'a\0' }),
    'that is an access token (typ)': () => idp.sign({}, { header: { typ: 'at+jwt' } }),
    'that Keycloak calls an access token (typ)': () => idp.sign({ typ: 'Bearer' }),
    'that Cognito calls an access token (token_use)': () => idp.sign({ token_use: 'access' }),
    'of Auth0 for an API (scope)': () => idp.sign({ scope: 'openid profile', azp: 'other' }),
    'of Entra for an API (scp)': () => idp.sign({ scp: 'access_as_user' }),
    'of a client (client_id)': () => idp.sign({ client_id: 'another' }),
    'of a machine (gty)': () => idp.sign({ gty: 'client-credentials' }),
    'that is a logout token (typ)': () => idp.sign({}, { header: { typ: 'logout+jwt' } }),
    'that is a logout token (events)': () =>
      idp.sign({ events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }),
    'that is a proof of possession (typ)': () => idp.sign({}, { header: { typ: 'dpop+jwt' } }),
    'that is bound to a key (cnf)': () => idp.sign({ cnf: { jkt: 'x' } }),
    'of our own': async () => (await obtainTokens(world)).id,
    'that is too long': () => idp.sign({ more: 'x'.repeat(9_000) }),
    'encrypted (five parts)': () => 'a.b.c.d.e',
    'a word': () => 'word',
    'two parts': () => 'a.b',
    'JSON of another shape': () => `${base64url([])}.${base64url(null)}.x`,
    'bytes that are no text': () => `${Buffer.from([255, 254]).toString('base64url')}.x.y`,
  }
  for (const [name, make] of Object.entries(cases))
    test(name, async () => {
      const token = await make()
      const before = await countUsers()
      const { status, body } = await exchange(token)
      assert.deepEqual([status, body.error], [400, 'invalid_request'], JSON.stringify(body))
      assert.match(body.error_description!, /subject.token/)
      assert.match(body.error_description!, /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/, 'RFC 6749 §5.2')
      assert.ok(token.length < 20 || !body.error_description!.includes(token.slice(0, 20)))
      assert.equal(await countUsers(), before)
    })
})

const countUsers = async (): Promise<number> =>
  (await world.app.db.selectFrom('identities').select('subject').where('provider', 'like', 'APP%').execute()).length

suite('a request is refused', () => {
  const cases: Record<string, [error: string, () => ReturnType<typeof post>]> = {
    'without a subject token': ['invalid_request', () => exchange('')],
    'without the type of the subject token': ['invalid_request', async () => exchange(await idp.sign(), { subject_token_type: '' })], // prettier-ignore
    'with another type of subject token': ['invalid_request', async () => exchange(await idp.sign(), { subject_token_type: type('saml2') })], // prettier-ignore
    'with an access token as subject token': ['invalid_request', async () => exchange(await idp.sign(), { subject_token_type: type('access_token') })], // prettier-ignore
    'for a refresh token': ['invalid_request', async () => exchange(await idp.sign(), { requested_token_type: type('refresh_token') })], // prettier-ignore
    'with an actor': ['invalid_request', async () => exchange(await idp.sign(), { actor_token: 'x', actor_token_type: type('jwt') })], // prettier-ignore
    'for another resource': ['invalid_target', async () => exchange(await idp.sign(), { resource: 'https://evil.example' })], // prettier-ignore
    'for another audience': ['invalid_target', async () => exchange(await idp.sign(), { audience: 'https://evil.example' })], // prettier-ignore
    'of an application without an issuer': ['invalid_request', async () => exchange(await idp.sign(), {}, 'plain')],
    'of a public application': ['invalid_request', async () => post(world.origin, '/oauth/token', { grant_type: GRANT, client_id: 'demo', subject_token: await idp.sign(), subject_token_type: type('jwt') })], // prettier-ignore
    'without the secret': ['invalid_client', async () => post(world.origin, '/oauth/token', { grant_type: GRANT, client_id: 'shop', subject_token: await idp.sign(), subject_token_type: type('jwt') })], // prettier-ignore
    'with a wrong secret': ['invalid_client', async () => post(world.origin, '/oauth/token', { grant_type: GRANT, subject_token: await idp.sign(), subject_token_type: type('jwt') }, basic('shop', 'wrong'))], // prettier-ignore
  }
  for (const [name, [error, ask]] of Object.entries(cases))
    test(name, async () => {
      const { status, body } = await ask()
      assert.equal(body.error, error, JSON.stringify(body))
      assert.equal(status, error === 'invalid_client' ? 401 : 400)
      assert.equal(body.access_token, undefined)
    })

  test('of an application that is public now, though it was trusted with an issuer before', async () => {
    await register('turned')
    await trustIssuer(world.app, 'turned', 'APP_TURNED', { issuer: idp.issuer, audience: 'turned' })
    await saveApplication(world.app, { ...demoApplication, clientId: 'turned', kind: 'public', secretHashes: [] })
    const form = { grant_type: GRANT, client_id: 'turned', subject_token: await idp.sign({ aud: 'turned' }), subject_token_type: type('jwt') } // prettier-ignore
    const { status, body } = await post(world.origin, '/oauth/token', form)
    assert.deepEqual([status, body.error], [400, 'invalid_request'])
  })

  test('with two subject tokens', async () => {
    const form = new URLSearchParams({ grant_type: GRANT, subject_token_type: type('jwt'), subject_token: await idp.sign() }) // prettier-ignore
    form.append('subject_token', await idp.sign())
    const answer = await fetch(`${world.origin}/oauth/token`, { method: 'POST', body: form, headers: basic('shop') })
    assert.deepEqual([answer.status, ((await answer.json()) as { error: string }).error], [400, 'invalid_request'])
  })
})

suite('one token is exchanged once', () => {
  test('of 16 at once, one succeeds', async () => {
    const token = await idp.sign()
    const answers = await Promise.all(Array.from({ length: 16 }, () => exchange(token)))
    assert.equal(answers.filter(({ status }) => status === 200).length, 1)
    assert.ok(answers.every(({ status, body }) => status === 200 || /already/.test(body.error_description!)))
  })

  test('also without jti, and with its signature written another way', async () => {
    const token = await idp.sign({ jti: undefined })
    assert.equal((await exchange(token)).status, 200)
    assert.match((await exchange(token)).body.error_description!, /already/)
    // (r, n - s) is as good an ECDSA signature as (r, s).
    const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
    const signature = Buffer.from(token.split('.')[2]!, 'base64url')
    const s = BigInt(`0x${signature.subarray(32).toString('hex')}`)
    const twin = Buffer.concat([signature.subarray(0, 32), Buffer.from((n - s).toString(16).padStart(64, '0'), 'hex')])
    const again = await exchange(`${token.slice(0, token.lastIndexOf('.'))}.${twin.toString('base64url')}`)
    assert.match(again.body.error_description!, /already/)
  })

  test('unless the operator allows it', async () => {
    await register('again')
    await trustIssuer(world.app, 'again', 'APP_AGAIN', { issuer: idp.issuer, audience: 'again', isReusable: true })
    const token = await idp.sign({ aud: 'again' })
    for (let time = 0; time < 3; time++) assert.equal((await exchange(token, {}, 'again')).status, 200)
  })

  test('what was refused for another reason may be sent again', async () => {
    const token = await idp.sign()
    assert.equal((await exchange(token, { scope: 'nothing' })).body.error, 'invalid_scope')
    assert.equal((await exchange(token)).status, 200)
  })
})

suite('the issuer', () => {
  test('changes its keys: the new one is found, the old one is refused once it is gone', async () => {
    assert.equal((await exchange(await idp.sign())).status, 200)
    const old = idp.keys[0]!
    idp.keys.unshift(newKey('ES256'))
    await until('the new key is found', async () => (await exchange(await idp.sign())).status === 200)
    assert.equal((await exchange(await idp.sign({}, { key: old }))).status, 200)
    idp.keys.pop()
    await until('the old key is forgotten', async () => {
      // A key that nobody knows makes the keys be read again.
      await exchange(await idp.sign({}, { key: newKey('ES256') }))
      return (await exchange(await idp.sign({}, { key: old }))).status === 400
    })
    assert.equal((await exchange(await idp.sign())).status, 200)
  })

  test('is not asked for every token with a key that is not there', async () => {
    const before = idp.asked()
    const key = newKey('ES256')
    for (let time = 0; time < 20; time++) assert.equal((await exchange(await idp.sign({}, { key }))).status, 400)
    assert.ok(idp.asked() - before <= 2, `${idp.asked() - before} times`)
  })

  test('that fails, lies about itself or points elsewhere is 502, never taken for another, and its token may be sent again', async (t) => {
    const broken = await issuerStandIn()
    t.after(() => broken.close())
    await register('broken')
    await trustIssuer(world.app, 'broken', 'APP_BROKEN', { issuer: broken.issuer, audience: 'shop' })
    const token = await broken.sign()
    const description = '/.well-known/openid-configuration'
    const wrong: Record<string, (typeof broken.instead)[string]> = {
      'status 500': (response) => response.writeHead(500).end(),
      'no JSON': (response) => response.end('<html>'),
      null: (response) => sendJson(response, null),
      'another issuer': (response) => sendJson(response, { issuer: idp.issuer, jwks_uri: `${broken.issuer}/keys` }),
      'a redirect': (response) => response.writeHead(302, { location: `${idp.issuer}${description}` }).end(),
      'no keys': (response) => sendJson(response, { issuer: broken.issuer }),
      'keys in a file': (response) => sendJson(response, { issuer: broken.issuer, jwks_uri: 'file:///etc/passwd' }),
      'an endless answer': (response) => {
        response.on('error', () => {})
        response.write('{"issuer":"')
        for (let part = 0; part < 30; part++) response.write('x'.repeat(65_536))
      },
    }
    for (const [name, answer] of Object.entries(wrong)) {
      broken.instead[description] = answer
      const { status, body } = await exchange(token, {}, 'broken')
      assert.deepEqual([status, body.error], [502, 'temporarily_unavailable'], name)
    }
    delete broken.instead[description]
    assert.equal((await exchange(token, {}, 'broken')).status, 200)
  })

  test('in production it is asked over https only, and not inside the operator’s network', async (t) => {
    const env = { NODE_ENV: 'production' }
    const strict = await rehearse()
    t.after(() => strict.close())
    Object.assign(strict.app.config, env)
    await saveApplication(strict.app, {
      ...demoApplication,
      clientId: 'shop',
      kind: 'confidential',
      secretHashes: [createHash('sha256').update(SECRET).digest('hex')],
    })
    const before = idp.asked()
    for (const [at, jwksUri] of [
      [idp.issuer, null],
      [idp.issuer, `${idp.issuer}/keys`],
      ['https://127.0.0.1:9', 'https://169.254.169.254/keys'],
      ['https://localhost:9', null],
    ] as const) {
      await trustIssuer(strict.app, 'shop', `APP_S${idp.asked()}${Math.random().toString().slice(2, 10)}`, { issuer: at, audience: 'shop', jwksUri }).catch(() => {}) // prettier-ignore
      forgetApplication(strict.app, 'shop')
      const form = { grant_type: GRANT, subject_token: await idp.sign({ iss: at }), subject_token_type: type('jwt') }
      const { status, body } = await post(strict.origin, '/oauth/token', form, basic('shop'))
      assert.deepEqual([status, body.error], [502, 'temporarily_unavailable'], at)
    }
    assert.equal(idp.asked(), before)
  })

  test('that is trusted no more is refused within seconds', async () => {
    await register('ending')
    await trustIssuer(world.app, 'ending', 'APP_ENDING', { issuer: idp.issuer, audience: 'ending' })
    assert.equal((await exchange(await idp.sign({ aud: 'ending' }), {}, 'ending')).status, 200)
    await distrustIssuer(world.app, 'ending', 'APP_ENDING')
    // As the operator API does, and five seconds in any other process.
    forgetApplication(world.app, 'ending')
    assert.equal((await exchange(await idp.sign({ aud: 'ending' }), {}, 'ending')).body.error, 'invalid_request')
  })

  test('cannot be configured in a way that is not safe, and everything wrong is named at once', async () => {
    const good = { issuer: 'https://id.example', audience: 'x' }
    const wrong: Record<string, object> = {
      '/issuer': { issuer: 'http://id.example' },
      '/issuer ': { issuer: 'https://id.example/?x' },
      '/issuer  ': { issuer: 'https://user:word@id.example' },
      '/audience': { audience: '' },
      '/jwksUri': { jwksUri: 'file:///etc/passwd' },
      '/algorithms': { algorithms: ['HS256'] },
      '/algorithms ': { algorithms: ['RS256', 'none'] },
      '/algorithms  ': { algorithms: [] },
      '/subjectClaim': { subjectClaim: 'email' },
      '/subjectClaim ': { subjectClaim: 'preferred_username' },
      '/maxAgeSeconds': { maxAgeSeconds: 1e9 },
      '/maxAgeSeconds ': { maxAgeSeconds: Number.NaN },
      '/usernameClaims': { usernameClaims: [''] },
    }
    const pointersOf = (error: unknown) =>
      (error as { errors: { pointer: string }[] }).errors.map(({ pointer }) => pointer)
    for (const [pointer, change] of Object.entries(wrong))
      await assert.rejects(trustIssuer(world.app, 'plain', 'APP_PLAIN', { ...good, ...change }), (error) => {
        assert.deepEqual(pointersOf(error), [pointer.trim()])
        return true
      })
    await assert.rejects(trustIssuer(world.app, 'demo', 'APP_DEMO', good), /public/)
    await assert.rejects(trustIssuer(world.app, 'nobody', 'APP_X', good), { code: 'not_found' })
    await assert.rejects(
      trustIssuer(world.app, 'shop', 'APP_SHOP2', { issuer: idp.issuer, audience: 'y' }),
      /another provider/,
    )
    await assert.rejects(trustIssuer(world.app, 'demo', 'x', { ...good, issuer: 'x', audience: ' ' }), (error) => {
      assert.deepEqual(pointersOf(error).toSorted(), ['/audience', '/clientId', '/issuer', '/provider'])
      return true
    })
  })
})

test('more exchanges than an application may are refused with 429', async (t) => {
  const busy = await rehearse({ env: { RATE_LIMITS: 'on', APPLICATION_PER_SECOND: '2' } })
  t.after(() => busy.close())
  const secretHashes = [createHash('sha256').update(SECRET).digest('hex')]
  await saveApplication(busy.app, { ...demoApplication, clientId: 'shop', kind: 'confidential', secretHashes })
  await trustIssuer(busy.app, 'shop', 'APP_SHOP', { issuer: idp.issuer, audience: 'shop' })
  const answers = await Promise.all(
    Array.from(
      { length: 8 },
      () =>
      post(busy.origin, '/oauth/token', { grant_type: GRANT, subject_token: 'x', subject_token_type: type('jwt') }, basic('shop')), // prettier-ignore
    ),
  )
  const refused = answers.filter(({ status }) => status === 429)
  assert.ok(refused.length >= 4)
  assert.equal(refused[0]!.body.error, 'temporarily_unavailable')
})

test('no subject token lies in the database or in the log', async () => {
  const token = await idp.sign()
  const { body } = await exchange(token)
  await exchange(token)
  const rows = await world.app.db.selectFrom('oauth_records').selectAll().execute()
  const logged = JSON.stringify(world.logged, (_key, value: unknown) =>
    value instanceof Error ? [value.message, value.stack, value.cause] : value,
  )
  for (const credential of [token, token.split('.')[2]!, body.access_token!, SECRET]) {
    assert.ok(!JSON.stringify(rows).includes(credential))
    assert.ok(!logged.includes(credential))
  }
})
