// tier: all, because it starts the whole program for its sign-ins
import assert from 'node:assert/strict'
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { after, before, suite, test } from 'node:test'
import { inspect } from 'node:util'
import Fastify from 'fastify'
import { sql } from 'kysely'
import * as oauth from 'oauth4webapi'
import { walk } from '../../../e2e/walk.ts'
import { createApplication } from '../../../src/applications/manage.ts'
import { reseal } from '../../../test/reseal.ts'
import { world, type World } from '../../../test/world.ts'
import { createServerSession } from '../src/browser/index.ts'
import { createClient, Refused, type Session, type SessionState, SignedOut } from '../src/index.ts'
import { type Auth, type AuthOptions, createAuth, nodeHandler, type NodeRequest, type SessionStore, verifyToken, walletReads } from '../src/server/index.ts' // prettier-ignore
import { fakePage } from './fake-service.ts'
import { instantClock } from './instant-clock.ts'
import { visitorOf } from './visitor.ts'

const SHOP = 'https://shop.example'
const SECRET = 'of the application, and random: 0123456789'

let here: World
let clientSecret: string
before(async () => {
  here = await world()
  const { secret } = await createApplication(here.app, {
    clientId: 'shop',
    name: 'Shop',
    network: 'devnet',
    kind: 'confidential',
    redirectUris: [`${SHOP}/auth/callback`, 'http://127.0.0.1/auth/callback'],
    permissions: ['wallet:read', 'contracts:read', 'contracts:write'],
    allowedOrigins: [],
    logoUri: null,
  })
  clientSecret = secret!
})
after(() => here.close())

/** The application, in one process, and what its requests were. Its clock is ahead by `aheadMs`. */
function shop(options: Partial<AuthOptions> = {}) {
  const stage = {
    aheadMs: 0,
    /** paths of requests to the service, and the grant of those for tokens */
    log: [] as string[],
    errors: [] as unknown[],
    /** a test replaces it: another answer to a request, or an error */
    instead: (_path: string, _init: RequestInit): Response | null => null,
  }
  const auth = createAuth({
    origin: here.facts.origin,
    clientId: 'shop',
    clientSecret,
    redirectUri: `${SHOP}/auth/callback`,
    cookieSecret: SECRET,
    onError: (error) => stage.errors.push(error),
    now: () => Date.now() + stage.aheadMs,
    fetch: async (input, init = {}) => {
      const { pathname } = new URL(input)
      stage.log.push(pathname)
      return stage.instead(pathname, init) ?? fetch(input, init)
    },
    ...options,
  })
  const count = (path: string) => stage.log.filter((one) => one === path).length
  return { auth, stage, count, refreshes: () => count('/oauth/token') }
}

type Visitor = ReturnType<typeof visitorOf>

/** Goes to the service and comes back, without visiting the callback. */
async function goAndReturn({ visit }: Visitor, username: string, path = '/auth/sign-in'): Promise<string> {
  const { status, location } = await visit(path)
  assert.equal(status, 303, String(location))
  const { url } = await walk(location!, { origin: here.facts.origin, username })
  return url.pathname + url.search
}

async function signedIn(auth: Auth, username: string): Promise<Visitor> {
  const visitor = visitorOf(auth)
  const { status, location } = await visitor.visit(await goAndReturn(visitor, username))
  assert.deepEqual([status, location], [303, `${SHOP}/`])
  return visitor
}

const stateOf = async ({ visit }: Visitor) => JSON.parse((await visit('/auth/session')).text) as { status: string }
const OWN = { 'x-chatelaine': '1' }
const HOUR = 3_600_000

/** The grace time of used refresh tokens is over. */
async function endGrace(): Promise<void> {
  await sql`update oauth_records set consumed_at = consumed_at - interval '21 seconds' where kind = 'RefreshToken' and consumed_at is not null`.execute(here.app.db) // prettier-ignore
  await reseal(here.app)
}

const streamOf = (chunks: AsyncGenerator<Uint8Array>): ReadableStream =>
  new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done === true) controller.close()
      else controller.enqueue(value)
    },
  })

function memoryStore(): SessionStore & { entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    get: async (key) => entries.get(key),
    set: async (key, value) => entries.set(key, value),
    delete: async (key) => entries.delete(key),
  }
}

