import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import * as client from 'openid-client'
import { openBrowser, rehearse, textOf, type Rehearsal } from './rehearsal.ts'

let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

const REDIRECT = 'http://localhost:9/anything/callback'

async function discover() {
  return client.discovery(new URL(`${world.origin}/oauth`), 'demo', undefined, client.None(), {
    execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks],
  })
}

async function begin(parameters: Record<string, string> = {}) {
  const config = await discover()
  const verifier = client.randomPKCECodeVerifier()
  const state = client.randomState()
  const nonce = client.randomNonce()
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid email',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
    ...parameters,
  })
  return {
    config,
    url: url.href,
    finish: (callback: URL) =>
      client.authorizationCodeGrant(config, callback, {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
      }),
  }
}

test('a client that knows only OpenID Connect signs a person in and may do what its application may', async () => {
  const { url, finish, config } = await begin()
  const browser = openBrowser(world.origin)
  const page = await browser.signIn(url, 'Alice')
  assert.equal(page.url.origin + page.url.pathname, REDIRECT, textOf(page.text))
  assert.equal(page.url.searchParams.get('iss'), `${world.origin}/oauth`)
  const tokens = await finish(page.url)
  const access = decodeJwt(tokens.access_token)
  assert.equal(decodeProtectedHeader(tokens.access_token).typ, 'at+jwt')
  assert.equal(decodeProtectedHeader(tokens.access_token).alg, 'ES256')
  assert.equal(decodeProtectedHeader(tokens.id_token!).alg, 'RS256')
  assert.equal(access.sub, 'DEV-alice')
  assert.equal(access.aud, `${world.origin}/v1`)
  assert.equal(access.client_id, 'demo')
  assert.equal(access.chain_id, 31_337)
  assert.equal(access.scope, 'openid email wallet:read contracts:read contracts:write')
  assert.equal(tokens.scope, access.scope)
  assert.ok(tokens.refresh_token)
  const me = await client.fetchUserInfo(config, tokens.access_token, 'DEV-alice')
  assert.equal(me.username, 'alice')
})
