import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { importJWK, SignJWT } from 'jose'
import { checkProvider } from './check-provider.ts'
import { newKey } from '../keys.ts'
import { bindProviders, pkceMarkOf, readProviders, type ProviderSettings } from './providers.ts'
import { authorizationUrl, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf } from '../../../test/kit/browser.ts'
import { freePort } from '../../../test/kit/ports.ts'

/** One provider, of OpenID Connect or of OAuth 2.0 alone, that can be broken in every way. */
const key = newKey('ES256')
const rsa = newKey('RS256')
const ALGORITHMS = ['RS384', 'RS512', 'PS256', 'PS384', 'PS512']
const healthy = {
  /** what its description says besides the truth */
  described: {} as Record<string, unknown>,
  keys: [
    { ...key, d: undefined },
    { kty: 'RSA', n: rsa.n, e: rsa.e, kid: rsa.kid },
  ] as object[],
  takes: 'post' as 'post' | 'basic',
  /** what it calls a proof that it does not accept, and a code that it did not issue */
  words: { proof: 'invalid_client', code: 'invalid_grant' },
  secret: 'our secret',
  refusal: null as { status: number; body: object } | null,
  authorize: { status: 302, location: '/sign-in' } as { status: number; location?: string },
  profileStatus: 401,
  person: { id: 77, login: 'una', avatar: 'https://img.example/una.png', mail: 'una@example.org', ok: true } as Record<string, unknown>, // prettier-ignore
}
let now = { ...healthy }
let base: string
let folder: string
let nonce: string | null = null

const server = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on('end', () => void respond(request, response, new URLSearchParams(body)))
})

async function respond(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): Promise<void> {
  const send = (status: number, said: object, headers = {}) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(said))
  const asked = request.url!.split('?', 1)[0]!
  // Under the name of an algorithm it is a provider that signs with that one.
  const alg = ALGORITHMS.find((one) => asked.startsWith(`/${one}/`))
  const [issuer, path] = alg === undefined ? [base, asked] : [`${base}/${alg}`, asked.slice(alg.length + 1)]
  if (path === '/.well-known/openid-configuration')
    return send(200, {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/keys`,
      response_types_supported: ['code'],
      id_token_signing_alg_values_supported: [alg ?? 'ES256'],
      token_endpoint_auth_methods_supported: ['client_secret_post'],
      ...now.described,
    })
  if (path === '/keys') return send(200, { keys: now.keys })
  if (path === '/authorize')
    return send(
      now.authorize.status,
      {},
      now.authorize.location === undefined ? {} : { location: now.authorize.location },
    )
  if (path === '/user') {
    if (request.headers.authorization !== 'Bearer good') return send(now.profileStatus, {})
    return send(200, { data: now.person })
  }
  if (path !== '/token') return send(404, {})
  const basic = Buffer.from(request.headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
  const proven = now.takes === 'post' ? form.get('client_secret') : basic.split(':')[1]?.replaceAll('+', ' ')
  if (proven !== now.secret) return send(401, { error: now.words.proof })
  if (now.refusal !== null) return send(now.refusal.status, now.refusal.body)
  if (form.get('code') !== 'good') return send(400, { error: now.words.code })
  const seconds = Math.floor(Date.now() / 1_000)
  const id_token = await new SignJWT({ nonce, name: 'Una' })
    .setProtectedHeader({ alg: alg ?? 'ES256', kid: alg === undefined ? key.kid : rsa.kid })
    .setIssuer(issuer)
    .setSubject('7')
    .setAudience('us')
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + 60)
    .sign(await importJWK(alg === undefined ? key : { ...rsa, alg }, alg ?? 'ES256'))
  send(200, { access_token: 'good', token_type: 'Bearer', expires_in: 60, ...(nonce === null ? {} : { id_token }) })
}

const shared = { clientId: 'us', clientSecret: 'our secret' }
const openidEntry = () => ({ ...shared, name: 'HOUSE', issuer: base })
const plainEntry = () => ({
  ...shared,
  kind: 'oauth2',
  name: 'FORGE',
  label: 'Forge',
  authorizationUrl: `${base}/authorize`,
  tokenUrl: `${base}/token`,
  userUrl: `${base}/user`,
  userMember: 'data',
  subjectClaim: 'id',
  usernameClaims: ['login'],
  pictureClaim: 'avatar',
  emailClaim: 'mail',
  emailVerifiedClaim: 'ok',
  scopes: ['read_user'],
})

async function read(entry: object, given = { allowsHttp: true }): Promise<ProviderSettings> {
  const file = join(folder, 'providers.json')
  await writeFile(file, JSON.stringify([entry]))
  return readProviders(file, given)[0]!
}

let world: Rehearsal
/** as the world has it: a test changes what its operator has checked */
let forge: ProviderSettings
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-check-'))
  base = `http://localhost:${await freePort()}`
  await new Promise<void>((done) => void server.listen(Number(new URL(base).port), 'localhost', done))
  forge = await read(plainEntry())
  const others = [await read(openidEntry()), forge]
  for (const alg of ALGORITHMS) others.push(await read({ ...openidEntry(), name: alg, issuer: `${base}/${alg}` }))
  world = await rehearse({ others: () => others })
})
after(async () => {
  server.closeAllConnections()
  server.close()
  await world.close()
  await rm(folder, { recursive: true, force: true })
})