suite('a sign-in', () => {
  test('brings the user back, and the session has the profile but no token', async () => {
    const { auth } = shop()
    const visitor = visitorOf(auth)
    assert.deepEqual(await stateOf(visitor), { status: 'signed-out' })
    const back = await goAndReturn(visitor, 'rosa', '/auth/sign-in?return_to=/cart?item=1')
    const { location, headers } = await visitor.visit(back)
    assert.equal(location, `${SHOP}/cart?item=1`)
    assert.equal(headers.get('cache-control'), 'no-store')
    const { text } = await visitor.visit('/auth/session')
    const { user, permissions } = JSON.parse(text) as { user: { id: string; address: string }; permissions: string[] }
    assert.deepEqual(
      [user.id, permissions.toSorted()],
      ['DEV-rosa', ['contracts:read', 'contracts:write', 'wallet:read']],
    )
    assert.match(user.address, /^0x[0-9a-fA-F]{40}$/)
    assert.doesNotMatch(text, /eyJ|token/i)
  })

  test('its session is read by the pages of the server, and calls the API', async () => {
    const { auth } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const session = await auth.session({ headers: new Headers(visitor.headers()) })
    assert.deepEqual([session!.user.id, session!.mustRenew], ['DEV-rosa', false])
    assert.match(await session!.token(), /^eyJ/)
    // The same with headers of Node.js.
    const wallet = auth.client({ headers: visitor.headers() })
    assert.equal((await wallet.me()).id, 'DEV-rosa')
    assert.equal(await auth.session({ headers: {} }), null)
    await assert.rejects(auth.client({ headers: {} }).me(), SignedOut)
  })

  test('cookies are HttpOnly, Secure, Lax, of this host only, and each fits into a browser', async () => {
    const { auth } = shop()
    const { lines } = await signedIn(auth, 'rosa')
    assert.ok(lines.length > 1)
    for (const line of lines) {
      assert.match(
        line,
        /^__Host-chatelaine-(session|sign-in)(\.\d)?=[\w.-]*; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/,
      )
      assert.ok(line.length < 4_096)
      assert.doesNotMatch(line, /eyJ/)
    }
  })

  test('a denied access is told to the page, which is not signed in', async () => {
    const { auth } = shop()
    const visitor = visitorOf(auth)
    const { location } = await visitor.visit('/auth/sign-in?return_to=/cart')
    const { url } = await walk(location!, { origin: here.facts.origin, username: 'dora', consent: 'deny' })
    assert.equal((await visitor.visit(url.pathname + url.search)).location, `${SHOP}/cart?sign_in_error=denied`)
    assert.deepEqual(await stateOf(visitor), { status: 'signed-out' })
  })

  test('two tabs can sign in at one time', async () => {
    const { auth } = shop()
    const visitor = visitorOf(auth)
    const first = await goAndReturn(visitor, 'rosa', '/auth/sign-in?return_to=/first')
    const second = await goAndReturn(visitor, 'rosa', '/auth/sign-in?return_to=/second')
    assert.equal((await visitor.visit(first)).location, `${SHOP}/first`)
    assert.equal((await visitor.visit(second)).location, `${SHOP}/second`)
  })

  test('a service that does not answer is told to the page', async () => {
    const { auth, stage } = shop()
    stage.instead = () => {
      throw new TypeError('fetch failed')
    }
    assert.equal((await visitorOf(auth).visit('/auth/sign-in')).location, `${SHOP}/?sign_in_error=unavailable`)
    assert.equal(stage.errors.length, 1)
  })

  test('a wrong client secret is told to the developer, without the secret', async () => {
    const { auth, stage } = shop({ clientSecret: 'wrong-secret-of-this-test' })
    const visitor = visitorOf(auth)
    const { location } = await visitor.visit(await goAndReturn(visitor, 'rosa'))
    assert.equal(location, `${SHOP}/?sign_in_error=failed`)
    assert.equal((stage.errors[0] as { code: string }).code, 'invalid_client')
    assert.doesNotMatch(inspect(stage.errors, { depth: 9, showHidden: true }), /wrong-secret/)
  })
})

suite('attacks on a sign-in', () => {
  const elsewhere = ['https://evil.example/', '//evil.example', '/\\evil.example', '\\\\evil.example', 'javascript:alert(1)', '/\t/evil.example', '/.//evil.example', 'https:evil.example', '@evil.example', '/%09/evil.example'] // prettier-ignore
  for (const target of elsewhere)
    test(`no redirect leaves the application: ${JSON.stringify(target)}`, async () => {
      const { auth } = shop()
      const visitor = visitorOf(auth)
      const back = await goAndReturn(
        visitor,
        'rosa',
        `/auth/sign-in?${new URLSearchParams({ return_to: target }).toString()}`,
      )
      const { location } = await visitor.visit(back)
      assert.equal(new URL(location!, SHOP).origin, SHOP)
      assert.ok(location!.startsWith(`${SHOP}/`), location!)
      const renewed = await visitor.visit(`/auth/renew?${new URLSearchParams({ return_to: target }).toString()}`)
      assert.ok(renewed.location!.startsWith(`${SHOP}/`), renewed.location!)
    })

  test('the answer to another browser’s sign-in signs nobody in (login CSRF)', async () => {
    const { auth } = shop()
    const [mine, theirs] = [visitorOf(auth), visitorOf(auth)]
    const back = await goAndReturn(mine, 'mallory')
    const refused = async (path: string) => {
      assert.equal((await theirs.visit(path)).location, `${SHOP}/?sign_in_error=expired`)
      assert.deepEqual(await stateOf(theirs), { status: 'signed-out' })
    }
    await refused(back)
    // Neither where the other browser has begun one itself, with its own state or the attacker's.
    const { location } = await theirs.visit('/auth/sign-in')
    await refused(back)
    const mixed = new URL(back, SHOP)
    mixed.searchParams.set('state', new URL(location!).searchParams.get('state')!)
    const { location: told } = await theirs.visit(mixed.pathname + mixed.search)
    assert.equal(told, `${SHOP}/?sign_in_error=failed`)
    assert.deepEqual(await stateOf(theirs), { status: 'signed-out' })
  })

  test('an answer counts once, and for 15 minutes', async () => {
    const { auth, stage } = shop()
    const visitor = visitorOf(auth)
    const back = await goAndReturn(visitor, 'rosa')
    await visitor.visit(back)
    assert.equal((await visitor.visit(back)).location, `${SHOP}/?sign_in_error=expired`)
    const late = await goAndReturn(visitor, 'rosa')
    stage.aheadMs = 15 * 60_000
    assert.equal((await visitor.visit(late)).location, `${SHOP}/?sign_in_error=expired`)
  })

  test('an answer that names another authorization server is refused (mix-up)', async () => {
    const { auth, count } = shop()
    const visitor = visitorOf(auth)
    const back = new URL(await goAndReturn(visitor, 'rosa'), SHOP)
    for (const issuer of ['https://evil.example/oauth', null]) {
      const again = new URL(await goAndReturn(visitor, 'rosa'), SHOP)
      if (issuer === null) again.searchParams.delete('iss')
      else again.searchParams.set('iss', issuer)
      assert.equal((await visitor.visit(again.pathname + again.search)).location, `${SHOP}/?sign_in_error=failed`)
    }
    assert.equal(count('/oauth/token'), 0)
    assert.equal((await visitor.visit(back.pathname + back.search)).location, `${SHOP}/`)
  })

  test('a sign-in replaces the session, and ends the one before (session fixation)', async () => {
    const store = memoryStore()
    const { auth } = shop({ store })
    const visitor = await signedIn(auth, 'mallory')
    const planted = new Map(visitor.jar)
    const before = await auth.session({ headers: visitor.headers() }).then((session) => session!.token())
    await visitor.visit(await goAndReturn(visitor, 'rosa'))
    assert.equal((await auth.session({ headers: visitor.headers() }))!.user.id, 'DEV-rosa')
    assert.deepEqual(await stateOf(visitorOf(auth, planted)), { status: 'signed-out' })
    assert.equal(store.entries.size, 1)
    const { body } = await here.request('/oauth/token/introspection', {
      method: 'POST',
      body: new URLSearchParams({ token: before, client_id: 'shop', client_secret: clientSecret }),
    })
    assert.equal(body.active, false)
  })

  test('no image, frame, script or preview begins or finishes a sign-in', async () => {
    const { auth, stage } = shop()
    const visitor = visitorOf(auth)
    for (const headers of [...['image', 'iframe', 'empty', 'script'].map((dest) => ({ 'sec-fetch-dest': dest })), { 'sec-purpose': 'prefetch' }] as Record<string, string>[]) // prettier-ignore
      for (const path of ['/auth/sign-in', '/auth/callback', '/auth/renew']) assert.equal((await visitor.visit(path, { headers })).status, 403) // prettier-ignore
    assert.deepEqual([stage.log, visitor.lines], [[], []])
  })
})

