import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { checksumAddress } from '../../digits.ts'
import { forgetApplication, noteUser, saveApplication } from '../../applications/registry.ts'
import { accountIdOf } from '../../ids.ts'
import { findUser } from '../../users/find.ts'
import { qrSvg } from './qr.ts'
import {
  addressOf,
  askMe,
  authorizationUrl,
  obtainTokens,
  post,
  rehearse,
  type Rehearsal,
} from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { reseal } from '../../../test/reseal.ts'
import { en } from '../../texts/en.ts'
import { runningClock, stoppedClock } from '../../../test/kit/clock.ts'
import { openSecrets } from '../secrets.ts'
import { readUndo, writeUndo } from './undo.ts'

let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

type Browser = ReturnType<typeof openBrowser>

/** Signs in and opens a tab. */
async function visit(
  username: string,
  tab: '' | '/applications' | '/security' = '',
): Promise<{ browser: Browser; page: Page }> {
  const browser = openBrowser(world.origin)
  const first = await browser.signIn('/account', username)
  return { browser, page: tab === '' ? first : await browser.go(`/account${tab}`) }
}

/** Adds an identity of the development provider. */
async function add(browser: Browser, page: Page, username: string): Promise<Page> {
  const away = await browser.submit(page, '/account/identities/add')
  assert.match(away.url.pathname, /^\/devnet\/idp\/sign-in\//, textOf(away.text))
  return browser.submit(away, '/sign-in/', { username })
}

/** Moves everyone's sign-in into the past. */
const growOld = async () => {
  await sql`update oauth_records set payload = jsonb_set(payload, '{loginTs}', to_jsonb(((payload->>'loginTs')::bigint - 901))) where kind = 'Session' and payload ? 'loginTs'`.execute(
    world.app.db,
  )
  await reseal(world.app)
}

test('a person signs in for the page itself and sees address, code and nothing of an application', async () => {
  const { browser, page } = await visit('amy')
  assert.equal(page.url.pathname, '/account')
  const address = checksumAddress(addressOf('DEV-amy'))
  const receive = await browser.go('/account/receive')
  assert.ok(receive.text.includes(`value="${address}" readonly`))
  assert.ok(receive.text.includes(qrSvg(address, en.account.qrLabel)))
  assert.ok(!page.text.includes(address), 'the balance is first, not the address')
  assert.match(textOf(page.text), /Ethereum test network/)
  assert.match(textOf((await browser.go('/account/applications')).text), new RegExp(en.account.noApplications))
  assert.match(page.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/)
  assert.ok(!/<script(?! defer src=)|style=| on\w+=/.test(page.text))
  const rows = await world.app.db
    .selectFrom('application_users')
    .selectAll()
    .where('client_id', 'like', 'urn:%')
    .execute()
  assert.deepEqual(rows, [])
})

test('the sign-in for the page is its own: no network, no permission, and a way out', async () => {
  const browser = openBrowser(world.origin)
  const chooser = await browser.go('/account')
  assert.match(textOf(chooser.text), /Sign in to your account/)
  assert.ok(!/network/.test(textOf(chooser.text)))
  const cancelled = await browser.submit(chooser, '/cancel')
  assert.equal(cancelled.url.pathname, '/account/signed-in')
  assert.match(cancelled.text, /You are not signed in/)
})

test('an application is listed with what it may do, and loses everything when that is taken back', async () => {
  const { access, refresh } = await obtainTokens(world, { username: 'bea' })
  const { browser, page } = await visit('bea', '/applications')
  assert.match(textOf(page.text), /Demo application Ethereum test network/)
  assert.match(textOf(page.text), /send transactions and spend from your account/)
  const done = await browser.submit(page, '/account/applications/revoke')
  assert.match(textOf(done.text), /Access revoked/)
  assert.match(textOf(done.text), new RegExp(en.account.noApplications))
  assert.equal((await askMe(world.origin, access)).status, 401)
  const again = await post(world.origin, '/oauth/token', {
    grant_type: 'refresh_token',
    refresh_token: refresh,
    client_id: 'demo',
  })
  assert.equal(again.body.error, 'invalid_grant')
  assert.match((await browser.go(authorizationUrl(world.origin).url)).url.pathname, /^\/consent\//)
})

test('a revocation is undone for the same permissions, at once, and brings no token back', async () => {
  const { access } = await obtainTokens(world, { username: 'rae' })
  const { browser, page } = await visit('rae', '/applications')
  const before = [...page.text.matchAll(/<ul class="grants">[^]*?<\/ul>/g)].map(([list]) => list)
  const revoked = await browser.submit(page, '/account/applications/revoke')
  assert.equal((await askMe(world.origin, access)).status, 401)
  const undone = await browser.submit(revoked, '/account/applications/undo')
  assert.ok(textOf(undone.text).includes(en.done.undone!), textOf(undone.text))
  assert.deepEqual(
    [...undone.text.matchAll(/<ul class="grants">[^]*?<\/ul>/g)].map(([list]) => list),
    before,
  )
  assert.equal((await askMe(world.origin, access)).status, 401)
  assert.equal((await world.app.db.selectFrom('consents').select('client_id').where('account_id', '=', accountIdOf('DEV', 'rae')).execute()).length, 1) // prettier-ignore
})

test('a revocation is not undone by somebody else, later, with other permissions, or for an application that has changed', async () => {
  await obtainTokens(world, { username: 'sol' })
  const { browser, page } = await visit('sol', '/applications')
  const revoked = await browser.submit(page, '/account/applications/revoke')
  const undo = revoked.url.searchParams.get('undo')!
  const [text = '', mac = ''] = undo.split('.')
  const claims = JSON.parse(Buffer.from(text, 'base64url').toString()) as { permissions: string[] }
  assert.ok(claims.permissions.includes('contracts:write'))
  const forged = Buffer.from(JSON.stringify({ ...claims, permissions: ['users:read'] })).toString('base64url')
  const tries = async (who: Browser, from: Page, value: string) =>
    textOf((await who.submit(from, '/account/applications/undo', { undo: value })).text)
  for (const value of ['', 'x', `${text}.`, `${text}.x`, `${forged}.${mac}`])
    assert.ok((await tries(browser, revoked, value)).includes(en.done.undo_over!), value)
  const other = await visit('sid', '/applications')
  const csrf = /name="csrf" value="([^"]*)"/.exec((await other.browser.go('/account/security')).text)![1]!
  const stolen = await other.browser.go('/account/applications/undo', { method: 'POST', body: new URLSearchParams({ csrf, undo }) }) // prettier-ignore
  assert.ok(textOf(stolen.text).includes(en.done.undo_over!))
  const consents = () => world.app.db.selectFrom('consents').select('client_id').where('account_id', 'in', [accountIdOf('DEV', 'sol'), accountIdOf('DEV', 'sid')]).execute() // prettier-ignore
  assert.deepEqual(await consents(), [])
  const { redirectUris } = world.demo
  await saveApplication(world.app, { ...world.demo, redirectUris: [...redirectUris, 'https://new.example/callback'] })
  forgetApplication(world.app, 'demo')
  assert.ok((await tries(browser, revoked, undo)).includes(en.done.undo_over!))
  await saveApplication(world.app, world.demo)
  forgetApplication(world.app, 'demo')
  await growOld()
  assert.ok((await tries(browser, revoked, undo)).includes(en.done.undo_over!), 'spending needs a recent sign-in')
  assert.deepEqual(await consents(), [])
  const again = await browser.submit(await browser.go('/account/applications'), '/account/applications/revoke').catch(() => null) // prettier-ignore
  assert.equal(again, null, 'nothing is left to revoke')
})