async function wrongOf(entry: object, changes: Partial<typeof healthy> = {}): Promise<string> {
  now = { ...healthy, ...changes }
  try {
    const findings = await checkProvider(await read(entry), { origin: 'https://wallet.example' })
    return findings.filter(({ isGood }) => !isGood).map(({ about, says, advice }) => `${about}: ${says}. ${advice ?? ''}`).join('\n') // prettier-ignore
  } finally {
    now = { ...healthy }
  }
}

suite('a check of a provider', () => {
  test('finds nothing wrong with one that is right, of both kinds', async () => {
    assert.equal(await wrongOf(openidEntry()), '')
    assert.equal(await wrongOf(plainEntry()), '')
  })

  test('understands one that calls a refused proof unauthorized_client, and a made-up code invalid_code', async () => {
    const words = { proof: 'unauthorized_client', code: 'invalid_code' }
    assert.equal(await wrongOf(openidEntry(), { words }), '')
    assert.match(
      await wrongOf(openidEntry(), { words, takes: 'basic' }),
      /^client: .*unauthorized_client\. Set "clientAuthentication": "client_secret_basic"/,
    )
    assert.match(
      await wrongOf({ ...openidEntry(), clientSecret: 'another' }, { words }),
      /^client: .*unauthorized_client\. .*Enable the code flow.* secret/,
    )
  })

  const broken: Record<string, [entry: () => object, changes: Partial<typeof healthy>, says: RegExp]> = {
    'another issuer': [openidEntry, { described: { issuer: 'http://localhost:1/other' } }, /^description: .*another issuer.*exactly/], // prettier-ignore
    'no keys named': [openidEntry, { described: { jwks_uri: undefined } }, /^description: .*has no jwks_uri/], // prettier-ignore
    'no keys there': [openidEntry, { keys: [] }, /^keys: no keys/],
    'a flow that is not ours': [openidEntry, { described: { response_types_supported: ['id_token'] } }, /^flow: the code flow is not offered/], // prettier-ignore
    'signatures that are not ours': [openidEntry, { described: { id_token_signing_alg_values_supported: ['HS256'] } }, /^signatures: .*HS256 only/], // prettier-ignore
    'a wrong secret': [openidEntry, { secret: 'another' }, /^client: .*invalid_client.*Compare clientId and clientSecret/], // prettier-ignore
    'a secret that belongs into the header': [openidEntry, { takes: 'basic' }, /^client: .*"clientAuthentication": "client_secret_basic"/], // prettier-ignore
    'the same without discovery': [plainEntry, { takes: 'basic' }, /^client: .*"clientAuthentication": "client_secret_basic"/], // prettier-ignore
    'a client that may not use codes': [openidEntry, { refusal: { status: 400, body: { error: 'unauthorized_client' } } }, /^client: .*Enable the code flow/], // prettier-ignore
    'a token endpoint that is something else': [openidEntry, { refusal: { status: 200, body: {} } }, /^client: .*instead of invalid_grant/], // prettier-ignore
    'a callback address that is not registered': [openidEntry, { authorize: { status: 400 } }, /^callback: .*Register exactly https:\/\/wallet\.example\/login\/callback\/HOUSE at the provider/], // prettier-ignore
    'a scope that is not allowed': [openidEntry, { authorize: { status: 302, location: 'https://wallet.example/login/callback/HOUSE?error=invalid_scope' } }, /^callback: .*invalid_scope/], // prettier-ignore
    'a profile that is not there': [plainEntry, { profileStatus: 404 }, /^profile: .*responds with 404.*userUrl/],
    'a profile for everybody': [plainEntry, { profileStatus: 200 }, /^profile: .*cannot identify a user/],
  }
  for (const [name, [entry, changes, says]] of Object.entries(broken))
    test(`names ${name}`, async () => {
      const wrong = await wrongOf(entry(), changes)
      assert.match(wrong, says)
      assert.ok(!wrong.includes('our secret'))
    })

  test('names what is not reached, and what is not a provider at all', async () => {
    const gone = `http://localhost:${await freePort()}`
    assert.match(await wrongOf({ ...openidEntry(), issuer: gone }), /^description: the connection was refused/)
    assert.match(await wrongOf({ ...openidEntry(), issuer: `${base}/nothing` }), /^description: it responds with 404.*use kind oauth2/) // prettier-ignore
    const hidden = { ...(await read(openidEntry())), issuer: 'https://127.0.0.1', allowsHttp: false }
    const [finding] = await checkProvider(hidden, { origin: 'https://wallet.example' })
    assert.deepEqual([finding!.isGood, /allowPrivate/.test(finding!.advice!)], [false, true])
  })
})

