import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt, importJWK, SignJWT, type JWK } from 'jose'
import { keyHolder, type KeyHolder } from '../../test/key-holder.ts'
import { world, type World } from '../../test/world.ts'
import { readProof } from './dpop.ts'

/** The whole API with a token that is bound to a key. What is tried against its door is in oauth/dpop-attacks.test.ts. */
let here: World
let holder: KeyHolder
let token: string
let sign: (claims: object) => Promise<string>
before(async () => {
  ;[here, holder] = await Promise.all([world(), keyHolder()])
  const { keys } = JSON.parse(await readFile(join(here.dataDir, 'auth-keys.json'), 'utf8')) as { keys: JWK[] }
  const key = keys.find(({ alg }) => alg === 'ES256')!
  sign = async (claims) =>
    new SignJWT({ ...decodeJwt(here.alice.token), ...claims })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid! })
      .sign(await importJWK(key, 'ES256'))
  token = await sign({ cnf: { jkt: holder.jkt } })
})
after(() => here.close())

const ask = async (path: string, init: { method?: string; body?: object; of?: string } = {}) => {
  const { method = 'GET', body, of = token } = init
  const proven = await holder.headers({ method, uri: here.facts.origin + path, token: of })
  return here.request(path, {
    method,
    headers: { ...proven, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

test('every operation takes it, each with a proof of its own: reads, batches, writes that the signer signs', async () => {
  const me = await ask('/v1/me')
  assert.deepEqual([me.status, me.body.id], [200, 'DEV-alice'])
  for (const path of ['/v1/users/DEV-alice/balance', '/v1/users/DEV%2Dalice/balance', '/v1/transactions?limit=1'])
    assert.equal((await ask(path)).status, 200, path)
  const sent = await ask('/v1/transactions', { method: 'POST', body: { to: here.bob.address, value: '1' } })
  assert.ok(sent.status < 300, JSON.stringify(sent.body))
  assert.match(sent.body.hash ?? sent.body.transactionHash, /^0x[0-9a-f]{64}$/)
})

test('a permission that it lacks is told by its own scheme', async () => {
  const small = await sign({ cnf: { jkt: holder.jkt }, scope: 'openid wallet:read', jti: 'small' })
  const body = { to: here.bob.address, value: '1' }
  const { status, body: problem, headers } = await ask('/v1/transactions', { method: 'POST', body, of: small })
  assert.deepEqual([status, problem.code], [403, 'insufficient_scope'])
  assert.equal(headers.get('www-authenticate'), 'DPoP error="insufficient_scope", algs="ES256 Ed25519 EdDSA"')
})

test('a token that is bound in a way that is not known here is good for nothing', async () => {
  for (const cnf of [{}, null, { jkt: 7 }, { 'x5t#S256': 'x' }, { jkt: holder.jkt, 'x5t#S256': 'x' }]) {
    const strange = await sign({ cnf, jti: JSON.stringify(cnf) })
    assert.equal((await ask('/v1/me', { of: strange })).body.code, 'invalid_token')
    const bearer = await here.request('/v1/me', { headers: { authorization: `Bearer ${strange}` } })
    assert.deepEqual([bearer.status, bearer.body.code], [401, 'invalid_token'])
  }
})

test('the operator’s door knows no such scheme', async () => {
  const { status, body } = await ask('/operator/v1/applications')
  assert.ok(status === 404 || body.code === 'invalid_token', String(status))
})

test('pages of registered origins may send a proof and read what is asked of it', async () => {
  const origin = 'http://localhost:5173'
  const preflight = await here.request('/v1/me', {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization,dpop' },
  })
  assert.match(preflight.headers.get('access-control-allow-headers')!, /dpop/)
  const refused = await here.request('/v1/me', { headers: { origin, authorization: `DPoP ${token}` } })
  assert.equal(refused.body.code, 'invalid_dpop_proof')
  assert.match(refused.headers.get('access-control-expose-headers')!, /WWW-Authenticate/)
})

test('an address is compared as addresses are: default port, case of the host, escapes; never another path', async () => {
  const now = Date.now()
  const uri = 'https://wallet.example/v1/users/GOOGLE-a%7Cb'
  const isTaken = async (htu: string) =>
    readProof({ proof: await holder.prove({ uri: htu }), method: 'GET', uri, now }).then(
      () => true,
      () => false,
    )
  for (const same of ['https://wallet.example:443', 'HTTPS://WALLET.EXAMPLE'])
    assert.equal(await isTaken(`${same}/v1/users/GOOGLE-a%7Cb?x#y`), true, same)
  for (const path of ['/v1/users/GOOGLE-a%7cb', '/v1/users/%47OOGLE%2da%7Cb', '/v1/x/../users/GOOGLE-a%7Cb'])
    assert.equal(await isTaken(`https://wallet.example${path}`), true, path)
  for (const path of [
    '/v1/users/GOOGLE-a%257Cb',
    '/v1/users/google-a%7Cb',
    '/v1/users%2FGOOGLE-a%7Cb',
    '//v1/users/GOOGLE-a%7Cb',
    '',
  ])
    // prettier-ignore
    assert.equal(await isTaken(`https://wallet.example${path}`), false, path)
  assert.equal(await isTaken('https://wallet.example.evil.example/v1/users/GOOGLE-a%7Cb'), false)
})
