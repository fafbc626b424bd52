import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { createSession, SignInCancelled, type SessionOptions } from '../src/browser/index.ts'
import { prefersRedirect } from '../src/browser/page.ts'
import { SignedOut } from '../src/index.ts'
import { fakePage, fakeService, memoryStore, ORIGIN, REDIRECT } from './fake-service.ts'

/** A browser with the application on a page, and the service. */
function stage(more: Partial<SessionOptions> = {}) {
  const service = fakeService()
  const store = memoryStore()
  const page = fakePage()
  let time = Date.now()
  const options: SessionOptions = {
    ...{ origin: ORIGIN, clientId: 'demo', redirectUri: REDIRECT, mode: 'redirect', store, page, now: () => time },
    fetch: service.fetch as typeof fetch,
    ...more,
  }
  const session = createSession(options)
  /** Begins a sign-in. @returns the parameters of the answer of the service */
  async function begin() {
    page.went = ''
    void session.signIn()
    while (page.went === '') await new Promise(setImmediate)
    const asked = new URL(page.went).searchParams
    service.nonce = asked.get('nonce')!
    return { code: 'secret-code', state: asked.get('state')!, iss: service.issuer }
  }
  /** The service sends the browser back. */
  const comeBack = async (answer: Record<string, string>, to = session) => {
    page.at = `${REDIRECT}?${new URLSearchParams(answer).toString()}`
    await to.handleCallback()
  }
  return {
    ...{ service, store, page, session, begin, comeBack },
    signIn: async () => comeBack(await begin()),
    pass: (seconds: number) => void (time += seconds * 1_000),
    again: () => createSession(options),
    authorization: async (of = session) => ((await (await of.fetch(`${ORIGIN}/v1/me`)).json()) as { authorization: string }).authorization, // prettier-ignore
  }
}

test('a sign-in by redirect comes back to its page, and a call carries the token', async () => {
  const { page, session, signIn, authorization, store } = stage()
  await signIn()
  assert.equal(page.replaced, 'https://app.example/shop?item=1')
  assert.deepEqual(session.state, { status: 'signed-in', permissions: ['wallet:read'] })
  assert.equal(await authorization(), 'DPoP secret-access-1')
  assert.doesNotMatch(inspect(store.entries, { depth: 9 }), /secret-access/)
})

test('a window that looks closed cancels only while the user is on the page, and its late answer still signs in', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const page = fakePage()
  let [url, isThere] = ['', false]
  Object.assign(page, { open: () => ({ goTo: (to: string) => void (url = to), isClosed: () => true, close: () => {} }), hasFocus: () => isThere }) // prettier-ignore
  const { session, service, store } = stage({ mode: 'popup', page })
  let outcome = 'open'
  const signedIn = session.signIn().then(
    () => (outcome = 'signed in'),
    ({ code }: { code: string }) => (outcome = code),
  )
  while (url === '') await new Promise(setImmediate)
  // The user is in the window, whose page hides it from its opener.
  t.mock.timers.tick(60_000)
  await new Promise(setImmediate)
  assert.equal(outcome, 'open')
  isThere = true
  t.mock.timers.tick(2_500)
  await signedIn
  assert.equal(outcome, 'window_closed')
  const asked = new URL(url).searchParams
  service.nonce = asked.get('nonce')!
  const back = fakePage()
  back.at = `${REDIRECT}?${new URLSearchParams({ code: 'c', state: asked.get('state')!, iss: service.issuer }).toString()}`
  const { promise, resolve } = Promise.withResolvers<void>()
  session.subscribe(({ status }) => status === 'signed-in' && resolve())
  await createSession({ origin: ORIGIN, clientId: 'demo', redirectUri: REDIRECT, store, page: back, fetch: service.fetch as typeof fetch }).handleCallback() // prettier-ignore
  await promise
})

const without = (name: string) => (answer: Record<string, string>) =>
  Object.fromEntries(Object.entries(answer).filter(([key]) => key !== name))

const INVALID: [string, (answer: Record<string, string>) => Record<string, string>, string][] = [
  ['another state', (answer) => ({ ...answer, state: 'other' }), 'sign_in_expired'],
  ['a state that is a name of every object', (answer) => ({ ...answer, state: '__proto__' }), 'sign_in_expired'],
  ['no state', without('state'), 'sign_in_expired'],
  ['another issuer', (answer) => ({ ...answer, iss: 'https://evil.example' }), 'invalid_answer'],
  ['no issuer', without('iss'), 'invalid_answer'],
  ['an error', (answer) => ({ ...answer, error: 'server_error' }), 'server_error'],
]
for (const [what, change, code] of INVALID)
  test(`an answer with ${what} signs nobody in, and no code is sent`, async () => {
    const { session, service, begin, comeBack } = stage()
    await assert.rejects(comeBack(change(await begin())), { name: 'SignInFailed', code })
    assert.notEqual(session.state.status, 'signed-in')
    assert.equal(service.log.includes('/oauth/token'), false)
  })