suite('attacks on cookies', () => {
  test('a changed, shortened or exchanged cookie is no session', async () => {
    const { auth } = shop()
    const { jar } = await signedIn(auth, 'rosa')
    const name = '__Host-chatelaine-session'
    const value = jar.get(name)!
    const begun = visitorOf(auth)
    await begun.visit('/auth/sign-in')
    const others = [
      ...[10, 40, 60, value.length - 2].map(
        (at) => value.slice(0, at) + (value[at] === 'A' ? 'B' : 'A') + value.slice(at + 1),
      ),
      ...[value.slice(0, -4), value.slice(2), `2.${value.slice(2)}`, '1.', '1.AAAA', '9.x', '', `1.${'A'.repeat(200)}`],
      `1.${begun.jar.get('__Host-chatelaine-sign-in')!}`,
    ]
    assert.deepEqual((await stateOf(visitorOf(auth, new Map([[name, value]])))).status, 'signed-in')
    for (const other of others) assert.deepEqual(await stateOf(visitorOf(auth, new Map([[name, other]]))), { status: 'signed-out' }, other) // prettier-ignore
  })

  test('a session of another application, or of another secret, is none here', async () => {
    const { auth } = shop()
    const { jar } = await signedIn(auth, 'rosa')
    for (const options of [{ clientId: 'other' }, { cookieSecret: `${SECRET}!` }])
      assert.deepEqual(await stateOf(visitorOf(shop(options).auth, new Map(jar))), { status: 'signed-out' })
  })

  test('an https application reads no cookie that another host or http could have set (downgrade)', async () => {
    const { auth } = shop()
    const { jar } = await signedIn(auth, 'mallory')
    const value = jar.get('__Host-chatelaine-session')!
    for (const name of [
      'chatelaine-session',
      '__Secure-chatelaine-session',
      'chatelaine-session-443',
      '__host-chatelaine-session',
    ])
      assert.deepEqual(await stateOf(visitorOf(auth, new Map([[name, value]]))), { status: 'signed-out' }, name)
  })

  test('a new secret signs nobody out as long as the old one is behind it', async () => {
    const { jar } = await signedIn(shop().auth, 'rosa')
    const fresh = 'a newer secret of the application: 9876543210'
    const both = shop({ cookieSecret: [fresh, SECRET] })
    both.stage.aheadMs = 0.9 * HOUR
    const visitor = visitorOf(both.auth, new Map(jar))
    assert.equal((await stateOf(visitor)).status, 'signed-in')
    // Its renewal was sealed with the new secret.
    assert.equal((await stateOf(visitorOf(shop({ cookieSecret: fresh }).auth, visitor.jar))).status, 'signed-in')
    assert.equal((await stateOf(visitorOf(shop({ cookieSecret: fresh }).auth, new Map(jar)))).status, 'signed-out')
  })

  test('a session that is too long for one cookie has several, and leaves none behind', async () => {
    const { auth, stage } = shop()
    const visitor = visitorOf(auth)
    const back = await goAndReturn(visitor, 'rosa')
    const lengthen = (by: number) => (path: string, init: RequestInit) => {
      if (path !== '/oauth/token') return null
      return new Response(
        streamOf(
          (async function* () {
            const body = (await (await fetch(`${here.facts.origin}${path}`, init)).json()) as { access_token: string }
            yield new TextEncoder().encode(
              JSON.stringify({ ...body, access_token: body.access_token + 'A'.repeat(by) }),
            )
          })(),
        ),
        { headers: { 'content-type': 'application/json' } },
      )
    }
    stage.instead = lengthen(6_000)
    await visitor.visit(back)
    const names = () => [...visitor.jar.keys()].filter((name) => name.includes('session'))
    assert.equal(names().length, 3)
    assert.equal((await stateOf(visitor)).status, 'signed-in')
    const whole = new Map(visitor.jar)
    visitor.jar.delete(names()[1]!)
    assert.equal((await stateOf(visitor)).status, 'signed-out')
    stage.instead = () => null
    stage.aheadMs = 2 * HOUR
    const again = visitorOf(auth, whole)
    assert.equal((await stateOf(again)).status, 'signed-in')
    assert.deepEqual([...whole.keys()].filter((name) => name.includes('session')).length, 1)
    await again.visit('/auth/sign-out', { method: 'POST' })
    assert.equal(whole.size, 0)
  })
})

