import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { authorizationUrl, obtainTokens, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { accountIdOf } from '../ids.ts'
import { linkIdentity } from '../users/identities.ts'

let here: Rehearsal
before(async () => void (here = await rehearse()))
after(() => here.close())

const times = async () => (await here.app.telemetry.identitiesNotProven.get()).values[0]?.value ?? 0

/** A person whose second way to sign in stops being proven. */
async function person(name: string) {
  const second = `${name}-two`
  await obtainTokens(here, { username: name })
  await linkIdentity(
    here.app,
    { accountId: accountIdOf('DEV', name), userId: `DEV-${name}` },
    { provider: 'DEV', subject: second, username: null, imageSrc: null, email: null, emailVerified: null },
  )
  return {
    second,
    spoil: () =>
      here.app.db.updateTable('identities').set({ seal: null }).where('subject', '=', second).executeTakeFirst(),
  }
}

test('an identity that stops being proven costs a browser that came by it the sign-in and nothing more: another one signs in there', async () => {
  const { second, spoil } = await person('may')
  const browser = openBrowser(here.origin)
  assert.equal((await browser.signIn('/account', second)).url.pathname, '/account')
  await spoil()
  const before = await times()
  const ask = (more = {}) => authorizationUrl(here.origin, more).url
  for (const path of ['/account', ask(), ask({ prompt: 'login' })]) {
    const page = await browser.go(path)
    assert.deepEqual([page.status, page.url.pathname.split('/')[1]], [200, 'login'], path)
  }
  assert.ok((await times()) - before >= 3)
  const silent = await browser.go(ask({ prompt: 'none' }))
  assert.match(silent.headers.get('location') ?? silent.url.href, /error=interaction_required/)
  await assert.rejects(browser.signIn('/account', second), /: 503 .*Code: identity_not_proven/)
  assert.equal((await browser.signIn('/account', 'may')).status, 200)
  assert.equal((await browser.go('/account')).url.pathname, '/account')
  assert.ok((await browser.go(ask({ prompt: 'none' }))).url.searchParams.has('error') === false)
})

test('and an application its refresh token', async () => {
  const { second, spoil } = await person('kim')
  const { refresh, access } = await obtainTokens(here, { username: second })
  await spoil()
  const before = await times()
  const { status, body } = await post(here.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: refresh, client_id: 'demo' }) // prettier-ignore
  assert.deepEqual([status, body.error], [400, 'invalid_grant'])
  assert.ok((await times()) > before)
  // Its access token lives on, to its end (ACCESS_TOKEN_SECONDS) and no further, and nobody is told: it names the account, not the way in.
  const told = await times()
  const bearer = { headers: { authorization: `Bearer ${access}` } }
  assert.equal((await fetch(`${here.origin}/oauth/me`, bearer)).status, 200)
  assert.equal(await times(), told)
})