const consentOf = async (username: string, clientId = 'demo'): Promise<string[] | null> => {
  const rows = await world.app.db
    .selectFrom('consents')
    .select('permissions')
    .where('account_id', '=', accountIdOf('DEV', username))
    .where('client_id', '=', clientId)
    .execute()
  return rows[0]?.permissions.toSorted() ?? null
}

/** Allows an application some permissions and revokes them. */
async function allowAndRevoke(browser: Browser, username: string, scope: string): Promise<Page> {
  await obtainTokens(world, { username, parameters: { scope } })
  return browser.submit(await browser.go('/account/applications'), '/account/applications/revoke')
}

const undoOf = (revoked: Page): string => revoked.url.searchParams.get('undo')!
/** Presses the button of a page that offered to undo a revocation, however long ago. */
const undoing = async (browser: Browser, revoked: Page): Promise<string> =>
  textOf((await browser.submit(revoked, '/account/applications/undo')).text)

test('an undo works once, also when it is pressed twice at the same time', async () => {
  const { browser } = await visit('una', '/applications')
  const revoked = await allowAndRevoke(browser, 'una', 'openid email contracts:read')
  const answers = await Promise.all([undoing(browser, revoked), undoing(browser, revoked)])
  for (const outcome of [en.done.undone!, en.done.undo_over!])
    assert.equal(answers.filter((text) => text.includes(outcome)).length, 1, outcome)
  const second = await browser.submit(await browser.go('/account/applications'), '/account/applications/revoke')
  assert.ok((await undoing(browser, revoked)).includes(en.done.undo_over!))
  assert.equal(await consentOf('una'), null)
  const page = await browser.go(`/account/applications?${new URLSearchParams({ undo: undoOf(revoked) }).toString()}`)
  assert.ok(!page.text.includes('/account/applications/undo'), 'a used undo is not offered again')
  assert.ok((await undoing(browser, second)).includes(en.done.undone!))
})