suite('settings that are not safe', () => {
  const unsafe: [string, Partial<AuthOptions>, RegExp][] = [
    ['http on another host', { redirectUri: 'http://shop.example/auth/callback' }, /redirectUri must be https/],
    ['http on a host that only looks local', { redirectUri: 'http://localhost.evil.example/callback' }, /must be https/],
    ['http on a name below localhost', { redirectUri: 'http://shop.localhost/callback' }, /redirectUri must be https/],
    ['a service over http', { origin: 'http://wallet.example' }, /origin must be https/],
    ['an issuer over http', { issuer: 'http://wallet.example/oauth' }, /issuer must be https/],
    ['a short cookie secret', { cookieSecret: 'short' }, /cookieSecret/],
    ['a short second cookie secret', { cookieSecret: [SECRET, ''] }, /cookieSecret/],
    ['no cookie secret', { cookieSecret: undefined as never }, /cookieSecret/],
    ['no client secret', { clientSecret: undefined }, /clientSecret is missing/],
    ['an empty client secret', { clientSecret: '' }, /clientSecret is missing/],
    ['no callback', { redirectUri: `${SHOP}/auth` }, /callback/],
    ['a path of the API with a wildcard over several parts', { walletPaths: ['GET /v1/**'] }, /walletPaths/],
    ['a path outside of the API', { walletPaths: ['GET /metrics'] }, /walletPaths/],
  ] // prettier-ignore
  for (const [what, options, message] of unsafe)
    test(what, () => {
      assert.throws(() => shop(options), message)
    })
})

suite('a renewal', () => {
  test('comes after 80 % of the life of the access token, once for all requests of one time', async () => {
    const { auth, stage, refreshes } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const tokenOf = async () => (await auth.session({ headers: visitor.headers() }))!.token()
    const before = await tokenOf()
    stage.aheadMs = 0.79 * HOUR
    await visitor.visit('/auth/session')
    assert.deepEqual([refreshes(), await tokenOf()], [1, before])
    stage.aheadMs = 0.81 * HOUR
    const old = new Map(visitor.jar)
    const tabs = [0, 1, 2, 3].map(() => visitorOf(auth, new Map(old)))
    await Promise.all(tabs.map(stateOf))
    assert.equal(refreshes(), 2)
    for (const tab of tabs) assert.notEqual(await (await auth.session({ headers: tab.headers() }))!.token(), before)
    // A request that was under way, or whose answer was lost, even after the grace time.
    await endGrace()
    assert.equal((await stateOf(visitorOf(auth, new Map(old)))).status, 'signed-in')
    assert.equal(refreshes(), 2)
  })

  test('lasts past the end of an access token, again and again', async () => {
    const { auth, stage } = shop()
    const visitor = await signedIn(auth, 'rosa')
    for (let day = 1; day <= 5; day++) {
      stage.aheadMs = day * 24 * HOUR
      await endGrace()
      const { status, text } = await visitor.visit('/auth/wallet/v1/me', { headers: OWN })
      assert.equal(status, 200, text)
    }
    stage.aheadMs = 90 * 24 * HOUR
    assert.equal((await stateOf(visitor)).status, 'signed-out')
  })

  test('of two processes gives both a valid session, and a reuse after the grace time ends it', async () => {
    const [first, second, third] = [shop(), shop(), shop()]
    const { jar } = await signedIn(first.auth, 'rosa')
    for (const { stage } of [first, second, third]) stage.aheadMs = 2 * HOUR
    const [a, b] = [visitorOf(first.auth, new Map(jar)), visitorOf(second.auth, new Map(jar))]
    const answers = await Promise.all([a, b].map(({ visit }) => visit('/auth/wallet/v1/me', { headers: OWN })))
    assert.deepEqual(answers.map(({ status }) => status), [200, 200]) // prettier-ignore
    assert.deepEqual([first.refreshes(), second.refreshes()], [2, 1])
    // Both have the same successor: each can go on with either cookie.
    for (const { stage } of [first, second]) stage.aheadMs = 4 * HOUR
    await endGrace()
    assert.equal((await stateOf(visitorOf(second.auth, new Map(a.jar)))).status, 'signed-in')
    await endGrace()
    const stolen = visitorOf(third.auth, new Map(jar))
    assert.equal((await stateOf(stolen)).status, 'signed-out')
    assert.equal(stolen.jar.size, 0)
  })

  test('follows once on a 401, and the request is repeated', async () => {
    const { auth, stage, refreshes } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const refused: string[] = []
    stage.instead = (path, init) => {
      const token = new Headers(init.headers).get('authorization')!
      if (path !== '/v1/me' || (refused.length > 0 && !refused.includes(token))) return null
      refused.push(token)
      return Response.json({ code: 'invalid_token' }, { status: 401 })
    }
    assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers: OWN })).status, 200)
    assert.deepEqual([refused.length, refreshes()], [1, 2])
    // A service that refuses every token is asked twice, not for ever.
    stage.instead = (path) => (path === '/v1/me' ? Response.json({ code: 'invalid_token' }, { status: 401 }) : null)
    assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers: OWN })).status, 401)
    assert.equal(refreshes(), 3)
  })

  test('that the service refuses ends the session; one that it does not answer leaves it', async () => {
    const { auth, stage } = shop()
    const visitor = await signedIn(auth, 'rosa')
    stage.instead = (path) => {
      if (path === '/oauth/token') throw new TypeError('fetch failed')
      return null
    }
    // Not expired: the old token still counts.
    stage.aheadMs = 0.9 * HOUR
    assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers: OWN })).status, 200)
    stage.aheadMs = 2 * HOUR
    assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers: OWN })).status, 502)
    assert.equal((await stateOf(visitor)).status, 'signed-in')
    assert.equal((await visitor.visit('/auth/renew')).status, 503)
    stage.instead = (path) => (path === '/oauth/token' ? new Response('bad gateway', { status: 502 }) : null)
    assert.equal((await stateOf(visitor)).status, 'signed-in')
    stage.instead = (path) =>
      path === '/oauth/token' ? Response.json({ error: 'invalid_grant' }, { status: 400 }) : null
    assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers: OWN })).status, 401)
    assert.deepEqual([(await stateOf(visitor)).status, visitor.jar.size], ['signed-out', 0])
  })

  test('never happens where the new cookie cannot be set: a server component', async () => {
    const { auth, stage, refreshes } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const late = { set: () => assert.fail('Cookies can only be modified in a Server Action or Route Handler') }
    const seen = { headers: visitor.headers() }
    for (const where of [{}, { cookies: late }]) {
      stage.aheadMs = 0.9 * HOUR
      const session = (await auth.session(seen, where))!
      assert.equal(session.mustRenew, false)
      assert.match(await session.token(), /^eyJ/)
      stage.aheadMs = 2 * HOUR
      const expired = (await auth.session(seen, where))!
      assert.equal(expired.mustRenew, true)
      await assert.rejects(expired.token(), (error) => error instanceof SignedOut && error.code === 'renewal_needed')
      await assert.rejects(auth.client(seen, where).me(), SignedOut)
    }
    assert.equal(refreshes(), 1)
    // Its two ways out: the address that renews, and the renewal ahead of pages.
    const { headers, setCookies } = await auth.renew(seen)
    assert.equal((await auth.client({ headers }).me()).id, 'DEV-rosa')
    assert.ok(setCookies.length > 0 && setCookies.every((line) => line.startsWith('__Host-chatelaine-session')))
    const { pathname, search } = new URL(auth.renewUrl('/cart'))
    assert.equal((await visitor.visit(pathname + search)).location, `${SHOP}/cart`)
    assert.equal((await auth.client({ headers: visitor.headers() }).me()).id, 'DEV-rosa')
    // Where cookies can be set, as in a server action, the client does it.
    stage.aheadMs = 4 * HOUR
    const set: string[] = []
    const me = await auth.client({ headers: visitor.headers() }, { cookies: { set: (name) => set.push(name) } }).me()
    assert.deepEqual([me.id, set.includes('__Host-chatelaine-session')], ['DEV-rosa', true])
  })
})

