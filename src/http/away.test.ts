import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startCable, type Cable } from '../../test/chaos/cable.ts'
import { emptyPostgres, testCluster } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type World } from '../../test/world.ts'

const skip = testCluster === null ? 'needs PostgreSQL: set TEST_DATABASE_URL' : false

let here: World
let cable: Cable
let port: number
const closers: (() => Promise<void> | void)[] = []
before(async () => {
  if (testCluster === null) return
  const { url, drop } = await emptyPostgres(testCluster)
  closers.push(drop)
  const at = new URL(url)
  port = Number(at.port)
  cable = await startCable(port)
  closers.push(() => cable.close())
  at.hostname = '127.0.0.1'
  at.port = String(cable.port)
  here = await world({ DATABASE_URL: at.href, RATE_LIMITS: 'off', OPERATOR_TOKEN_FILE: '' })
  closers.push(() => here.close())
})
after(async () => {
  for (const close of closers.toReversed()) await close()
})

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

test(
  'while the database is away every route answers, none with a 5xx but 503, which says when to repeat',
  { skip },
  async () => {
    const { alice, request, facts } = here
    const bearer = { authorization: `Bearer ${alice.token}` }
    const { body: document } = await request('/openapi.json')
    const paths = Object.entries(document.paths as Record<string, Record<string, unknown>>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path: filled(path, alice.userId) })),
    )
    assert.ok(paths.length > 10)
    const challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    const sign_in = `/oauth/auth?client_id=demo&response_type=code&scope=openid&redirect_uri=http%3A%2F%2Flocalhost%3A9%2F&code_challenge=${challenge}&code_challenge_method=S256`
    const uid = await beginSignIn(sign_in)
    const pages: { method: string; path: string; body?: string; headers?: Record<string, string> }[] = [
      ...[
        '/',
        '/account',
        '/account/signed-in?state=x',
        '/docs/errors',
        '/healthz',
        '/readyz',
        '/metrics',
        '/explorer',
      ].map(get),
      ...[sign_in, `/login/${uid.path}`, `/consent/${uid.path}`, `/login/${uid.path}/DEV`].map((path) => ({
        ...get(path),
        headers: { cookie: uid.cookie },
      })),
      ...[
        '/login/callback/DEV?state=x&code=y',
        '/oauth/session/end',
        '/oauth/jwks',
        '/oauth/.well-known/openid-configuration',
      ].map((path) => ({ ...get(path), headers: { cookie: uid.cookie } })),
      form(
        '/oauth/token',
        `grant_type=authorization_code&client_id=demo&code=x&redirect_uri=http://localhost:9/&code_verifier=${'v'.repeat(43)}`,
      ),
      form('/oauth/token', 'grant_type=refresh_token&client_id=demo&refresh_token=x'),
      form('/oauth/token/introspection', `client_id=demo&token=${alice.token}`),
      form('/oauth/token/revocation', 'client_id=demo&token=x'),
      form(`/login/${uid.path}/cancel`, 'csrf=x'),
      { ...get('/oauth/me'), headers: bearer },
      // A page of another origin asks first.
      {
        method: 'OPTIONS',
        path: '/v1/me',
        headers: { origin: 'https://elsewhere.example', 'access-control-request-method': 'GET' },
      },
    ]
    cable.cut()
    const answers: { what: string; answer: Answer }[] = []
    // Each token is known for 5 s: after that time nothing is answered from memory.
    await until('what was remembered is old', async () => (await alice.get('/v1/me')).status === 503)
    for (const { method, path } of paths)
      answers.push({
        what: `${method} ${path}`,
        answer: await request(path, {
          method,
          headers: { ...bearer, ...(method === 'GET' ? {} : { 'content-type': 'application/json' }) },
          ...(method === 'GET' ? {} : { body: JSON.stringify(bodyFor(path, facts.contracts.erc20)) }),
        }),
      })
    for (const { method, path, body, headers } of pages)
      answers.push({
        what: `${method} ${path}`,
        answer: await request(path, {
          method,
          redirect: 'manual',
          ...(body === undefined ? {} : { body }),
          ...(headers === undefined ? {} : { headers }),
        }),
      })
    cable.lead(port)

    const wrong = answers.filter(({ answer: { status } }) => status >= 500 && status !== 503)
    assert.deepEqual(
      wrong.map(({ what, answer }) => `${what}: ${answer.status}`),
      [],
    )
    const away = answers.filter(({ answer: { status } }) => status === 503)
    for (const { what, answer } of away.filter(({ what: name }) => !name.endsWith('/readyz')))
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]/, what)
    const isAway = (start: string) => away.some(({ what }) => what.startsWith(start))
    for (const one of [
      'GET /v1/me',
      'GET /readyz',
      'POST /oauth/token',
      'GET /oauth/auth',
      `GET /login/${uid.path}`,
      'GET /oauth/me',
    ])
      assert.ok(
        isAway(one),
        `${one} needs the database: ${answers.find(({ what }) => what.startsWith(one))?.answer.status}`,
      )
    const token = away.find(({ what }) => what === 'POST /oauth/token')!.answer.body
    assert.equal(token.error, 'temporarily_unavailable')
    await until('it is back', async () => (await alice.get('/v1/me')).status === 200)
  },
)

const get = (path: string) => ({ method: 'GET', path })
const form = (path: string, body: string) => ({ method: 'POST', path, body, headers: FORM })

function filled(path: string, userId: string): string {
  return path
    .replace('{userId}', userId)
    .replace('{id}', `tx_${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}`)
    .replaceAll(/\{\w+\}/g, 'demo')
}

function bodyFor(path: string, erc20: string | null): unknown {
  if (path.endsWith('/read')) return { address: erc20, abi: 'balanceOf(address) view returns (uint256)', args: [erc20] }
  return { address: erc20, abi: 'transfer(address,uint256)', args: [erc20, '0'] }
}

/** A sign-in under way: the page that it is at and the cookies of its browser. */
async function beginSignIn(path: string): Promise<{ path: string; cookie: string }> {
  const { status, headers } = await here.request(path, { redirect: 'manual' })
  assert.equal(status, 303)
  const cookie = headers
    .getSetCookie()
    .map((one) => one.split(';', 1)[0])
    .join('; ')
  return { path: headers.get('location')!.split('/').at(-1)!, cookie }
}
