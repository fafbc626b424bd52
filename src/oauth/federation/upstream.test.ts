import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { importJWK, SignJWT } from 'jose'
import { newKey } from '../keys.ts'
import { readProviders, type ProviderSettings } from './providers.ts'
import { authorizationUrl, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { freePort } from '../../../test/kit/ports.ts'

/** Providers of another house, one per path, distinguished by how their clients prove themselves and by what they remember. */
const METHODS: Record<string, string[] | undefined> = {
  basic: ['client_secret_basic'],
  silent: undefined,
  post: ['client_secret_post'],
  both: ['client_secret_basic', 'client_secret_post'],
  wrong: ['client_secret_post'],
  prompted: ['client_secret_basic'],
  literal: ['client_secret_basic'],
}
const TAKES: Record<string, string> = { basic: 'basic', silent: 'basic', post: 'post', both: 'post', wrong: 'basic', prompted: 'basic', literal: 'basic' } // prettier-ignore
const SECRET = 'hush: 50% + more'
/** Of a provider that decodes nothing: most secrets are of these characters. */
const LITERAL = ['us_and-them.1', 'Hush_hush-1.2']

const key = newKey('ES256')
const nonces = new Map<string, string>()
let base: string
let world: Rehearsal
/** how long ago the provider says it asked, seconds; undefined: it does not say; epoch: it says 0, and means that */
let askedAgo: number | 'epoch' | undefined
let refusal: string | null = null

const server = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on('end', () => {
    void answer(request, new URLSearchParams(body)).then(({ status = 200, said }) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said)),
    )
  })
})