suite('a store', () => {
  test('has the tokens, encrypted, and is renewed where no cookie can be set', async () => {
    const store = memoryStore()
    const { auth, stage } = shop({ store })
    const visitor = await signedIn(auth, 'rosa')
    const [[key, value]] = [...store.entries] as [[string, string]]
    assert.doesNotMatch(`${key} ${value}`, /eyJ|rosa/)
    assert.ok(visitor.jar.get('__Host-chatelaine-session')!.length < 200)
    stage.aheadMs = 2 * HOUR
    assert.equal((await auth.session({ headers: visitor.headers() }))!.mustRenew, false)
    assert.equal((await auth.client({ headers: visitor.headers() }).me()).id, 'DEV-rosa')
    assert.notEqual(store.entries.get(key), value)
    // An entry counts under its own key only.
    const other = await signedIn(auth, 'mallory')
    const [, [otherKey]] = [...store.entries] as [unknown, [string]]
    store.entries.set(otherKey, store.entries.get(key)!)
    assert.equal((await stateOf(other)).status, 'signed-out')
  })

  test('a process that comes late to a renewal takes the stored one, and puts back nothing older', async () => {
    const store = memoryStore()
    const [first, second] = [shop({ store }), shop({ store })]
    const visitor = await signedIn(first.auth, 'rosa')
    for (const { stage } of [first, second]) stage.aheadMs = 2 * HOUR
    const key = [...store.entries.keys()][0]!
    let stored = ''
    second.stage.instead = (path) => {
      if (path !== '/oauth/token') return null
      second.stage.instead = () => null
      return new Response(
        streamOf(
          (async function* () {
            await first.auth.client({ headers: visitor.headers() }).me()
            await endGrace()
            stored = store.entries.get(key)!
            yield new TextEncoder().encode('{"error":"invalid_grant"}')
          })(),
        ),
        { status: 400, headers: { 'content-type': 'application/json' } },
      )
    }
    assert.equal((await second.auth.client({ headers: visitor.headers() }).me()).id, 'DEV-rosa')
    assert.equal(store.entries.get(key), stored)
  })

  test('a session that ended during its renewal is not put back', async () => {
    const store = memoryStore()
    const { auth, stage } = shop({ store })
    const visitor = await signedIn(auth, 'rosa')
    stage.aheadMs = 2 * HOUR
    const seen = { headers: visitor.headers() }
    stage.instead = (path) => {
      if (path === '/oauth/token') store.entries.clear()
      return null
    }
    await assert.rejects(auth.client(seen).me(), SignedOut)
    assert.equal(store.entries.size, 0)
    assert.ok(stage.log.includes('/oauth/token/revocation'))
  })
})

