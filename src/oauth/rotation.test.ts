import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { cookieKeysOf, newKey, newKeys, type PrivateKeys } from './keys.ts'
import { askMe, authorizationUrl, obtainTokens, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'

/** The stages of a change of keys, each a start of the same installation with the next state of AUTH_KEYS_FILE. */
const old = [newKey('ES256'), newKey('RS256')]
const fresh = [newKey('ES256'), newKey('RS256')]
const made = newKeys()
const original: PrivateKeys = { ...made, keys: old }
const prepared: PrivateKeys = { ...made, keys: [...old, ...fresh] }
const switched: PrivateKeys = { ...made, keys: [...fresh, ...old] }
const dropped: PrivateKeys = { ...made, keys: fresh }

let first: Rehearsal
before(async () => void (first = await rehearse({ keys: original })))
after(() => first.close())

const kidOf = (token: string): string =>
  (JSON.parse(Buffer.from(token.split('.', 1)[0]!, 'base64url').toString()) as { kid: string }).kid
const refresh = (token: string) =>
  post(first.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })

test('new keys of the authorization server sign nobody out, at no stage of the change', async () => {
  const browser = openBrowser(first.origin)
  await browser.signIn(authorizationUrl(first.origin).url, 'rosa')
  const before = await obtainTokens(first, { username: 'rosa' })
  assert.equal(kidOf(before.access), old[0]!.kid)
  // A page that stays open while the server is started again.
  const stranger = openBrowser(first.origin)
  const open = await stranger.go(authorizationUrl(first.origin).url)

  let refreshToken = before.refresh
  let world = first
  for (const [keys, signs] of [
    [prepared, old[0]!],
    [switched, fresh[0]!],
  ] as const) {
    await world.server.close()
    world = await rehearse({ again: first, keys })
    assert.equal((await askMe(world.origin, before.access)).status, 200, 'an access token of before')
    const { body } = await refresh(refreshToken)
    refreshToken = body.refresh_token!
    assert.equal(kidOf(body.access_token!), signs.kid)
    assert.equal((await askMe(world.origin, body.access_token!)).status, 200)
    const again = await browser.go(authorizationUrl(world.origin).url)
    assert.ok(again.url.searchParams.has('code'), 'a session of before needs no sign-in')
    // What a client does that has both kinds of token: by key id, from the published keys.
    const published = createRemoteJWKSet(new URL(`${world.origin}/oauth/jwks`))
    for (const token of [before.id, body.id_token!])
      await jwtVerify(token, published, { issuer: `${world.origin}/oauth` })
  }
  const sent = await stranger.submit(open, '/DEV')
  assert.match(sent.url.pathname, /^\/devnet\/idp\//, 'a page that was open before can be sent')

  // Only when the old keys are gone are their cookies and tokens.
  await world.server.close()
  world = await rehearse({ again: first, keys: dropped })
  assert.equal((await askMe(world.origin, before.access)).status, 401)
  assert.equal((await refresh(refreshToken)).status, 200, 'refresh tokens belong to no key')
  const again = await browser.go(authorizationUrl(world.origin).url)
  assert.ok(again.url.searchParams.has('code'), 'a session that was used meanwhile goes on')
  await world.server.close()
})

test('a replica that has the new keys and one that has not yet understand each other', async (t) => {
  const a = await rehearse({ keys: original })
  t.after(() => a.close())
  const b = await rehearse({ again: a, keys: prepared })
  t.after(() => b.close())
  const { access, refresh: token } = await obtainTokens(a, { username: 'rosa' })
  assert.equal((await askMe(b.base, access)).status, 200)
  const form = { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' }
  const { body } = await post(b.base, '/oauth/token', form)
  assert.equal((await askMe(a.base, body.access_token!)).status, 200, 'the prepared key does not sign yet')
})

test('cookies are signed with the first key and read with all', () => {
  assert.deepEqual(cookieKeysOf(switched), [...cookieKeysOf(dropped), ...cookieKeysOf({ keys: old })])
})