test('an answer counts once, and only for 15 minutes', async () => {
  const { service, begin, comeBack, pass, page } = stage()
  const answer = await begin()
  await comeBack(answer)
  await assert.rejects(comeBack(answer), { code: 'sign_in_expired' })
  page.at = 'https://app.example/'
  const late = await begin()
  pass(15 * 60)
  await assert.rejects(comeBack(late), { code: 'sign_in_expired' })
  assert.equal(service.log.filter((path) => path === '/oauth/token').length, 1)
})

test('a user who denies cancels the sign-in', async () => {
  const { begin, comeBack } = stage()
  const answer = await begin()
  await assert.rejects(comeBack({ ...answer, error: 'access_denied' }), SignInCancelled)
})

test('sign-ins that expired are not kept', async () => {
  const { begin, pass, store } = stage()
  await begin()
  pass(15 * 60)
  const { state } = await begin()
  const begun = store.entries.get(`${ORIGIN}/oauth demo begun`)
  assert.deepEqual(Object.keys(begun as object), [state])
})

test('calls at one time renew once', async () => {
  const { service, signIn, authorization, pass } = stage()
  await signIn()
  pass(80)
  assert.deepEqual(new Set(await Promise.all([1, 2, 3].map(async () => authorization()))), new Set(['DPoP secret-access-2'])) // prettier-ignore
  assert.equal(service.log.filter((path) => path === '/oauth/token').length, 2)
})

test('a renewal that another page overtook uses the newer token', async () => {
  const { service, signIn, authorization, again, pass, session } = stage()
  await signIn()
  pass(80)
  const other = again()
  let overtaken = false
  service.before = async (path) => {
    if (path !== '/oauth/token' || overtaken) return
    overtaken = true
    await authorization(other)
  }
  assert.equal(await authorization(), 'DPoP secret-access-3')
  assert.equal(session.state.status, 'signed-in')
})

test('a sign-in during a renewal wins: no call carries the token of the earlier user', async () => {
  const { service, signIn, authorization, pass, page, begin, comeBack, again, session } = stage()
  await signIn()
  pass(80)
  page.at = 'https://app.example/'
  const answer = await begin()
  const other = again()
  let signedIn = false
  service.before = async (path) => {
    if (path !== '/oauth/token' || signedIn) return
    signedIn = true
    await comeBack(answer, other)
  }
  let told = 0
  session.subscribe(() => told++)
  // 2: the other user; 3: the renewal of the first, which was under way
  assert.equal(await authorization(), 'DPoP secret-access-4')
  while (told === 0) await new Promise(setImmediate)
  assert.deepEqual(service.revoked, [])
})

test('a session that ended during a renewal is not put back, and its new token is revoked', async () => {
  const { service, signIn, authorization, pass, again, session, store } = stage()
  await signIn()
  pass(80)
  const other = again()
  service.before = async (path) => {
    if (path === '/oauth/token') await other.signOut()
  }
  await assert.rejects(authorization(), SignedOut)
  assert.deepEqual(service.revoked, ['secret-refresh-1', 'secret-refresh-2'])
  assert.equal(session.state.status, 'signed-out')
  assert.doesNotMatch(inspect(store.entries), /secret/)
})

test('an access token that is still valid is used while the service cannot renew it', async () => {
  const { service, signIn, authorization, pass, session } = stage()
  await signIn()
  pass(90)
  service.before = async (path) => {
    if (path === '/oauth/token') throw new TypeError('fetch failed')
  }
  assert.equal(await authorization(), 'DPoP secret-access-1')
  pass(10)
  await assert.rejects(authorization(), TypeError)
  assert.equal(session.state.status, 'signed-in')
})

test('a refresh token that the service refuses ends the session on all pages', async () => {
  const { signIn, authorization, pass, session, again, store } = stage()
  await signIn()
  const other = again()
  const key = `${ORIGIN}/oauth demo`
  store.entries.set(key, { ...(store.entries.get(key) as object), refreshToken: 'secret-stolen' })
  pass(80)
  const ended = new Promise<void>((resolve) => other.subscribe(({ status }) => status === 'signed-out' && resolve()))
  await assert.rejects(authorization(), SignedOut)
  assert.equal(session.state.status, 'signed-out')
  await ended
})