suite('a sign-out', () => {
  test('deletes the cookies and ends the sign-in at the service', async () => {
    const { auth } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const copied = new Map(visitor.jar)
    const token = await (await auth.session({ headers: visitor.headers() }))!.token()
    const { status, location } = await visitor.visit('/auth/sign-out?return_to=/bye', { method: 'POST' })
    assert.deepEqual([status, location, visitor.jar.size], [303, `${SHOP}/bye`, 0])
    const { body } = await here.request('/oauth/token/introspection', {
      method: 'POST',
      body: new URLSearchParams({ token, client_id: 'shop', client_secret: clientSecret }),
    })
    assert.equal(body.active, false)
    const again = shop()
    again.stage.aheadMs = 2 * HOUR
    assert.equal((await stateOf(visitorOf(again.auth, copied))).status, 'signed-out')
    assert.equal((await visitor.visit('/auth/sign-out', { method: 'POST', headers: OWN })).status, 204)
  })

  test('cannot be caused by another site (CSRF)', async () => {
    const { auth } = shop()
    const visitor = await signedIn(auth, 'rosa')
    for (const site of ['cross-site', 'same-site', 'none'])
      assert.equal(
        (await visitor.visit('/auth/sign-out', { method: 'POST', headers: { 'sec-fetch-site': site } })).status,
        403,
      )
    assert.equal((await visitor.visit('/auth/sign-out')).status, 405)
    const old = (headers: Record<string, string>) =>
      auth.handle(
        new Request(`${SHOP}/auth/sign-out`, { method: 'POST', headers: { ...visitor.headers(), ...headers } }),
      )
    assert.equal((await old({})).status, 403)
    assert.equal((await old({ origin: 'https://evil.example' })).status, 403)
    assert.equal((await stateOf(visitor)).status, 'signed-in')
    assert.equal((await old({ origin: SHOP })).status, 303)
  })

  test('works while the service does not answer, which is told to the developer', async () => {
    const { auth, stage } = shop()
    const visitor = await signedIn(auth, 'rosa')
    stage.instead = () => {
      throw new TypeError('fetch failed')
    }
    assert.equal((await visitor.visit('/auth/sign-out', { method: 'POST' })).status, 303)
    assert.deepEqual([visitor.jar.size, stage.errors.length], [0, 1])
  })
})

suite('calls of pages', () => {
  /** A page's session and client. `removed`: headers that its script does not send. */
  function pageOf(visitor: Visitor, removed: readonly string[] = []) {
    const page = { ...fakePage(), href: () => `${SHOP}/cart?item=1` }
    let went = ''
    page.goTo = (url) => void (went = url)
    const session = createServerSession({
      page,
      fetch: async (input, init) => {
        const sent = new Headers(init!.headers)
        for (const name of removed) sent.delete(name)
        const { status, text, headers } = await visitor.visit((input as URL).href, { ...init, headers: Object.fromEntries(sent) }) // prettier-ignore
        return new Response(status === 204 ? null : text, { status, headers })
      },
    })
    const wallet = createClient({ origin: '/auth/wallet', session, clock: instantClock() })
    return { session, wallet, went: () => went }
  }

  test('have a session that follows the server: state, sign-in, sign-out', async () => {
    const { auth } = shop()
    const visitor = visitorOf(auth)
    const before = pageOf(visitor)
    const state = (of: Session) => new Promise<SessionState>((resolve) => of.subscribe(resolve))
    assert.equal(before.session.state.status, 'unknown')
    assert.deepEqual(await state(before.session), { status: 'signed-out' })
    void before.session.signIn()
    const { location } = await visitor.visit(before.went())
    const { url } = await walk(location!, { origin: here.facts.origin, username: 'rosa' })
    assert.equal((await visitor.visit(url.pathname + url.search)).location, `${SHOP}/cart?item=1`)
    const { session, wallet } = pageOf(visitor)
    assert.equal((await state(session)).status, 'signed-in')
    await assert.rejects(session.fetch('https://evil.example/v1/me'), { name: 'InvalidInput' })
    await session.signOut()
    assert.deepEqual([session.state.status, visitor.jar.size], ['signed-out', 0])
    await assert.rejects(wallet.me(), SignedOut)
    // On a server, nothing is asked.
    const nowhere = createServerSession({ fetch: async () => assert.fail() })
    await assert.rejects(nowhere.fetch('/auth/wallet/v1/me'), SignedOut)
    assert.equal(nowhere.state.status, 'unknown')
  })

  test('read the user’s account, and write only what the application lists', async () => {
    const visitor = await signedIn(shop().auth, 'rosa')
    const { wallet } = pageOf(visitor)
    assert.equal((await wallet.me()).id, 'DEV-rosa')
    const { items, indexedTo } = await wallet.history({ limit: 1 }).page()
    assert.ok(items.length <= 1 && indexedTo !== null)
    assert.ok((await wallet.balance()).value > 0n)
    const send = { to: 'DEV-bob', amount: '0.01' }
    await assert.rejects(wallet.transfer(send), (error) => error instanceof Refused && error.code === 'path_not_listed')
    const open = shop({ walletPaths: [...walletReads, 'POST /v1/tokens/transfers'] })
    const { wallet: writer } = pageOf(visitorOf(open.auth, visitor.jar))
    const first = await writer.transfer(send, { idempotencyKey: 'order-1' })
    const again = await writer.transfer(send, { idempotencyKey: 'order-1' })
    assert.equal(first.id, again.id)
    assert.match((await first.mined()).state, /^(MINED|FINALIZED)$/)
  })

  test('are refused from another site, and without the header that a form cannot send', async () => {
    const visitor = await signedIn(shop().auth, 'rosa')
    const refusals: Record<string, string>[] = [
      {},
      { ...OWN, 'sec-fetch-site': 'cross-site' },
      { ...OWN, 'sec-fetch-site': 'same-site' },
      { ...OWN, 'sec-fetch-site': 'none' },
      { ...OWN, 'sec-fetch-site': 'cross-site', origin: SHOP },
    ]
    for (const headers of refusals) assert.equal((await visitor.visit('/auth/wallet/v1/me', { headers })).status, 403)
    await assert.rejects(pageOf(visitor, ['x-chatelaine']).wallet.me(), { code: 'request_refused' })
  })

  test('reach no other path, method or host, and no header of the service’s that is not for pages', async () => {
    const { auth, stage } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const before = stage.log.length
    const paths = ['/v1/applications', '/v1/users/DEV-bob/../../me/keys', '/oauth/token', '/v1/users/a%2Fb', '/v1/users/a%5cb', '//evil.example/v1/me', '/v1/me/', '/v1//me', '/metrics', '/v1/users/DEV-bob/history/x'] // prettier-ignore
    for (const path of paths)
      assert.equal((await visitor.visit(`/auth/wallet${path}`, { headers: OWN })).status, 403, path)
    for (const method of ['POST', 'DELETE', 'PUT', 'PATCH', 'HEAD']) assert.equal((await visitor.visit('/auth/wallet/v1/me', { method, headers: OWN })).status, 403) // prettier-ignore
    assert.equal(stage.log.length, before)
    let sent = new Headers()
    stage.instead = (path, init) => {
      sent = new Headers(init.headers)
      return path === '/v1/me' ? Response.json({}, { headers: { 'set-cookie': 'evil=1', 'x-block-number': '7', 'access-control-allow-origin': '*' } }) : null // prettier-ignore
    }
    const { headers } = await visitor.visit('/auth/wallet/v1/me', { headers: { ...OWN, authorization: 'Bearer other', 'x-forwarded-for': '1.2.3.4' } }) // prettier-ignore
    assert.deepEqual([...sent.keys()], ['authorization'])
    assert.match(sent.get('authorization')!, /^Bearer eyJ/)
    assert.deepEqual(['set-cookie', 'x-block-number', 'access-control-allow-origin', 'cache-control'].map((name) => headers.get(name)), [null, '7', null, 'no-store']) // prettier-ignore
  })

  test('with a body that is too large are refused before anything is sent', async () => {
    const { auth, stage } = shop({ walletPaths: ['POST /v1/contracts/method/read'] })
    const visitor = await signedIn(auth, 'rosa')
    const before = stage.log.length
    const body = 'x'.repeat(1_000_001)
    assert.equal(
      (await visitor.visit('/auth/wallet/v1/contracts/method/read', { method: 'POST', body, headers: OWN })).status,
      413,
    )
    assert.equal(stage.log.length, before)
  })

  test('of nobody are answered with 401', async () => {
    const visitor = visitorOf(shop().auth)
    await assert.rejects(pageOf(visitor).wallet.me(), SignedOut)
  })
})