suite('a provider without discovery, by its addresses', () => {
  /** @returns the page after the provider */
  async function goThrough(name: string, code = 'good') {
    const browser = openBrowser(world.origin)
    const { url: away } = await browser.go(authorizationUrl(world.origin, { login_provider: name }).url)
    nonce = away.searchParams.get('nonce')
    const state = away.searchParams.get('state')!
    const back = await browser.go(`${world.origin}/login/callback/${name}?code=${code}&state=${state}`)
    return { away, back }
  }

  test('signs people in by the id that its profile gives, with name, picture and e-mail as told', async () => {
    const { away, back } = await goThrough('FORGE')
    assert.deepEqual(
      [away.origin, away.searchParams.get('scope'), away.searchParams.get('nonce'), away.searchParams.get('code_challenge_method')], // prettier-ignore
      [base, 'read_user', null, 'S256'],
    )
    assert.match(back.url.pathname, /^\/consent\//, textOf(back.text))
    const kept = await world.app.db.selectFrom('identities').selectAll().where('provider', '=', 'FORGE').executeTakeFirstOrThrow() // prettier-ignore
    assert.deepEqual(
      [kept.subject, kept.username, kept.image_src, kept.email, kept.email_verified],
      ['77', 'una', 'https://img.example/una.png', 'una@example.org', true],
    )
  })

  test('cannot be linked before its PKCE was checked, at either end of the way, and the page says so', async () => {
    const browser = openBrowser(world.origin)
    await browser.signIn('/account', 'lea')
    const page = await browser.go('/account/security')
    const refusal = /You can sign in with Forge, but you cannot add this sign-in to an account/
    assert.match(textOf(page.text), refusal)
    assert.ok(!page.text.includes('value="FORGE"'))
    assert.match(textOf((await browser.submit(page, '/account/identities/add', { provider: 'FORGE' })).text), refusal)

    const link = async (meanwhile: boolean) => {
      forge.hasCheckedPkce = true
      const { url } = await browser.submit(page, '/account/identities/add', { provider: 'FORGE' })
      const state = url.searchParams.get('state')!
      forge.hasCheckedPkce = meanwhile
      return browser.go(`${world.origin}/login/callback/FORGE?code=good&state=${state}`)
    }
    now = { ...healthy, person: { ...healthy.person, id: 78 } }
    const linked = () => world.app.db.selectFrom('identities').select('subject').where('subject', '=', '78').execute()
    assert.match(textOf((await link(false)).text), refusal)
    assert.deepEqual(await linked(), [])
    assert.equal((await link(true)).url.pathname, '/account/security')
    assert.equal((await linked()).length, 1)
    delete forge.hasCheckedPkce
    now = { ...healthy }
  })

  test('the mark of a check holds for its client and its URLs, where there is no id token', async () => {
    const pkceChecked = pkceMarkOf(forge)
    assert.equal((await read({ ...plainEntry(), pkceChecked, label: 'Other' })).hasCheckedPkce, true)
    for (const change of [{ clientId: 'others' }, { tokenUrl: `${base}/other` }, { authorizationUrl: `${base}/other` }, { pkceChecked: 'yes' }]) // prettier-ignore
      await assert.rejects(read({ ...plainEntry(), pkceChecked, ...change }), /pkceChecked does not match this clientId and these URLs: remove it/) // prettier-ignore
    await assert.rejects(read({ ...openidEntry(), pkceChecked }), /unknown field pkceChecked/)
    await assert.rejects(read({ ...shared, preset: 'google', pkceChecked }), /unknown field pkceChecked/)
    const github = await read({ ...shared, preset: 'github' })
    assert.equal((await read({ ...shared, preset: 'github', pkceChecked: pkceMarkOf(github) })).hasCheckedPkce, true)
  })

  test('refuses a sign-in whose code, profile or id is not good', async () => {
    assert.match((await goThrough('FORGE', 'made-up')).back.text, /sign_in_refused/)
    for (const person of [{}, { id: '' }, { id: null }, { id: 1.5 }, { id: { a: 1 } }]) {
      now = { ...healthy, person }
      assert.match((await goThrough('FORGE')).back.text, /sign_in_refused/, JSON.stringify(person))
    }
    now = { ...healthy }
  })

  test('its settings are named where they cannot be used', async () => {
    const { subjectClaim: _, ...unknown } = plainEntry()
    await assert.rejects(read(unknown), /subjectClaim is missing/)
    await assert.rejects(read({ ...plainEntry(), subjectClaim: 'login' }), /can change or pass to another/)
    await assert.rejects(read({ ...plainEntry(), issuer: base }), /unknown field issuer/)
    await assert.rejects(read({ ...plainEntry(), kind: 'saml' }), /kind must be oauth2/)
    await assert.rejects(read({ ...plainEntry(), preset: 'github' }), /exclude each other/)
    await assert.rejects(
      read({ ...plainEntry(), userUrl: 'http://forge.example/user' }),
      /userUrl must be an https URL/,
    )
    // In production not even on this machine.
    await assert.rejects(read(plainEntry(), { allowsHttp: false }), /authorizationUrl must be an https URL/)
    await assert.rejects(read(openidEntry(), { allowsHttp: false }), /issuer must be an https URL/)
  })

  test('its name belongs for ever to the address that says who people are, and to the field it says it in', async () => {
    const { db } = world.app
    await bindProviders(db, [await read(plainEntry())])
    await bindProviders(db, [await read({ ...plainEntry(), userUrl: `${base}/user?fields=all`, scopes: ['other'] })])
    for (const change of [{ userUrl: `${base}/other` }, { subjectClaim: 'uuid' }])
      await assert.rejects(bindProviders(db, [await read({ ...plainEntry(), ...change })]), /belongs to the issuer/)
  })

  for (const alg of ALGORITHMS)
    test(`an id token that is signed with ${alg} is accepted`, async () => {
      const { back } = await goThrough(alg)
      assert.match(back.url.pathname, /^\/consent\//, textOf(back.text))
    })
})