test('a nonce that the service wants is in the next proof, and in those after it (RFC 9449 section 8)', async () => {
  const { service, signIn, authorization, pass } = stage()
  service.wanted = 'one'
  await signIn()
  assert.equal(await authorization(), 'DPoP secret-access-1')
  service.wanted = 'two'
  assert.equal(await authorization(), 'DPoP secret-access-1')
  pass(80)
  assert.equal(await authorization(), 'DPoP secret-access-2')
  service.wanted = 'three'
  pass(80)
  assert.equal(await authorization(), 'DPoP secret-access-3')
  const [token, api] = ['/oauth/token', '/v1/me']
  assert.deepEqual(service.proofs, [`${token} null`, `${token} one`, `${api} one`, `${api} one`, `${api} two`, `${token} two`, `${api} two`, `${token} two`, `${token} three`, `${api} three`]) // prettier-ignore
})

test('a service that wants another nonce each time is asked twice, and the session remains', async () => {
  const { service, signIn, session, pass } = stage()
  await signIn()
  service.proofs.length = 0
  service.before = async () => {
    service.wanted = crypto.randomUUID()
  }
  assert.equal((await session.fetch(`${ORIGIN}/v1/me`)).status, 401)
  pass(100)
  await assert.rejects(session.fetch(`${ORIGIN}/v1/me`))
  assert.deepEqual(service.proofs.map((proof) => proof.split(' ')[0]), ['/v1/me', '/v1/me', '/oauth/token', '/oauth/token']) // prettier-ignore
  assert.equal(session.state.status, 'signed-in')
})

for (const url of ['https://evil.example/v1/me', 'http://wallet.example/v1/me', 'https://wallet.example:444/v1/me'])
  test(`the token is not sent to ${url}`, async () => {
    const { service, signIn, session } = stage()
    await signIn()
    const before = service.log.length
    await assert.rejects(session.fetch(url), { name: 'InvalidInput' })
    assert.equal(service.log.length, before)
  })

const FAULTS: [string, () => Response][] = [
  ['no JSON', () => new Response('secret-body')],
  ['another type of token', () => Response.json({ access_token: 'secret-access', refresh_token: 'secret-refresh', token_type: 'mac' })],
  ['an error', () => Response.json({ error: 'server_error', secret: 'secret-body' }, { status: 400 })],
] // prettier-ignore
for (const [what, fault] of FAULTS)
  test(`no error has a token or code in it when the service answers with ${what}`, async () => {
    const { service, signIn, session, begin, comeBack, pass, page } = stage()
    const errors: unknown[] = []
    const failing = async (work: Promise<unknown>) => errors.push(await work.catch((error: unknown) => error))
    await signIn()
    pass(100)
    page.at = 'https://app.example/'
    const answer = await begin()
    service.instead = (path) => (/token|revoke/.test(path) ? fault() : null)
    await failing(session.fetch(`${ORIGIN}/v1/me`))
    await failing(comeBack(answer))
    if (what === 'an error') await failing(session.signOut())
    for (const error of errors) {
      assert.ok(error instanceof Error)
      assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /secret/)
    }
  })

test('on a server the state stays unknown, and nothing is read or sent', async () => {
  assert.equal(typeof indexedDB, 'undefined')
  const service = fakeService()
  const session = createSession({ origin: ORIGIN, clientId: 'demo', fetch: service.fetch as typeof fetch })
  await assert.rejects(session.fetch(`${ORIGIN}/v1/me`), SignedOut)
  await session.signOut()
  assert.deepEqual(session.state, { status: 'unknown' })
  assert.deepEqual(service.log, [])
})

const BROWSERS: [string, string, number, boolean][] = [
  ['Safari of an iPhone', 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1', 5, true],
  ['Safari of an iPad', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.0 Safari/605.1.15', 5, true],
  ['Safari of a Mac', 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.0 Safari/605.1.15', 0, false],
  ['a page inside an Android application', 'Mozilla/5.0 (Linux; Android 15; Pixel 9; wv) Chrome/130.0', 5, true],
  ['Chrome of Android', 'Mozilla/5.0 (Linux; Android 10; K) Chrome/130.0 Mobile Safari/537.36', 5, false],
]
for (const [what, userAgent, maxTouchPoints, expected] of BROWSERS)
  test(`${what} signs in ${expected ? 'by redirect' : 'in a window'}`, () => {
    assert.equal(prefersRedirect({ userAgent, maxTouchPoints }), expected)
  })