async function answer(request: IncomingMessage, form: URLSearchParams): Promise<{ status?: number; said: unknown }> {
  const [, name = '', ...rest] = request.url!.split('?', 1)[0]!.split('/')
  const issuer = `${base}/${name}`
  const path = rest.join('/')
  if (path === '.well-known/openid-configuration') {
    return {
      said: {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        id_token_signing_alg_values_supported: ['ES256'],
        ...(METHODS[name] === undefined ? {} : { token_endpoint_auth_methods_supported: METHODS[name] }),
      },
    }
  }
  if (path === 'jwks') return { said: { keys: [{ ...key, d: undefined }] } }
  if (refusal !== null) return { status: 400, said: { error: refusal, error_description: `do not log ${SECRET}` } }
  const basic = Buffer.from(request.headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
  const decoded = decodeURIComponent(basic.slice(basic.indexOf(':') + 1).replaceAll('+', ' '))
  const isProven =
    name === 'literal'
      ? basic === LITERAL.join(':')
      : (TAKES[name] === 'post' ? form.get('client_secret') : decoded) === SECRET
  if (!isProven) return { status: 401, said: { error: 'invalid_client' } }
  const now = Math.floor(Date.now() / 1_000)
  const id_token = await new SignJWT({
    nonce: nonces.get(form.get('code')!),
    name: 'Una',
    ...(askedAgo === undefined ? {} : { auth_time: askedAgo === 'epoch' ? 0 : now - askedAgo }),
  })
    .setProtectedHeader({ alg: 'ES256', kid: key.kid })
    .setIssuer(issuer)
    .setSubject('7')
    .setAudience(name === 'literal' ? LITERAL[0]! : 'us')
    .setIssuedAt(now)
    .setExpirationTime(now + 60)
    .sign(await importJWK(key, 'ES256'))
  return { said: { access_token: 'x', token_type: 'Bearer', expires_in: 60, id_token } }
}

const settingsOf = (name: string): ProviderSettings => ({
  name: name.toUpperCase(),
  label: name,
  issuer: `${base}/${name}`,
  clientId: name === 'literal' ? LITERAL[0]! : 'us',
  clientSecret: name === 'literal' ? LITERAL[1]! : SECRET,
  scopes: ['openid'],
  subjectClaim: 'sub',
  usernameClaims: ['name'],
  pictureClaim: 'picture',
  parameters: {},
  isDevelopment: true,
  ...(name === 'prompted' ? { dialect: { askAgain: { prompt: 'select_account', scope: 'mine' } } } : {}),
})

before(async () => {
  const port = await freePort()
  base = `http://localhost:${port}`
  await new Promise<void>((done) => void server.listen(port, 'localhost', done))
  world = await rehearse({
    others: () => [
      ...Object.keys(METHODS).map(settingsOf),
      { ...settingsOf('wrong'), name: 'CORRECTED', proof: 'basic' as const },
    ],
  })
})
after(async () => {
  server.closeAllConnections()
  server.close()
  await world.close()
})

type Browser = ReturnType<typeof openBrowser>

async function goThrough(
  name: string,
  { browser = openBrowser(world.origin), from }: { browser?: Browser; from?: string } = {},
): Promise<{ away: URL; back: Page; browser: Browser }> {
  const { url: away } = await browser.go(from ?? authorizationUrl(world.origin, { login_provider: name }).url)
  assert.ok(away.pathname.endsWith('/authorize'), away.href)
  const state = away.searchParams.get('state')!
  nonces.set(state, away.searchParams.get('nonce')!)
  const back = await browser.go(`${world.origin}/login/callback/${name}?code=${state}&state=${state}`)
  return { away, back, browser }
}

const isIn = ({ back }: { back: Page }): boolean => back.url.pathname.startsWith('/consent/')

test('our secret is proved as the provider says it takes it, in the header where it says nothing, or as we are told', async () => {
  for (const name of ['BASIC', 'SILENT', 'POST', 'BOTH', 'CORRECTED']) assert.ok(isIn(await goThrough(name)), name)
})

test('id and secret are as they were given where nothing in them has to be encoded: some providers decode nothing', async () => {
  assert.ok(isIn(await goThrough('LITERAL')))
})

test('what a provider calls its refusal is in our log, its description and our secret are not', async () => {
  const { back } = await goThrough('WRONG')
  assert.match(back.text, /sign_in_refused/)
  type Line = { event: string; fields: Record<string, unknown> }
  const named = () => (world.logged as Line[]).findLast(({ event }) => event === 'sign_in_failed')!.fields.providerError
  assert.equal(named(), 'invalid_client')
  refusal = 'unauthorized_client'
  await goThrough('BASIC')
  assert.equal(named(), refusal)
  refusal = `\n${'x'.repeat(2_000)}`
  await goThrough('BASIC')
  assert.equal(named(), undefined)
  refusal = null
  assert.ok(!JSON.stringify(world.logged.map((line) => (line as Line).fields)).includes(SECRET))
})

async function read(entry: Record<string, unknown>): Promise<ProviderSettings> {
  const file = join(tmpdir(), `providers-${process.pid}.json`)
  await writeFile(file, JSON.stringify([{ clientId: 'a', clientSecret: 'b', ...entry }]))
  return readProviders(file)[0]!
}

test('clientAuthentication is one of two words, beside discovery only', async () => {
  const mine = { name: 'MINE', issuer: 'https://id.example' }
  assert.equal((await read(mine)).proof, undefined)
  assert.equal((await read({ ...mine, clientAuthentication: 'client_secret_basic' })).proof, 'basic')
  assert.equal((await read({ ...mine, clientAuthentication: 'client_secret_post' })).proof, 'post')
  await assert.rejects(read({ ...mine, clientAuthentication: 'private_key_jwt' }), /must be client_secret_basic or/)
  await assert.rejects(read({ preset: 'google', clientAuthentication: 'client_secret_basic' }), /unknown field/)
})

test('askAgain is what is sent where somebody has to be asked again, and nothing else of the request', async () => {
  const again = authorizationUrl(world.origin, { login_provider: 'PROMPTED', prompt: 'login' }).url
  const { away, back } = await goThrough('PROMPTED', { from: again })
  assert.deepEqual([away.searchParams.get('prompt'), away.searchParams.get('max_age')], ['select_account', null])
  assert.notEqual(away.searchParams.get('scope'), 'mine')
  assert.ok(isIn({ back }))
  assert.equal((await goThrough('PROMPTED')).away.searchParams.get('prompt'), null)
})

test('askAgain is parameters by name, and at least one', async () => {
  const mine = { name: 'MINE', issuer: 'https://id.example' }
  assert.equal((await read(mine)).dialect, undefined)
  const askAgain = { prompt: 'login' }
  assert.deepEqual((await read({ ...mine, askAgain })).dialect, { askAgain })
  const addresses = {
    authorizationUrl: 'https://a.example/',
    tokenUrl: 'https://a.example/',
    userUrl: 'https://a.example/',
  }
  const plain = { kind: 'oauth2', name: 'FORGE', subjectClaim: 'id', scopes: ['a'], ...addresses }
  assert.deepEqual((await read(plain)).dialect!.askAgain, askAgain)
  assert.deepEqual((await read({ ...plain, askAgain: { force: 'yes' } })).dialect!.askAgain, { force: 'yes' })
  for (const wrong of [{}, [], 'login', { max_age: 0 }])
    await assert.rejects(read({ ...mine, askAgain: wrong }), /askAgain must (name a parameter|be an object of strings)/)
  await assert.rejects(read({ preset: 'google', askAgain }), /unknown field askAgain/)
})

test('a provider that is to ask again, and says that it did not, is not believed', async () => {
  const again = { prompt: 'login' }
  for (const [ago, isAccepted] of [
    [0, true],
    [30, true],
    [7_200, false],
    [undefined, true],
    ['epoch', true],
  ] as const) {
    askedAgo = ago
    const from = authorizationUrl(world.origin, { login_provider: 'BASIC', ...again }).url
    const gone = await goThrough('BASIC', { from })
    assert.deepEqual([gone.away.searchParams.get('prompt'), gone.away.searchParams.get('max_age')], ['login', '0'])
    assert.equal(isIn(gone), isAccepted, `${ago}: ${textOf(gone.back.text)}`)
    if (!isAccepted) assert.match(textOf(gone.back.text), /did not ask you to sign in again/)
  }
})

test('a sign-in is as old as the provider says, at /account and in the id token’s eyes', async () => {
  askedAgo = 7_200
  const browser = openBrowser(world.origin)
  const chooser = await browser.go('/account')
  const { url: away } = await browser.submit(chooser, '/BASIC')
  const state = away.searchParams.get('state')!
  nonces.set(state, away.searchParams.get('nonce')!)
  const account = await browser.go(`${world.origin}/login/callback/BASIC?code=${state}&state=${state}`)
  assert.equal(account.url.pathname, '/account')
  // Two hours at the provider: an unlocked screen is not enough to delete.
  const asked = await browser.submit(await browser.go('/account/erase'), '/account/erase', { sure: 'yes' })
  assert.match(asked.url.pathname, /^\/login\//)
  // A client that wants five minutes is asked for them, too.
  const { url } = await browser.go(authorizationUrl(world.origin, { max_age: '300', login_provider: 'BASIC' }).url)
  assert.deepEqual([url.searchParams.get('prompt'), url.searchParams.get('max_age')], ['login', '0'])
  askedAgo = undefined
})

test('a provider that says 0 for when it asked does not say it: the time is that of the way through it', async () => {
  askedAgo = 'epoch'
  const browser = openBrowser(world.origin)
  const { url: away } = await browser.submit(await browser.go('/account'), '/BASIC')
  const state = away.searchParams.get('state')!
  nonces.set(state, away.searchParams.get('nonce')!)
  await browser.go(`${world.origin}/login/callback/BASIC?code=${state}&state=${state}`)
  // Fresh enough to delete without being asked again.
  const erased = await browser.submit(await browser.go('/account/erase'), '/account/erase', { sure: 'yes' })
  assert.ok(!erased.url.pathname.startsWith('/login/'), erased.url.href)
  askedAgo = undefined
})