test('an undo restores its own revocation only, not an earlier one that took more', async () => {
  const { browser } = await visit('ulf', '/applications')
  const more = await allowAndRevoke(browser, 'ulf', 'openid email contracts:read contracts:write')
  const less = await allowAndRevoke(browser, 'ulf', 'openid wallet:read')
  assert.ok((await undoing(browser, more)).includes(en.done.undo_over!))
  assert.equal(await consentOf('ulf'), null)
  assert.ok((await undoing(browser, less)).includes(en.done.undone!))
  assert.deepEqual(await consentOf('ulf'), ['wallet:read'])
})

test('an undo adds nothing to a consent that was given since, and nothing comes back after a revocation of nothing', async () => {
  const { browser, page } = await visit('uwe', '/applications')
  const more = await allowAndRevoke(browser, 'uwe', 'openid email contracts:read')
  await obtainTokens(world, { username: 'uwe', parameters: { scope: 'openid wallet:read' } })
  assert.ok((await undoing(browser, more)).includes(en.done.undo_over!))
  assert.deepEqual(await consentOf('uwe'), ['wallet:read'])
  const csrf = /name="csrf" value="([^"]*)"/.exec((await browser.go('/account/applications')).text)![1]!
  const revokeAgain = () => browser.go('/account/applications/revoke', { method: 'POST', body: new URLSearchParams({ csrf, clientId: 'demo' }) }) // prettier-ignore
  const revoked = await revokeAgain()
  await revokeAgain()
  assert.ok((await undoing(browser, revoked)).includes(en.done.undo_over!))
  assert.equal(await consentOf('uwe'), null)
  assert.equal(page.status, 200)
})

test('an undo is for one application, and ends with the deletion of the account’s data', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'second', name: 'Second' })
  const { browser } = await visit('udo', '/applications')
  const revoked = await allowAndRevoke(browser, 'udo', 'openid wallet:read')
  await obtainTokens(world, { username: 'udo', parameters: { client_id: 'second', scope: 'openid wallet:read' } })
  const both = await browser.go('/account/applications')
  await browser.submit(both, '/account/applications/revoke', { clientId: 'second' })
  assert.ok((await undoing(browser, revoked)).includes(en.done.undone!), 'another application has its own')
  const last = await browser.submit(await browser.go('/account/applications'), '/account/applications/revoke')
  await browser.submit(await browser.go('/account/erase'), '/account/erase', { sure: 'yes' })
  const again = await visit('udo', '/security')
  const csrf = /name="csrf" value="([^"]*)"/.exec(again.page.text)![1]!
  const late = await again.browser.go('/account/applications/undo', { method: 'POST', body: new URLSearchParams({ csrf, undo: undoOf(last) }) }) // prettier-ignore
  assert.ok(textOf(late.text).includes(en.done.undo_over!))
  assert.equal(await consentOf('udo'), null)
})

test('an undo is over after five minutes', async () => {
  const clock = runningClock()
  const later = await rehearse({ clock })
  try {
    const browser = openBrowser(later.origin)
    await browser.signIn('/account', 'ute')
    for (const [minutes, outcome] of [
      [4, en.done.undone!],
      [5, en.done.undo_over!],
    ] as const) {
      // prettier-ignore
      await obtainTokens(later, { username: 'ute', parameters: { scope: 'openid wallet:read' } })
      const revoked = await browser.submit(await browser.go('/account/applications'), '/account/applications/revoke')
      assert.equal(revoked.status, 200, textOf(revoked.text))
      await clock.advance(minutes * 60_000)
      assert.ok((await undoing(browser, revoked)).includes(outcome), String(minutes))
    }
  } finally {
    await later.close()
  }
})