suite('an access token at an API of the application', () => {
  const options = () => ({ origin: here.facts.origin, clientId: ['shop', 'demo'] })
  const refused = (work: Promise<unknown>) => assert.rejects(work, (error) => error instanceof SignedOut && error.code === 'invalid_token') // prettier-ignore

  test('names its user, application and permissions', async () => {
    const { auth } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const token = await (await auth.session({ headers: visitor.headers() }))!.token()
    const found = await verifyToken(token, options())
    assert.deepEqual([found.userId, found.clientId, found.chainId], ['DEV-rosa', 'shop', 31_337])
    assert.ok(found.permissions.includes('wallet:read') && found.expiresAt > Date.now())
    const request = new Request(SHOP, { headers: { authorization: `Bearer ${token}` } })
    assert.equal((await verifyToken(request, options())).userId, 'DEV-rosa')
    await refused(verifyToken(token, { ...options(), clientId: 'demo' }))
    assert.equal((await verifyToken(here.alice.token, options())).userId, 'DEV-alice')
  })

  test('is refused if it was changed, is none, or is the token of an application', async () => {
    const [head, body, signature] = here.alice.token.split('.') as [string, string, string]
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const forged = [
      `${head}.${part({ ...claims, sub: 'DEV-bob' })}.${signature}`,
      `${part({ alg: 'none', typ: 'at+jwt' })}.${body}.`,
      `${part({ alg: 'ES256', typ: 'JWT' })}.${body}.${signature}`,
      `${head}.${body}.${signature.slice(0, -8)}AAAAAAAA`,
      ...['', 'x', 'a.b.c', `${here.alice.token} x`, `${here.alice.token}\n`],
    ]
    for (const token of forged) await refused(verifyToken(token, options()))
    const { secret } = await createApplication(here.app, { clientId: 'machine', name: 'Machine', network: 'devnet', kind: 'confidential', redirectUris: [`${SHOP}/callback`], permissions: ['users:read'], allowedOrigins: [], logoUri: null }) // prettier-ignore
    const { body: own } = await here.request('/oauth/token', { method: 'POST', body: new URLSearchParams({ grant_type: 'client_credentials', client_id: 'machine', client_secret: secret! }) }) // prettier-ignore
    assert.match(own.access_token, /^eyJ/)
    await refused(verifyToken(own.access_token, { ...options(), clientId: 'machine' }))
  })

  test('that is bound to a key is refused without its proof', async () => {
    const { auth } = shop()
    const visitor = await signedIn(auth, 'rosa')
    const client: oauth.Client = { client_id: 'demo' }
    const keys = await oauth.generateKeyPair('ES256')
    const DPoP = oauth.DPoP(client, keys)
    const issuer = new URL(here.facts.issuer)
    const insecure = { [oauth.allowInsecureRequests]: true }
    const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure))
    const verifier = oauth.generateRandomCodeVerifier()
    const redirectUri = 'http://127.0.0.1:9/callback'
    const url = new URL(as.authorization_endpoint!)
    url.search = new URLSearchParams({ response_type: 'code', client_id: 'demo', redirect_uri: redirectUri, scope: 'openid', code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256' }).toString() // prettier-ignore
    const { url: back } = await walk(url.href, { origin: here.facts.origin, username: 'rosa' })
    const parameters = oauth.validateAuthResponse(as, client, back)
    const answer = await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), parameters, redirectUri, verifier, { ...insecure, DPoP }) // prettier-ignore
    const { access_token: token } = await oauth.processAuthorizationCodeResponse(as, client, answer)
    await refused(verifyToken(token, options()))
    const at = `${SHOP}/api/orders`
    for (const scheme of ['Bearer', 'DPoP']) await refused(verifyToken(new Request(at, { headers: { authorization: `${scheme} ${token}` } }), options())) // prettier-ignore
    let proven = new Request(at)
    await oauth.protectedResourceRequest(token, 'GET', new URL(at), undefined, null, {
      DPoP,
      [oauth.customFetch]: async (input: string, init: object) => {
        proven = new Request(input, init)
        return new Response()
      },
    })
    assert.equal((await verifyToken(proven, options())).userId, 'DEV-rosa')
    await refused(verifyToken(new Request(`${SHOP}/api/other`, { headers: proven.headers }), options()))
    const bearer = await (await auth.session({ headers: visitor.headers() }))!.token()
    await refused(verifyToken(new Request(at, { headers: { ...Object.fromEntries(proven.headers), authorization: `DPoP ${bearer}` } }), options())) // prettier-ignore
  })

  test('with an unknown key reads the keys of the service at most once a minute', async (t) => {
    const [, body, signature] = here.alice.token.split('.') as [string, string, string]
    const head = Buffer.from('{"alg":"ES256","typ":"at+jwt","kid":"unknown"}').toString('base64url')
    const paths: string[] = []
    const counting = async (input: string, init?: RequestInit) => {
      paths.push(new URL(input).pathname)
      return fetch(input, init)
    }
    const fresh = { ...options(), fetch: counting }
    const many = () =>
      Promise.all(Array.from({ length: 20 }, () => refused(verifyToken(`${head}.${body}.${signature}`, fresh))))
    const reads = () => paths.filter((path) => path.endsWith('/jwks')).length
    await many()
    assert.equal(reads(), 1)
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 61_000 })
    await many()
    await many()
    assert.equal(reads(), 2)
    assert.equal(paths.length, 3)
  })
})

