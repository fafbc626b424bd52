// tier: all, because it damages every place of every record, about a thousand times
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { hashOf, SECRET, stage, type Stage } from '../../test/forged-rows.ts'
import { authorizationUrl, obtainCode, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { listApplications } from '../applications/manage.ts'
import { allowsOrigin } from '../applications/origins.ts'
import { openState } from '../state.ts'

/**
 * Rows that say what no row says: a text for a number, a null in a list, a time without an end. By a mistake, or by someone who writes to the
 * database. Nothing of it is answered 5xx. On a server that asks for no MACs, since on one that does such a row is absent already.
 */
let world: Rehearsal
let at: Stage
before(async () => {
  world = await rehearse({ asksForMacs: false })
  at = stage(world, 'damage')
})
after(() => world.close())

/** What stands where something else is expected. */
const WRONG = [null, 'x', 1e300, 1.5, 1_999_999_999.5, [null], { x: null }]
const KEPT = ['oauth_records', 'consents', 'sign_ins', 'applications', 'accounts', 'identities'] as const

const run = (statement: string) => sql.raw(statement).execute(world.app.db)

/** Keeps the tables as they are. @returns puts them back */
async function keep(): Promise<() => Promise<void>> {
  for (const table of KEPT)
    await run(`drop table if exists kept_${table}; `).then(() =>
      run(`create table kept_${table} as select * from ${table}`),
    )
  return async () => {
    for (const table of ['oauth_records', 'consents', 'sign_ins'])
      await run(`delete from ${table}`).then(() => run(`insert into ${table} select * from kept_${table}`))
    await run(
      `update applications as now set redirect_uris = was.redirect_uris, permissions = was.permissions, allowed_origins = was.allowed_origins, secret_hashes = was.secret_hashes, issuers = was.issuers, quotas = was.quotas, sponsor_contracts = was.sponsor_contracts, logo_uri = was.logo_uri, suspended_at = was.suspended_at, resumed_at = was.resumed_at, created_at = was.created_at from kept_applications as was where was.client_id = now.client_id`,
    )
    await run(
      `update accounts as now set signed_out_at = was.signed_out_at, frozen_at = was.frozen_at, unfrozen_at = was.unfrozen_at, exported_at = was.exported_at, created_at = was.created_at from kept_accounts as was where was.account_id = now.account_id`,
    )
    await run(
      `update identities as now set signed_in_at = was.signed_in_at, created_at = was.created_at from kept_identities as was where was.provider = now.provider and was.subject = now.subject`,
    )
    for (const one of ['demo', 'app-damage']) at.forget(one)
  }
}

/** Every place in a value, the value itself among them. */
function* placesIn(value: unknown, path: string[] = []): Generator<string[]> {
  yield path
  if (value === null || typeof value !== 'object') return
  for (const [name, member] of Object.entries(value)) yield* placesIn(member, [...path, name])
}

const quoted = (value: unknown): string => `'${JSON.stringify(value).replaceAll("'", "''")}'::jsonb`
const pathOf = (path: string[]): string => `array[${path.map((name) => `'${name.replaceAll("'", "''")}'`).join(', ')}]`

type Ask = () => Promise<Response[]>

const visit = (address: string, browser: ReturnType<typeof openBrowser>, init: RequestInit = {}) =>
  fetch(new URL(address, world.origin), {
    ...init,
    redirect: 'manual',
    headers: { cookie: [...browser.cookies.values()].map(({ name, value }) => `${name}=${value}`).join('; ') },
  })

const post = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
  fetch(`${world.origin}${path}`, { method: 'POST', body: new URLSearchParams(form), headers })

/** Damages one thing after the other, asks, and puts it right again. @returns how many */
async function each(damages: Iterable<string>, ask: Ask): Promise<number> {
  const restore = await keep()
  const [failures, done]: [string[], string[]] = [[], []]
  for (const damage of damages) {
    const { numAffectedRows = 0n } = await run(damage)
    assert.ok(numAffectedRows > 0n, damage)
    for (const answer of await ask()) {
      await answer.text()
      const { error } = (world.logged.at(-1) ?? {}) as { error?: Error }
      // 502: an application's identity provider is not there.
      if (answer.status >= 500 && answer.status !== 502) failures.push(`${answer.status} ${new URL(answer.url).pathname}: ${damage.slice(0, 120)}: ${error?.message.slice(0, 60)} ${error?.stack?.split('\n')[1]}`) // prettier-ignore
    }
    done.push(damage)
    await restore()
  }
  assert.deepEqual(failures.slice(0, 12), [], `${failures.length} of ${done.length}`)
  return done.length
}

const told = (table: string): number =>
  world.logged.filter((one) => {
    const { event, fields } = one as { event: string; fields?: { table?: string } }
    return event === 'row_damaged' && fields?.table === table
  }).length

/** Every place of the payload of one record, each with every wrong value. */
async function* damagesOf(where: string): AsyncGenerator<string> {
  const { rows } = await sql.raw<{ payload: unknown }>(`select payload from oauth_records where ${where}`).execute(world.app.db) // prettier-ignore
  assert.equal(rows.length, 1, where)
  for (const path of placesIn(rows[0]!.payload))
    for (const wrong of WRONG)
      yield path.length === 0
        ? `update oauth_records set payload = ${quoted(wrong)} where ${where}`
        : `update oauth_records set payload = jsonb_set(payload, ${pathOf(path)}, ${quoted(wrong)}) where ${where}`
}

const all = async (some: AsyncGenerator<string>): Promise<string[]> => {
  const list: string[] = []
  for await (const one of some) list.push(one)
  return list
}

test('a session', async () => {
  const { browser } = await at.arrive(at.thief)
  const damages = await all(damagesOf(`kind = 'Session' and payload->>'accountId' = '${at.thiefId}'`))
  const ask = () =>
    Promise.all([
      visit(authorizationUrl(world.origin, { prompt: 'none' }).url, browser),
      visit(authorizationUrl(world.origin).url, browser),
      visit('/account', browser),
      visit('/oauth/session/end', browser),
    ])
  assert.ok((await each(damages, ask)) > 30)
  assert.ok(told('oauth_records') > 20)
})

test('a sign-in under way, and what came of it', async () => {
  const username = 'thief-damage-two'
  const left = await at.answerOf(username)
  const { uid, browser, resume } = left
  const ask = () =>
    Promise.all([
      visit(`/login/${uid}`, browser),
      visit(`/login/${uid}`, browser, { method: 'POST' }),
      visit(resume, browser),
      visit(left.answer, browser),
      visit(`/consent/${uid}`, browser),
    ])
  const where = `kind = 'Interaction' and id_hash = decode('${hashOf(uid)}', 'hex')`
  assert.ok((await each(await all(damagesOf(where)), ask)) > 30)
  await left.answered()
  const [first, second] = [() => visit(resume, browser), () => visit(`/login/${uid}`, browser)]
  assert.ok((await each(await all(damagesOf(where)), async () => [await first(), await second()])) > 30)
})

test('a code, a refresh token, and the grant of both', async () => {
  const [user, scope] = ['thief-damage-three', 'openid email offline_access wallet:read']
  const { code, verifier } = await obtainCode(world, { username: user, parameters: { scope } })
  const redeem = () => post('/oauth/token', { grant_type: 'authorization_code', client_id: 'demo', code, code_verifier: verifier, redirect_uri: 'https://demo.example/callback' }) // prettier-ignore
  const ofCode = `kind = 'AuthorizationCode' and id_hash = decode('${hashOf(code)}', 'hex')`
  const ofGrant = (kind: string, id: string) => `kind = 'Grant' and grant_id = (select grant_id from oauth_records as one where one.kind = '${kind}' and one.id_hash = decode('${hashOf(id)}', 'hex'))` // prettier-ignore
  for (const where of [ofCode, ofGrant('AuthorizationCode', code)])
    assert.ok((await each(await all(damagesOf(where)), async () => [await redeem()])) > 20)
  const tokens = await at.arrive('thief-damage-four')
  const { refresh } = tokens
  const ask = async () => [
    await post('/oauth/token/introspection', { token: refresh, client_id: 'demo' }),
    await fetch(`${world.origin}/oauth/me`, { headers: { authorization: `Bearer ${tokens.access}` } }),
    await post('/oauth/token', { grant_type: 'refresh_token', client_id: 'demo', refresh_token: refresh }),
    await post('/oauth/token/revocation', { token: refresh, client_id: 'demo' }),
  ]
  const ofToken = `kind = 'RefreshToken' and id_hash = decode('${hashOf(refresh)}', 'hex')`
  for (const where of [ofToken, ofGrant('RefreshToken', refresh)])
    assert.ok((await each(await all(damagesOf(where)), ask)) > 20)
})

test('an application', async () => {
  const clientId = await at.application({ allowedOrigins: ['https://shop.example'] })
  await run(`update applications set issuers = '[{"provider":"APP_X","issuer":"https://x.example","audience":"a","jwksUri":null,"algorithms":["ES256"],"subjectClaim":"sub","usernameClaims":["name"],"pictureClaim":"picture","maxAgeSeconds":60,"isReusable":false,"allowsPrivate":false}]', quotas = '[{"counts":"reads","limit":5,"per":"day"}]' where client_id = '${clientId}'`) // prettier-ignore
  const { rows } = await sql<Record<string, unknown>>`select redirect_uris, permissions, allowed_origins, secret_hashes, issuers, quotas from applications where client_id = ${clientId}`.execute(world.app.db) // prettier-ignore
  const damages = Object.entries(rows[0]!).flatMap(([column, value]) =>
    [...placesIn(value)].flatMap(
      (path) =>
      WRONG.map((wrong) => `update applications set ${column} = ${path.length === 0 ? quoted(wrong) : `jsonb_set(${column}, ${pathOf(path)}, ${quoted(wrong)})`} where client_id = '${clientId}'`), // prettier-ignore
    ),
  )
  damages.push(...ENDLESS.flatMap((time) => ['suspended_at', 'resumed_at', 'created_at'].map((column) => `update applications set ${column} = '${time}' where client_id = '${clientId}'`))) // prettier-ignore
  const basic = `Basic ${Buffer.from(`${clientId}:${encodeURIComponent(SECRET)}`).toString('base64')}`
  const { browser } = await at.arrive('thief-damage-five')
  const subject = `${Buffer.from('{"alg":"ES256","kid":"x"}').toString('base64url')}.${Buffer.from('{"iss":"https://x.example","aud":"a","sub":"1"}').toString('base64url')}.AAAA` // prettier-ignore
  const ask = async () => {
    at.forget(clientId)
    await listApplications(world.app.db)
    assert.equal(await allowsOrigin({ ...world.app, state: openState() }, 'null'), false)
    return Promise.all([
      visit(authorizationUrl(world.origin, { client_id: clientId, scope: 'openid' }).url, browser),
      post('/oauth/token', { grant_type: 'client_credentials', scope: 'users:read' }, { authorization: basic }),
      post('/oauth/token', { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', subject_token: subject, subject_token_type: 'urn:ietf:params:oauth:token-type:id_token' }, { authorization: basic }), // prettier-ignore
      visit(`/oauth/session/end?client_id=${clientId}&post_logout_redirect_uri=https://shop.example`, browser),
      visit('/account', browser),
    ])
  }
  assert.ok((await each(damages, ask)) > 30)
  assert.ok(told('applications') > 20)
})

test('what people allowed', async () => {
  const { browser } = await at.arrive('thief-damage-six', { scope: 'openid wallet:read' })
  const key = 'A'.repeat(43)
  await run(`update consents set keys = '{"${key}":{"permissions":["wallet:read"],"at":"2026-01-01"}}'`)
  const values = { permissions: ['wallet:read'], keys: { [key]: { permissions: ['wallet:read'], at: '2026' } } }
  const damages = Object.entries(values).flatMap(([column, value]) =>
    [...placesIn(value)].flatMap(
      (path) =>
      WRONG.map((wrong) => `update consents set ${column} = ${path.length === 0 ? quoted(wrong) : `jsonb_set(${column}, ${pathOf(path)}, ${quoted(wrong)})`}`), // prettier-ignore
    ),
  )
  const ask = async () => {
    const begun = await visit(authorizationUrl(world.origin, { scope: 'openid contracts:read' }).url, browser)
    return [
      begun,
      ...(await Promise.all([
        visit(authorizationUrl(world.origin, { scope: 'openid wallet:read' }).url, browser),
        visit(authorizationUrl(world.origin, { scope: 'openid wallet:read', redirect_uri: 'http://127.0.0.1:6666/x', dpop_jkt: key }).url, browser), // prettier-ignore
        visit('/account', browser),
      ])),
    ]
  }
  assert.ok((await each(damages, ask)) > 10)
  assert.ok(told('consents') > 10)
  // Nor where more is allowed on top of it.
  const restore = await keep()
  for (const damage of damages.filter((_, number) => number % 5 === 0)) {
    await run(damage)
    const page = await openBrowser(world.origin).signIn(authorizationUrl(world.origin, { scope: 'openid contracts:read' }).url, 'thief-damage-six') // prettier-ignore
    assert.notEqual(page.url.searchParams.get('code'), null, damage)
    await restore()
  }
})

/** Without an end, before there was a beginning, and beyond what a clock here can say. */
const ENDLESS = ['infinity', '-infinity', '280000-01-01', '4000-01-01 BC']

test('times without an end', async () => {
  const username = 'thief-damage-seven'
  const { browser, access, refresh } = await at.arrive(username)
  const left = await at.answerOf(username)
  const whose = `account_id = (select account_id from identities where subject = '${username}')`
  const damages = ENDLESS.flatMap((time) => [
    ...['signed_out_at', 'frozen_at', 'unfrozen_at', 'exported_at', 'created_at'].map((column) => `update accounts set ${column} = '${time}' where ${whose}`), // prettier-ignore
    ...['signed_in_at', 'created_at'].map((column) => `update identities set ${column} = '${time}' where ${whose}`),
    ...['expires_at', 'created_at'].map((column) => `update sign_ins set ${column} = '${time}'`),
    ...['expires_at', 'consumed_at', 'created_at', 'access_until'].map((column) => `update oauth_records set ${column} = '${time}'`), // prettier-ignore
    ...['created_at', 'updated_at'].map((column) => `update consents set ${column} = '${time}'`),
  ])
  const ask = async () => [
    await fetch(`${world.origin}/oauth/me`, { headers: { authorization: `Bearer ${access}` } }),
    await visit('/account', browser),
    await visit('/account/data.json', browser),
    await visit(authorizationUrl(world.origin, { prompt: 'none' }).url, browser),
    await visit(left.answer, left.browser),
    await visit(left.resume, left.browser),
    await post('/oauth/token', { grant_type: 'refresh_token', client_id: 'demo', refresh_token: refresh }),
    await fetch(`${world.origin}/oauth/revocations`),
  ]
  await each(damages, ask)
})

test('the end of a grant, which no MAC covers', async () => {
  const guarded = await rehearse()
  try {
    const here = stage(guarded, 'end')
    const { refresh, grantId } = await here.arrive(here.thief)
    const endAt = (exp: unknown) =>
      here.run(`update oauth_records set payload = jsonb_set(payload, '{exp}', ${quoted(exp)}) where kind = 'Grant' and grant_id = '${grantId}'`) // prettier-ignore
    for (const wrong of [null, 'x', 1e300, [null], { x: null }]) {
      await endAt(wrong)
      assert.equal(await here.refresh(refresh), null)
    }
    // A part of a second is no second.
    await endAt(1_999_999_999.5)
    assert.notEqual(await here.refresh(refresh), null)
    const events = guarded.logged.map((one) => (one as { event: string }).event)
    assert.ok(events.includes('row_damaged'))
    assert.ok(!events.includes('row_not_authentic'))
  } finally {
    await guarded.close()
  }
})