test('the text of an undo is valid until the last millisecond of its five minutes', async () => {
  const clock = stoppedClock()
  const secrets = openSecrets(['key'])
  const whose = { accountId: accountIdOf('DEV', 'ute'), clientId: 'demo' }
  const undo = writeUndo({ clock }, secrets, { ...whose, permissions: ['email'], ways: [], revocation: 'one' })
  const read = () => readUndo({ clock }, secrets, { accountId: whose.accountId, undo })
  await clock.advance(299_999)
  assert.deepEqual(read()?.permissions, ['email'])
  await clock.advance(1)
  assert.equal(read(), null)
})

test('one script, from one address, may run on the page, and nowhere else', async () => {
  const { browser, page } = await visit('ida')
  const csp = page.headers.get('content-security-policy')!
  assert.match(csp, new RegExp(`^default-src 'none';.*; script-src ${world.origin}/assets/copy\\.js$`))
  assert.deepEqual(page.text.match(/<script[^>]*>/g)?.length, 1)
  const [, address] = /<script defer src="([^"]*)">/.exec(page.text)!
  const script = await fetch(address!)
  assert.deepEqual([script.status, script.headers.get('content-type')], [200, 'text/javascript; charset=utf-8'])
  const erase = await browser.go('/account/erase')
  assert.doesNotMatch(erase.headers.get('content-security-policy')!, /script-src/)
  assert.doesNotMatch(erase.text, /<script/)
})

test('revoking one application leaves the others and other people alone', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'second', name: 'Second' })
  const one = await obtainTokens(world, { username: 'cleo' })
  const two = await obtainTokens(world, { username: 'cleo', parameters: { client_id: 'second' } })
  const other = await obtainTokens(world, { username: 'carl', parameters: { client_id: 'second' } })
  const { browser, page } = await visit('cleo', '/applications')
  await browser.submit(page, '/account/applications/revoke', { clientId: 'second' })
  assert.deepEqual(
    await Promise.all([one, two, other].map(async ({ access }) => (await askMe(world.origin, access)).status)),
    [200, 401, 200],
  )
  const uses = await world.app.db
    .selectFrom('application_users')
    .select(['client_id', 'account_id'])
    .where('account_id', 'in', [accountIdOf('DEV', 'cleo'), accountIdOf('DEV', 'carl')])
    .orderBy('client_id')
    .execute()
  assert.deepEqual(uses, [
    { client_id: 'demo', account_id: accountIdOf('DEV', 'cleo') },
    { client_id: 'second', account_id: accountIdOf('DEV', 'carl') },
  ])
})

test('an application that someone signed in to is listed, whatever is left of it, until it is taken back', async () => {
  const { browser } = await visit('uma')
  await noteUser(world.app.db, { clientId: 'demo', accountId: accountIdOf('DEV', 'uma') })
  const page = await browser.go('/account/applications')
  assert.match(textOf(page.text), /Demo application Ethereum test network/)
  assert.match(
    textOf((await browser.submit(page, '/account/applications/revoke')).text),
    new RegExp(en.account.noApplications),
  )
})

test('sessions are listed; another one and this one can be ended, another person’s cannot', async () => {
  const first = await visit('dan', '/security')
  const second = await visit('dan', '/security')
  const stranger = await visit('eve', '/security')
  const uidOf = (page: Page) => /name="uid" value="([^"]*)"/.exec(page.text)![1]!
  await stranger.browser.submit(stranger.page, '/account/sessions/end', { uid: uidOf(first.page) })
  assert.equal((await first.browser.go('/account')).url.pathname, '/account')
  const page = await second.browser.go('/account/security')
  await second.browser.submit(page, '/account/sessions/end-others')
  assert.match((await first.browser.go('/account')).url.pathname, /^\/login\//)
  const out = await second.browser.submit(page, '/account/sessions/end')
  assert.match(out.text, /You are signed out/)
  assert.match((await second.browser.go('/account')).url.pathname, /^\/login\//)
})