/** Starts a server with the sign-in of `auth`. Its pages show the user. @returns its origin, and how to end it */
const SERVERS: Record<string, (auth: () => Auth) => Promise<{ port: number; close: () => unknown }>> = {
  'node:http': async (auth) => {
    const server = createServer((request, response) => {
      void nodeHandler(auth())(request as NodeRequest, response, async (error) => {
        if (error !== undefined) return void response.writeHead(500).end(inspect(error))
        const session = await auth().session(request)
        response.end(session === null ? 'nobody' : (await auth().client(request).me()).id)
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const close = () => {
      server.closeAllConnections()
      server.close()
    }
    return { port: (server.address() as AddressInfo).port, close }
  },
  // As the guide has it.
  Fastify: async (auth) => {
    const app = Fastify({ forceCloseConnections: true })
    app.addHook('onRequest', (request, reply, done) => void nodeHandler(auth())(request.raw as NodeRequest, reply.raw, done as () => void)) // prettier-ignore
    app.get('/*', async (request) => {
      const session = await auth().session(request)
      return session === null ? 'nobody' : (await auth().client(request).me()).id
    })
    await app.listen({ host: '127.0.0.1', port: 0 })
    return { port: (app.server.address() as AddressInfo).port, close: () => app.close() }
  },
}

for (const [name, open] of Object.entries(SERVERS))
  suite(`a server of Node.js: ${name}`, () => {
    let server: Awaited<ReturnType<typeof open>>
    let origin: string
    let auth: Auth
    let aheadMs = 0
    before(async () => {
      server = await open(() => auth)
      origin = `http://127.0.0.1:${server.port}`
      auth = createAuth({
        origin: here.facts.origin,
        clientId: 'shop',
        clientSecret,
        redirectUri: `${origin}/auth/callback`,
        cookieSecret: SECRET,
        walletPaths: ['POST /v1/contracts/method/read'],
        now: () => Date.now() + aheadMs,
      })
    })
    after(() => server.close())

    test('signs in, renews ahead of its pages, and forwards calls with a body', async () => {
      const over: Pick<Auth, 'handle' | 'redirectUri'> = {
        redirectUri: auth.redirectUri,
        handle: async (request) => fetch(request, { redirect: 'manual' }),
      }
      const { visit, jar, lines } = visitorOf(over)
      assert.equal((await visit('/')).text, 'nobody')
      const { location } = await visit('/auth/sign-in?return_to=/')
      const { url } = await walk(location!, { origin: here.facts.origin, username: 'rosa' })
      assert.equal((await visit(url.pathname + url.search)).location, `${origin}/`)
      assert.ok(lines.every((line) => /^chatelaine-\d+-(session|sign-in)=[^;]*; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/.test(line)), lines.join('\n')) // prettier-ignore
      assert.equal((await visit('/')).text, 'DEV-rosa')
      const before = [...jar.values()].join()
      aheadMs = 2 * HOUR
      const { text, headers } = await visit('/')
      assert.equal(text, 'DEV-rosa')
      assert.equal(headers.getSetCookie().length, 1)
      assert.notEqual([...jar.values()].join(), before)
      const call = { address: here.facts.contracts.erc20, abi: 'decimals() view returns (uint8)' }
      const read = await visit('/auth/wallet/v1/contracts/method/read', { method: 'POST', body: JSON.stringify(call), headers: { ...OWN, 'content-type': 'application/json' } }) // prettier-ignore
      assert.deepEqual([read.status, JSON.parse(read.text).outputs[0].value.hex], [200, '0x12'], read.text)
      // A path that looks like an address is not one of ours.
      const [answer] = (await once(get({ host: '127.0.0.1', port: new URL(origin).port, path: '//evil.example/auth/session' }), 'response')) as [IncomingMessage] // prettier-ignore
      assert.equal((await answer.toArray()).join(''), 'nobody')
      assert.equal((await visit('/auth/sign-out', { method: 'POST' })).status, 303)
      assert.equal((await visit('/')).text, 'nobody')
    })
  })
