import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { decodeJwt } from 'jose'
import type { Application } from '../applications/application.ts'
import { saveApplication } from '../applications/registry.ts'
import { findUser } from '../users/find.ts'
import { unfreezeAccount } from '../users/freeze.ts'
import {
  askMe,
  authorizationUrl,
  obtainCode,
  obtainTokens,
  post,
  rehearse,
  type Rehearsal,
} from '../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { reseal } from '../../test/reseal.ts'
import { endIn, freezeAndSignOut, signOut } from './sign-out.ts'
import { sweep } from './sweep.ts'
import { withWall } from '../../test/kit/clock.ts'

/** What was taken away stays away: revoked tokens, removed identities, frozen accounts. */
let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

const revoke = (origin: string, token: string) => post(origin, '/oauth/token/revocation', { token, client_id: 'demo' })

test('a revoked token stays revoked until it expires, although the settings say a shorter life by now', async (t) => {
  const { access, refresh } = await obtainTokens(world, { username: 'long' })
  const other = await obtainTokens(world, { username: 'long' })
  const again = await rehearse({ env: { ACCESS_TOKEN_SECONDS: '5', REFRESH_TOKEN_SECONDS: '60' }, again: world })
  t.after(() => again.close())
  // One is revoked after it was refreshed under the new settings, the other as it is.
  const refreshed = await post(again.base, '/oauth/token', { grant_type: 'refresh_token', refresh_token: refresh, client_id: 'demo' }) // prettier-ignore
  assert.equal(refreshed.status, 200)
  for (const token of [access, other.access]) assert.equal((await revoke(again.base, token)).status, 200)
  let late = 0
  again.app.clock = withWall(() => Date.now() + late)
  for (const minutes of [0, 2, 59]) {
    late = minutes * 60_000
    for (const token of [access, other.access]) assert.equal((await askMe(again.base, token)).status, 401, `${minutes}`)
  }
  await sweep(again.app.db)
  for (const token of [access, other.access]) {
    const row = await again.app.db
      .selectFrom('revoked_grants')
      .select('forget_at')
      .where('grant_id', '=', decodeJwt(token).gid as string)
      .executeTakeFirstOrThrow()
    assert.ok(row.forget_at.getTime() >= decodeJwt(token).exp! * 1_000)
    assert.ok(row.forget_at.getTime() <= (decodeJwt(token).exp! + 300) * 1_000, 'and not much longer')
  }
})

const person = async (username: string) => {
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', username)
  const page = await browser.go('/account/security')
  return { browser, page }
}

/** Adds a second identity of the development provider to the account that a browser is signed in to. */
async function add({ browser, page }: Awaited<ReturnType<typeof person>>, username: string): Promise<Page> {
  const away = await browser.submit(page, '/account/identities/add')
  return browser.submit(away, '/sign-in/', { username })
}

const refresh = (token: string) =>
  post(world.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })

test('a removed identity ends its browsers, its applications and what it has under way; what came by others stays', async () => {
  const owner = await person('vic')
  const added = await add(owner, 'vic-stolen')
  const own = await obtainTokens(world, { username: 'vic' })
  const thief = openBrowser(world.origin)
  const stolen = await obtainTokens(world, { username: 'vic-stolen', browser: thief })
  assert.equal(decodeJwt(stolen.access).sub, 'DEV-vic')
  assert.equal(decodeJwt(stolen.id).amr, undefined, 'applications are not told how somebody came')
  // A code not yet redeemed, a consent page that stands open, a sign-in that is at the provider's page.
  const code = await obtainCode(world, { username: 'vic-stolen', browser: thief })
  const email = await thief.go(authorizationUrl(world.origin, { scope: 'openid email', prompt: 'consent' }).url)
  assert.match(email.url.pathname, /^\/consent\//)

  const done = await owner.browser.submit(added, '/account/identities/remove')
  assert.match(textOf(done.text), /Removed\./)
  assert.deepEqual(
    [(await askMe(world.origin, stolen.access)).status, (await askMe(world.origin, own.access)).status],
    [401, 200],
  )
  assert.equal((await refresh(stolen.refresh)).body.error, 'invalid_grant')
  assert.equal((await refresh(own.refresh)).status, 200)
  assert.equal((await code.exchange()).body.error, 'invalid_grant')
  assert.match((await thief.submit(email, '/consent/', { answer: 'allow' })).text, /sign_in_expired/)
  // No way in without signing in: neither to the account nor, silently, to an application.
  assert.match((await thief.go('/account')).url.pathname, /^\/login\//)
  assert.match((await thief.go(authorizationUrl(world.origin).url)).url.pathname, /^\/login\//)
  const silent = await thief.go(authorizationUrl(world.origin, { prompt: 'none' }).url)
  assert.equal(silent.url.searchParams.get('error'), 'login_required')
  assert.equal((await owner.browser.go('/account')).url.pathname, '/account')
  // Who signs in that way again is someone else.
  const { access } = await obtainTokens(world, { username: 'vic-stolen' })
  assert.equal(decodeJwt(access).sub, 'DEV-vic-stolen')
})

test('a session, a code and a refresh token that outlive the removal of their identity are worth nothing', async () => {
  const owner = await person('wes')
  await add(owner, 'wes-stolen')
  const thief = openBrowser(world.origin)
  const stolen = await obtainTokens(world, { username: 'wes-stolen', browser: thief })
  const code = await obtainCode(world, { username: 'wes-stolen', browser: thief })
  // As a process that dies between the two steps of a removal leaves it.
  await world.app.db.deleteFrom('identities').where('subject', '=', 'wes-stolen').execute()
  assert.equal((await refresh(stolen.refresh)).body.error, 'invalid_grant')
  assert.equal((await code.exchange()).body.error, 'invalid_grant')
  assert.match((await thief.go('/account')).url.pathname, /^\/login\//)
  assert.match((await thief.go(authorizationUrl(world.origin).url)).url.pathname, /^\/login\//)
})

test('who removes the way that they came by is signed out', async () => {
  const owner = await person('xen')
  await add(owner, 'xen-two')
  const second = await person('xen-two')
  const done = await second.browser.submit(second.page, '/account/identities/remove')
  assert.match(textOf(done.text), /You are signed out/)
  assert.match((await second.browser.go('/account')).url.pathname, /^\/login\//)
  assert.equal((await owner.browser.go('/account')).url.pathname, '/account')
})

test('“everywhere” means every browser and every application, and asks no application to ask again', async () => {
  const [here, there] = [await person('yan'), await person('yan')]
  const tokens = await obtainTokens(world, { username: 'yan' })
  const other = await obtainTokens(world, { username: 'someone-else' })
  const page = await here.browser.go('/account/security')
  assert.match(textOf(page.text), /Sign out everywhere, applications too/)
  const forged = await here.browser.go('/account/sessions/end-everywhere', {
    method: 'POST',
    body: new URLSearchParams(),
  })
  assert.equal(forged.status, 400)
  assert.match(textOf((await here.browser.submit(page, 'end-everywhere')).text), /You are signed out/)
  for (const { browser } of [here, there]) assert.match((await browser.go('/account')).url.pathname, /^\/login\//)
  assert.equal((await askMe(world.origin, tokens.access)).status, 401)
  assert.equal((await refresh(tokens.refresh)).body.error, 'invalid_grant')
  assert.equal((await askMe(world.origin, other.access)).status, 200)
})

test('a freeze signs out everywhere, and until the unfreeze no way to sign in is added, removed or deleted', async () => {
  const { db } = world.app
  const owner = await person('zoe')
  await add(owner, 'zoe-two')
  const { access, refresh: token } = await obtainTokens(world, { username: 'zoe' })
  await freezeAndSignOut(db, endIn(world.app), 'DEV-zoe')
  assert.match((await owner.browser.go('/account')).url.pathname, /^\/login\//)
  assert.equal((await askMe(world.origin, access)).status, 401)
  assert.equal((await refresh(token)).body.error, 'invalid_grant')
  const frozen = await person('zoe')
  assert.equal(frozen.page.url.pathname, '/account/security', 'may look')
  const identity = { identity: 'DEV-zoe-two' }
  for (const [path, fields] of [
    ['/account/identities/add', {}],
    ['/account/identities/remove', identity],
  ] as const)
    assert.match((await frozen.browser.submit(frozen.page, path, fields)).text, /account_frozen/, path)
  const erase = await frozen.browser.go('/account/erase')
  assert.match((await frozen.browser.submit(erase, '/account/erase', { sure: 'yes' })).text, /account_frozen/)
  assert.notEqual(await findUser(world.app, 'DEV-zoe-two'), null)
  await unfreezeAccount(db, 'DEV-zoe')
  assert.equal((await askMe(world.origin, access)).status, 401, 'unfreezing gives no token back')
  assert.match(textOf((await frozen.browser.submit(frozen.page, '/account/identities/remove')).text), /Removed/)
})

test('an account that is frozen while somebody is away to add an identity does not get it', async () => {
  const owner = await person('ada')
  const away = await owner.browser.submit(owner.page, '/account/identities/add')
  await world.app.db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', 'DEV-ada').execute()
  assert.match((await owner.browser.submit(away, '/sign-in/', { username: 'ada-two' })).text, /account_frozen/)
  assert.equal(await findUser(world.app, 'DEV-ada-two'), null)
})

test('a session that is written again after a sign-out everywhere is worth nothing', async () => {
  const { db } = world.app
  const { browser } = await person('ben')
  const session = () => db.selectFrom('oauth_records').selectAll().where('kind', '=', 'Session').where('user_id', '=', 'DEV-ben') // prettier-ignore
  const row = await session().executeTakeFirstOrThrow()
  // The sign-out comes seconds later, and a request that had read the session before writes it back.
  const came = row.payload.amr as string[]
  const older = { ...row.payload, amr: [came[0], String(Number(came[1]) - 5)] }
  await signOut(db, endIn(world.app), 'DEV-ben')
  await db
    .insertInto('oauth_records')
    .values({ ...row, payload: JSON.stringify(older) })
    .execute()
  await reseal(world.app)
  assert.match((await browser.go('/account')).url.pathname, /^\/login\//)
  assert.match((await browser.go(authorizationUrl(world.origin).url)).url.pathname, /^\/login\//)
})

test('an application that any program of the device can pass itself off as asks each time, and never silently', async () => {
  const scheme: Application = { ...world.demo, clientId: 'scheme', redirectUris: ['com.example.app:/callback'] }
  await saveApplication(world.app, scheme)
  for (const [client_id, redirect_uri] of [
    ['demo', 'http://127.0.0.1:4001/callback'],
    ['scheme', 'com.example.app:/callback'],
  ] as const) {
    const browser = openBrowser(world.origin)
    const begin = (more = {}) => browser.go(authorizationUrl(world.origin, { client_id, redirect_uri, ...more }).url)
    await browser.signIn(authorizationUrl(world.origin, { client_id, redirect_uri }).url, 'cat')
    const again = await begin()
    assert.match(again.url.pathname, /^\/consent\//)
    assert.match(textOf(again.text), /cannot prove its identity, so you are asked at every sign-in/)
    assert.ok(
      (await browser.submit(again, '/consent/', { answer: 'allow' })).headers.get('location')?.includes('code='),
    )
    const silent = await begin({ prompt: 'none' })
    assert.match(silent.headers.get('location')!, /error=consent_required/)
    // The thief: another program, another port, a PKCE pair of its own.
    if (client_id === 'demo')
      assert.match((await begin({ redirect_uri: 'http://127.0.0.1:6666/callback' })).url.pathname, /^\/consent\//)
  }
})

test('an application that is reached at its own https address, or has a secret, asks once; our own pages never', async () => {
  await saveApplication(world.app, {
    ...world.demo,
    clientId: 'web',
    redirectUris: ['https://web.example/callback'],
  })
  await saveApplication(world.app, { ...world.demo, clientId: 'keeps', kind: 'confidential', secretHashes: ['0'.repeat(64)] }) // prettier-ignore
  for (const [client_id, redirect_uri] of [
    ['web', 'https://web.example/callback'],
    ['keeps', 'http://127.0.0.1:4001/callback'],
  ] as const) {
    const browser = openBrowser(world.origin)
    const { url } = authorizationUrl(world.origin, { client_id, redirect_uri })
    await browser.signIn(url, 'dot')
    assert.match((await browser.go(url)).headers.get('location')!, /code=/)
    assert.equal((await browser.go('/account')).url.pathname, '/account')
  }
})