test('an identity is added, leads to the same account, and is removed; the first one stays', async () => {
  const { browser, page } = await visit('fay', '/security')
  const added = await add(browser, page, 'fay-two')
  assert.match(textOf(added.text), /Added\./)
  assert.match(textOf((await add(browser, added, 'fay-two')).text), /already belongs to this account/)
  const elsewhere = await visit('fay-two')
  assert.ok((await elsewhere.browser.go('/account/receive')).text.includes(checksumAddress(addressOf('DEV-fay'))))
  const kept = await browser.submit(added, '/account/identities/remove', { identity: 'DEV-fay' })
  assert.match(textOf(kept.text), /could not be removed/)
  const removed = await browser.submit(added, '/account/identities/remove', { identity: 'DEV-fay-two' })
  assert.match(textOf(removed.text), /Removed\./)
  assert.equal((await findUser(world.app, 'DEV-fay'))?.userId, 'DEV-fay')
  assert.equal(await findUser(world.app, 'DEV-fay-two'), null)
})

test('an identity with an account of its own is not added, and another person’s is not removed', async () => {
  await visit('gus')
  const { browser, page } = await visit('hal', '/security')
  const refused = await add(browser, page, 'gus')
  assert.match(textOf(refused.text), /already has its own account here/)
  const gus = await findUser(world.app, 'DEV-gus')
  assert.equal(gus?.userId, 'DEV-gus')
  const csrf = /name="csrf" value="([^"]*)"/.exec(page.text)![1]!
  const body = new URLSearchParams({ csrf, identity: 'DEV-gus' })
  const kept = await browser.go('/account/identities/remove', { method: 'POST', body })
  assert.match(textOf(kept.text), /could not be removed/)
  assert.notEqual(await findUser(world.app, 'DEV-gus'), null)
})

test('the answer to adding an identity is refused in another session, also in the same browser', async () => {
  const { browser, page } = await visit('ida', '/security')
  const away = await browser.submit(page, '/account/identities/add')
  await browser.submit(page, '/account/sessions/end')
  await browser.signIn('/account', 'joe')
  const late = await browser.submit(away, '/sign-in/', { username: 'ida-two' })
  assert.equal(late.status, 400)
  assert.match(late.text, /sign_in_expired/)
  assert.equal(await findUser(world.app, 'DEV-ida-two'), null)
})

test('adding, removing and deleting ask for a sign-in when the last one is old', async () => {
  const { browser, page } = await visit('kay', '/security')
  await growOld()
  for (const [path, fields] of [
    ['/account/identities/add', {}],
    ['/account/identities/remove', { identity: 'DEV-x' }],
    ['/account/erase', { sure: 'yes' }],
  ] as const) {
    const csrf = /name="csrf" value="([^"]*)"/.exec(page.text)![1]!
    const stopped = await browser.go(path, { method: 'POST', body: new URLSearchParams({ csrf, ...fields }) })
    assert.match(stopped.url.pathname, /^\/login\//, path)
  }
  const back = await browser.signIn('/oauth/auth' + (await signInAgain(browser, page)), 'kay')
  assert.match(textOf(back.text), /You signed in again/)
  assert.match(textOf((await add(browser, back, 'kay-two')).text), /Added\./)
})

async function signInAgain(browser: Browser, page: Page): Promise<string> {
  const cookie = [...browser.cookies.values()].map(({ name, value }) => `${name}=${value}`).join('; ')
  const csrf = /name="csrf" value="([^"]*)"/.exec(page.text)![1]!
  const answer = await fetch(`${world.origin}/account/identities/add`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie },
    body: new URLSearchParams({ csrf, provider: 'DEV' }),
  })
  return new URL(answer.headers.get('location')!).search
}

test('every form of the page is refused without our token, with that of another session, and does nothing then', async () => {
  const { browser, page } = await visit('lea', '/security')
  const other = await visit('max', '/security')
  const foreign = /name="csrf" value="([^"]*)"/.exec(other.page.text)![1]!
  for (const path of [
    'applications/revoke',
    'identities/add',
    'identities/remove',
    'sessions/end',
    'sessions/end-others',
    'erase',
  ])
    for (const csrf of [null, '', 'x', foreign]) {
      const body = new URLSearchParams({ sure: 'yes', provider: 'DEV', ...(csrf === null ? {} : { csrf }) })
      const answer = await browser.go(`/account/${path}`, { method: 'POST', body })
      assert.equal(answer.status, 400, path)
      assert.match(answer.text, /sign_in_refused/)
    }
  assert.equal((await browser.go('/account/receive')).text.includes('lea'), true)
  assert.equal(page.status, 200)
})

