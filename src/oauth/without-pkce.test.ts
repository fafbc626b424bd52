import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import { decodeJwt } from 'jose'
import { saveApplication } from '../applications/registry.ts'
import {
  authorizationUrl,
  demoApplication,
  obtainCode,
  post,
  REDIRECT,
  rehearse,
  type Rehearsal,
} from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'

const SECRET = 'chs_of-the-old-site'
const authorization = `Basic ${Buffer.from(`old-site:${SECRET}`).toString('base64')}`
const without = { client_id: 'old-site', code_challenge: null, code_challenge_method: null }

let world: Rehearsal
before(async () => {
  world = await rehearse()
  await saveApplication(world.app, {
    ...demoApplication,
    clientId: 'old-site',
    kind: 'confidential',
    redirectUris: [REDIRECT],
    secretHashes: [createHash('sha256').update(SECRET).digest('hex')],
    needsPkce: false,
  })
})
after(() => world.close())

suite('an application that is registered without PKCE', () => {
  test('signs people in with its secret and a nonce that its id token repeats', async () => {
    const begun = authorizationUrl(world.origin, without)
    const page = await openBrowser(world.origin).signIn(begun.url, 'alice')
    const code = page.url.searchParams.get('code')!
    const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT }
    const answer = await post(world.origin, '/oauth/token', form, { authorization })
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    assert.equal(decodeJwt(answer.body.id_token!).nonce, begun.nonce)
    // A code is good once, here too.
    assert.equal((await post(world.origin, '/oauth/token', form, { authorization })).body.error, 'invalid_grant')
  })

  for (const [what, parameters] of Object.entries<Record<string, string | null>>({
    'without a nonce': { nonce: null },
    'with an empty nonce': { nonce: '' },
    'that is no OpenID Connect request, which has no id token': { scope: 'wallet:read' },
    'with plain PKCE': { code_challenge: 'x'.repeat(43), code_challenge_method: 'plain' },
    'with a method and no challenge': { code_challenge_method: 'S256' },
  }))
    test(`is refused a request ${what}`, async () => {
      const { url } = authorizationUrl(world.origin, { ...without, ...parameters })
      const page = await openBrowser(world.origin).go(url)
      assert.equal(page.url.searchParams.get('error'), 'invalid_request', page.url.href)
    })

  test('that uses PKCE all the same is held to it', async () => {
    const { exchange } = await obtainCode(world, { parameters: { client_id: 'old-site' } })
    const refused = await exchange({ client_secret: SECRET, code_verifier: 'x'.repeat(43) })
    assert.deepEqual([refused.status, refused.body.error], [400, 'invalid_grant'])
  })

  test('gets nothing for a code without its secret', async () => {
    const begun = authorizationUrl(world.origin, without)
    const page = await openBrowser(world.origin).signIn(begun.url, 'alice')
    const form = { grant_type: 'authorization_code', code: page.url.searchParams.get('code')!, redirect_uri: REDIRECT }
    const wrong: Record<string, string>[] = [{}, { client_secret: 'x' }, { client_id: 'demo' }]
    for (const proof of wrong) {
      const { status, body } = await post(world.origin, '/oauth/token', { client_id: 'old-site', ...form, ...proof })
      assert.ok(status === 401 || body.error === 'invalid_grant', `${status} ${body.error}`)
    }
  })

  test('is a confidential one: the word of a public one changes nothing', async () => {
    await assert.rejects(
      saveApplication(world.app, { ...demoApplication, clientId: 'page', needsPkce: false }),
      /Only a confidential application may omit PKCE/,
    )
  })
})
