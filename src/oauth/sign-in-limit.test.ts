import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { addressOf } from '../http/limits.ts'
import { authorizationUrl, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { withWall } from '../../test/kit/clock.ts'

let world: Rehearsal
before(async () => {
  world = await rehearse({ isLimited: true, env: { SIGN_IN_PER_MINUTE: '3' } })
  // However long this takes, no minute passes.
  const at = Date.now()
  world.app.clock = withWall(() => at)
})
after(() => world.close())

test('an address signs in so many times a minute; then a page says when it may again, and nothing is written', async () => {
  for (let time = 0; time < 3; time++) {
    const page = await openBrowser(world.origin).signIn(authorizationUrl(world.origin).url, `person-${time}`)
    assert.ok(page.url.searchParams.has('code'), 'a whole sign-in counts once at each of its steps')
  }
  const count = async () => (await world.app.db.selectFrom('oauth_records').select('kind').execute()).length
  const before = await count()
  const page = await openBrowser(world.origin).go(authorizationUrl(world.origin).url)
  assert.equal(page.status, 429)
  assert.match(page.headers.get('content-type')!, /^text\/html/)
  assert.ok(page.text.includes('<code>rate_limited</code>'))
  assert.ok(Number(page.headers.get('retry-after')) >= 1)
  assert.match(page.headers.get('ratelimit')!, /^"sign-in";r=0/)
  for (const path of ['/login/nothing', '/consent/nothing', '/login/callback/DEV?state=x'])
    assert.equal((await openBrowser(world.origin).go(path)).status, 429, path)
  assert.equal(await count(), before)
})

test('what applications ask from their servers is not counted with the people of one address', async () => {
  for (const path of ['/oauth/.well-known/openid-configuration', '/oauth/jwks', '/account/signed-in?error=x'])
    for (let time = 0; time < 6; time++) assert.equal((await fetch(`${world.origin}${path}`)).status, 200, path)
  for (let time = 0; time < 6; time++) {
    const body = new URLSearchParams({ grant_type: 'authorization_code', client_id: 'demo', code: 'x' })
    assert.equal((await fetch(`${world.origin}/oauth/token`, { method: 'POST', body })).status, 400)
  }
})

test('an address is a customer’s: one in IPv4, a /64 in IPv6', () => {
  assert.equal(addressOf('203.0.113.7'), '203.0.113.7')
  const same = ['2001:db8:0:7::1', '2001:0db8:0000:0007:ffff:1:2:3', '2001:db8:0:7:1::']
  assert.deepEqual(new Set(same.map(addressOf)), new Set(['2001:db8:0:7']))
  assert.notEqual(addressOf('2001:db8:0:8::1'), addressOf('2001:db8:0:7::1'))
  assert.equal(addressOf('::1'), '0:0:0:0')
  assert.equal(addressOf('::ffff:203.0.113.7'), '::ffff:203.0.113.7')
})