test('deleting forgets the person and keeps the account for the same person', async () => {
  const { access } = await obtainTokens(world, { username: 'ned' })
  const { browser, page } = await visit('ned', '/security')
  await add(browser, page, 'ned-two')
  const asked = await browser.go('/account/erase')
  assert.match(textOf(asked.text), /nobody can delete them/)
  assert.match((await browser.submit(asked, '/account/erase')).text, /The box was not ticked/)
  const done = await browser.submit(asked, '/account/erase', { sure: 'yes' })
  assert.match(done.text, /Your data is deleted/)
  const { db } = world.app
  const user = await findUser(world.app, 'DEV-ned')
  assert.deepEqual(
    [user?.username, user?.imageSrc, user?.email, user?.emailVerified, user?.stored.address],
    ['ned', null, null, null, addressOf('DEV-ned')],
  )
  assert.equal(await findUser(world.app, 'DEV-ned-two'), null)
  for (const table of ['consents', 'application_users'] as const)
    assert.deepEqual(await db.selectFrom(table).selectAll().where('account_id', '=', user!.accountId).execute(), [])
  assert.deepEqual(await db.selectFrom('oauth_records').select('kind').where('user_id', '=', 'DEV-ned').execute(), [])
  assert.equal((await askMe(world.origin, access)).status, 401)
  assert.match((await browser.go('/account')).url.pathname, /^\/login\//)
  const again = await visit('ned')
  assert.ok((await again.browser.go('/account/receive')).text.includes(checksumAddress(addressOf('DEV-ned'))))
})

test('every tab has an address of its own, is marked where one is, and links to no page twice', async () => {
  const { browser } = await visit('pia')
  const paths = ['', '/send', '/receive', '/activity', '/applications', '/security'].map((tab) => `/account${tab}`)
  for (const path of paths) {
    const page = await browser.go(path)
    assert.deepEqual([page.status, page.url.pathname], [200, path])
    assert.deepEqual(
      [...page.text.matchAll(/href="([^"]*)" aria-current="page"/g)].map(([, href]) => href),
      [path],
    )
    const nav = page.text.slice(page.text.indexOf('<nav class="tabs"'), page.text.indexOf('</nav>'))
    assert.deepEqual([...nav.matchAll(/<a href="([^"]*)"/g)].map(([, href]) => href), paths) // prettier-ignore
    const rest = page.text.replace(nav, '')
    assert.ok(!rest.includes(`<a href="${path}"`), `${path} links to itself`)
  }
})

test('a page names its icons, which are there, and the colours of the frame', async () => {
  const { page } = await visit('pia')
  const [icon, touch, manifest] = ['icon', 'apple-touch-icon', 'manifest'].map(
    (rel) => new RegExp(`<link rel="${rel}"[^>]* href="([^"]*)"`).exec(page.text)![1]!,
  )
  assert.equal(page.text.match(/<meta name="theme-color" media="\(prefers-color-scheme: (light|dark)\)"/g)?.length, 2)
  const types = await Promise.all([icon, touch, manifest, '/favicon.ico'].map(async (path) => {
    const answer = await fetch(new URL(path!, world.origin))
    return [answer.status, answer.headers.get('content-type')]
  })) // prettier-ignore
  assert.deepEqual(types, [[200, 'image/svg+xml'], [200, 'image/png'], [200, 'application/manifest+json; charset=utf-8'], [200, 'image/svg+xml']]) // prettier-ignore
  const told = (await (await fetch(new URL(manifest!, world.origin))).json()) as { icons: { src: string; sizes: string }[]; start_url: string } // prettier-ignore
  assert.deepEqual([told.start_url, ...told.icons.map(({ sizes }) => sizes)], ['/account', 'any', '512x512'])
})

test('the sentence about what was done comes from a list, never from the address', async () => {
  const { browser } = await visit('ola')
  for (const done of ['<b>hello</b>', 'constructor', 'toString', '__proto__']) {
    const page = await browser.go(`/account?done=${encodeURIComponent(done)}`)
    assert.equal(page.status, 200)
    assert.ok(!page.text.includes('role="status"'), done)
  }
})
