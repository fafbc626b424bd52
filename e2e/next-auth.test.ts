// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, test } from 'node:test'
import nextAuth from 'next-auth/next'
import { installation } from './start.ts'
import { walk } from './walk.ts'

/** The handler that a Next.js application puts under pages/api/auth. Its own types need those of Next.js. */
type Handle = (request: object, response: object, options: object) => Promise<void>
const handle = (nextAuth as unknown as { default: Handle }).default

const installed = installation()

/** What the guide to clients gives to a site with Auth.js. */
type Recipe = { chatelaine: { checks: string[] }; callbacks: object }

async function readRecipe(): Promise<Recipe> {
  const guide = await readFile(new URL('../docs/build/client-libraries.md', import.meta.url), 'utf8')
  const code = /<!-- run: Auth\.js -->\n```js\n([\s\S]*?)```/.exec(guide)![1]!
  const text = code.replace('http://localhost:4000', installed.program.facts.origin)
  return (await import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`)) as Recipe
}

type Seen = { profile: Record<string, unknown> | null; account: Record<string, unknown> | null }

/** A site with NextAuth v4 and our service as its only provider, defined by `wellKnown` and nothing else. */
async function site(
  t: { after(work: () => void): void },
  provider: object,
  callbacks: object = {},
): Promise<{ origin: string; seen: Seen }> {
  const seen: Seen = { profile: null, account: null }
  const options = {
    secret: 'of the site',
    logger: { error: () => {}, warn: () => {}, debug: () => {} },
    providers: [
      {
        id: 'wallet',
        name: 'Wallet',
        type: 'oauth',
        wellKnown: `${installed.program.facts.issuer}/.well-known/openid-configuration`,
        clientId: installed.program.facts.clientId,
        client: { token_endpoint_auth_method: 'none' },
        checks: ['pkce'],
        authorization: { params: { scope: 'openid email' } },
        profile: (profile: Record<string, unknown>) => {
          seen.profile = profile
          const { sub, username, email, address } = profile
          return { id: sub, name: username, email, address }
        },
        ...provider,
      },
    ],
    callbacks: {
      jwt: ({ token, account, user }: Record<string, Record<string, unknown> | undefined>) => {
        if (account === undefined) return token
        seen.account = account
        return { ...token, accessToken: account.access_token, address: user!.address }
      },
      session: ({ session, token }: Record<string, Record<string, unknown>>) => ({
        ...session,
        accessToken: token!.accessToken,
        address: token!.address,
        userId: token!.sub,
      }),
      ...callbacks,
    },
  }
  const server = createServer((request, response) => {
    void answer(request, response, options).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  t.after(() => server.closeAllConnections())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  process.env.NEXTAUTH_URL = origin
  t.after(() => delete process.env.NEXTAUTH_URL)
  return { origin, seen }
}

/** One request as Next.js hands it to an API route, and what such a route may do with the answer. */
async function answer(request: IncomingMessage, response: ServerResponse, options: object): Promise<void> {
  const url = new URL(request.url!, 'http://site')
  let text = ''
  for await (const chunk of request as AsyncIterable<Buffer>) text += chunk.toString()
  const path = /^\/api\/auth\/(.+)$/.exec(url.pathname)?.[1]
  if (path === undefined) return void response.end('the site')
  const sent = {
    method: request.method,
    headers: request.headers,
    cookies: Object.fromEntries(
      (request.headers.cookie ?? '').split('; ').map((pair) => {
        const at = pair.indexOf('=')
        return [pair.slice(0, at), decodeURIComponent(pair.slice(at + 1))]
      }),
    ),
    query: { ...Object.fromEntries(url.searchParams), nextauth: path.split('/') },
    body: Object.fromEntries(new URLSearchParams(text)),
  }
  await handle(sent, Object.assign(response, routeAnswer(response)), options)
}

const routeAnswer = (response: ServerResponse) => ({
  status: (code: number) => {
    response.statusCode = code
    return response
  },
  json: (body: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
  send: (body: unknown) => response.end(typeof body === 'object' ? JSON.stringify(body) : body),
})

/** A browser at the site: its cookies, and one request after the other. */
function visitor(origin: string) {
  const jar = new Map<string, string>()
  return async (path: string, form?: Record<string, string>) => {
    const response = await fetch(new URL(path, origin), {
      redirect: 'manual',
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    })
    for (const line of response.headers.getSetCookie()) {
      const pair = line.split(';')[0]!
      const at = pair.indexOf('=')
      jar.set(pair.slice(0, at), pair.slice(at + 1))
    }
    const text = await response.text()
    return { status: response.status, location: response.headers.get('location'), text }
  }
}

async function signIn(origin: string, username: string, visit = visitor(origin)): Promise<Record<string, unknown>> {
  const { csrfToken } = JSON.parse((await visit('/api/auth/csrf')).text) as { csrfToken: string }
  const away = await visit('/api/auth/signin/wallet', { csrfToken, callbackUrl: origin })
  assert.ok(
    away.location !== null && away.location.startsWith(`${installed.program.facts.issuer}/auth?`),
    JSON.stringify(away),
  )
  const { url: back } = await walk(away.location, { origin: installed.program.facts.origin, username })
  const home = await visit(back.pathname + back.search)
  assert.deepEqual([home.status, new URL(home.location!).origin, home.location!.includes('error')], [302, origin, false], home.location!) // prettier-ignore
  return JSON.parse((await visit('/api/auth/session')).text) as Record<string, unknown>
}

suite('NextAuth v4, with a provider defined by wellKnown alone and only PKCE as a check', () => {
  // It reads the profile from `/oauth/me`, or where `idToken` says so from the id token, and looks no further.
  for (const [from, provider] of [
    ['/oauth/me', {}],
    ['the id token', { idToken: true }],
  ] as const)
    test(`completes the flow with the profile of ${from}, and its token is valid for the API`, async (t) => {
      const { origin, seen } = await site(t, provider)
      const session = await signIn(origin, 'nell')
      const me = await fetch(`${installed.program.facts.baseUrl}/me`, {
        headers: { authorization: `Bearer ${String(session.accessToken)}` },
      })
      assert.equal(me.status, 200)
      const { id, username, address } = (await me.json()) as Record<string, unknown>
      assert.deepEqual(
        [session.userId, (session.user as { name: string }).name, session.address],
        [id, username, address],
      )
      assert.deepEqual(
        [id, username, (session.user as { email: string }).email],
        ['DEV-nell', 'nell', 'nell@dev.invalid'],
      )
      assert.equal(seen.profile!.sub, 'DEV-nell')
      assert.ok(String(seen.account!.scope).includes('contracts:write'), 'what the application is registered with')
      const write = await fetch(`${installed.program.facts.baseUrl}/contracts/method/write?wait=mined`, {
        method: 'POST',
        headers: { authorization: `Bearer ${String(session.accessToken)}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          address: installed.program.facts.contracts.erc20,
          abi: 'mint(address to, uint256 amount) public',
          args: [address, '1'],
        }),
      })
      assert.equal(write.status, 200, await write.text())
    })

  test('the guide’s recipe names the person as the API does, renews the token for hours, and says when the sign-in has ended', async (t) => {
    const { chatelaine, callbacks } = await readRecipe()
    const wellKnown = `${installed.program.facts.issuer}/.well-known/openid-configuration`
    const v4 = { ...chatelaine, id: 'wallet', type: 'oauth', wellKnown, issuer: undefined, checks: ['pkce', 'state'] }
    const { origin } = await site(t, v4, callbacks)
    const visit = visitor(origin)
    const session = await signIn(origin, 'nora', visit)
    assert.equal(session.userId, 'DEV-nora')
    const later = async (hours: number) => {
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + hours * 3_600_000 })
      const now = JSON.parse((await visit('/api/auth/session')).text) as Record<string, unknown>
      t.mock.timers.reset()
      return now
    }
    const meBy = (token: unknown) =>
      fetch(`${installed.program.facts.baseUrl}/me`, { headers: { authorization: `Bearer ${String(token)}` } })
    const [soon, renewed] = [await later(0.5), await later(2)]
    assert.equal(soon.accessToken, session.accessToken)
    assert.notEqual(renewed.accessToken, session.accessToken)
    assert.equal((await meBy(renewed.accessToken)).status, 200)
    const again = await later(4)
    assert.notEqual(again.accessToken, renewed.accessToken)
    const revoked = await fetch(`${installed.program.facts.issuer}/token/revocation`, {
      method: 'POST',
      body: new URLSearchParams({ token: String(again.accessToken), client_id: 'demo' }),
    })
    assert.equal(revoked.status, 200)
    const ended = await later(6)
    assert.deepEqual([ended.userId, ended.accessToken, ended.error], ['DEV-nora', null, 'invalid_grant'])
  })

  test('an answer that was meant for another sign-in is refused by it', async (t) => {
    const { origin } = await site(t, {})
    const [mine, theirs] = [visitor(origin), visitor(origin)]
    const leave = async (visit: ReturnType<typeof visitor>) => {
      const { csrfToken } = JSON.parse((await visit('/api/auth/csrf')).text) as { csrfToken: string }
      return (await visit('/api/auth/signin/wallet', { csrfToken, callbackUrl: origin })).location!
    }
    await leave(theirs)
    const { url: back } = await walk(await leave(mine), { origin: installed.program.facts.origin, username: 'nell' })
    const wrong = await theirs(back.pathname + back.search)
    assert.match(wrong.location!, /error=OAuthCallback/)
  })
})
