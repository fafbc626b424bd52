import assert from 'node:assert/strict'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { ALICE, ask, refusal } from '../../../test/kit/signer.ts'
import { productionSigner } from '../../../test/production-signer.ts'
import { until } from '../../../test/kit/until.ts'
import { anchorOf, readTokenKeys } from './anchor.ts'

test('in production a key counts when the signer’s user took it by its fingerprint, and not because the server wrote it', async (t) => {
  const { env, newKey, offer, trust, start } = await productionSigner(t)
  const [own, thief] = [await newKey('own'), await newKey('thief')]
  offer(own.jwk)
  await assert.rejects(start(), /trusts no key of an authorization server yet/)
  assert.deepEqual(await trust(), { out: `not trusted  ${own.fingerprint}\n`, err: '', code: 0 })
  await assert.rejects(start(), /trusts no key/)
  assert.deepEqual(await trust('--accept', own.fingerprint), {
    out: `trusted      ${own.fingerprint}\n`,
    err: '',
    code: 0,
  })
  assert.equal(statSync(anchorOf(env.SIGNER_DIR!)).mode & 0o777, 0o600)

  const signer = await start()
  t.after(() => signer.end('SIGKILL'))
  await signer.bringRevocations([await own.list()])
  const { address } = await signer.createAccount({ userId: ALICE })
  assert.equal((await signer.sign(ask(address, { accessToken: await own.token() }))).kind, 'send')

  // The finding: whoever could write the file that the server writes could sign for everybody.
  offer(thief.jwk)
  // Asked how it is, it looks.
  assert.deepEqual((await signer.health()).tokenKeys, [own.fingerprint])
  const forged = ask(address, { nonce: 1, intentId: 'forged', accessToken: await thief.token() })
  await assert.rejects(signer.sign(forged), refusal('invalid_token'))
  await assert.rejects(signer.bringRevocations([await thief.list()]), refusal('bad_request'))
  assert.deepEqual((await signer.health()).tokenKeys, [own.fingerprint])

  // A change of keys, beside the running signer.
  const next = await newKey('next')
  offer(next.jwk)
  assert.equal((await trust('--accept', next.fingerprint, '--remove', own.fingerprint)).code, 0)
  await until('the new key is known', async () => (await signer.health()).tokenKeys.includes(next.fingerprint))
  await signer.bringRevocations([await next.list()])
  await signer.sign(ask(address, { nonce: 1, intentId: 'next', accessToken: await next.token() }))
  const old = ask(address, { nonce: 2, intentId: 'old', accessToken: await own.token() })
  await assert.rejects(signer.sign(old), refusal('invalid_token'))
  assert.match(
    signer.stderr(),
    new RegExp(`token_keys_changed.*${next.fingerprint}|${next.fingerprint}.*token_keys_changed`),
  )
})

test('what cannot be trusted or dropped is said, and nothing is changed', async (t) => {
  const { env, newKey, offer, trust } = await productionSigner(t)
  const [own, other] = [await newKey('own'), await newKey('other')]
  assert.deepEqual(await trust(), { out: 'No key is trusted or offered.\n', err: '', code: 0 })
  offer(own.jwk)
  assert.deepEqual(await trust('--accept', own.fingerprint), { out: `trusted      ${own.fingerprint}\n`, err: '', code: 0 }) // prettier-ignore
  const before = readFileSync(anchorOf(env.SIGNER_DIR!), 'utf8')
  for (const [words, said] of [
    [['--accept', other.fingerprint], /No key of SIGNER_JWKS_FILE has the fingerprint/],
    [['--remove', other.fingerprint], /No trusted key has the fingerprint/],
    [['--remove', own.fingerprint], /one trusted key must remain/],
    [['--accept', own.fingerprint, '--accept', 'x'], /No key of SIGNER_JWKS_FILE/],
  ] as const) {
    const { out, err, code } = await trust(...words)
    assert.deepEqual([out, code], ['', 1])
    assert.match(err, said)
  }
  writeFileSync(env.SIGNER_JWKS_FILE!, '{"keys": [{"d": "secret')
  const { err } = await trust('--accept', own.fingerprint)
  assert.match(err, /is not a JSON web key set/)
  assert.doesNotMatch(err, /secret/)
  assert.equal(readFileSync(anchorOf(env.SIGNER_DIR!), 'utf8'), before)
})

test('a key can be dropped whatever is offered', async (t) => {
  const { env, newKey, offer, trust } = await productionSigner(t)
  const [own, next] = [await newKey('own'), await newKey('next')]
  offer(own.jwk, next.jwk)
  const both = await trust('--accept', own.fingerprint, '--accept', next.fingerprint)
  assert.deepEqual([both.err, both.code], ['', 0])
  writeFileSync(env.SIGNER_JWKS_FILE!, 'nonsense')
  assert.equal((await trust('--remove', own.fingerprint)).out, `trusted      ${next.fingerprint}\n`)
  rmSync(env.SIGNER_JWKS_FILE!)
  mkdirSync(env.SIGNER_JWKS_FILE!)
  assert.match((await trust()).err, /SIGNER_JWKS_FILE cannot be read/)
})

test(
  'another user than the signer’s changes nothing',
  { skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    const { env, newKey, offer, trust } = await productionSigner(t)
    const own = await newKey('own')
    offer(own.jwk)
    // As root, before the store is there and after.
    chownSync(env.SIGNER_KEK_FILE!, 12_345, 12_345)
    assert.match((await trust('--accept', own.fingerprint)).err, /belongs to another user/)
    assert.equal(existsSync(env.SIGNER_DIR!), false)
    mkdirSync(env.SIGNER_DIR!)
    chownSync(env.SIGNER_DIR!, 12_345, 12_345)
    assert.match((await trust('--accept', own.fingerprint)).err, /belongs to another user/)
    assert.deepEqual(readdirSync(env.SIGNER_DIR!), [])
  },
)

test('a token’s life is bounded by its own word and by our clock, and it says when it began', async (t) => {
  const { newKey, offer, trust, start } = await productionSigner(t)
  const own = await newKey('own')
  offer(own.jwk)
  assert.deepEqual(await trust('--accept', own.fingerprint), { out: `trusted      ${own.fingerprint}\n`, err: '', code: 0 }) // prettier-ignore
  const signer = await start()
  t.after(() => signer.end('SIGKILL'))
  await signer.bringRevocations([await own.list()])
  const { address } = await signer.createAccount({ userId: ALICE })
  const now = Math.floor(Date.now() / 1_000)
  const check = async (times: { iat?: number; exp: number }) =>
    signer.check(ask(address, { accessToken: await own.token(times) }))
  await check({ iat: now, exp: now + 86_400 })
  for (const times of [
    { iat: now, exp: now + 86_401 },
    { iat: now + 315_360_000 - 86_400, exp: now + 315_360_000 },
    { exp: now + 3_600 },
  ])
    await assert.rejects(check(times), refusal('invalid_token'), JSON.stringify(times))
})

test('a key is known by what it is, whatever it is called, and of a private one only the public half is kept', async (t) => {
  const { env, newKey, offer, trust } = await productionSigner(t)
  const { jwk, fingerprint } = await newKey('own')
  mkdirSync(env.SIGNER_DIR!)
  offer(
    { ...jwk, kid: 'another name', d: 'of the private half' },
    { kty: 'RSA', n: 'x', e: 'AQAB' },
    { ...jwk, use: 'enc' },
  )
  assert.equal((await trust('--accept', fingerprint)).out, `trusted      ${fingerprint}\n`)
  const kept = readFileSync(anchorOf(env.SIGNER_DIR!), 'utf8')
  // By its fingerprint: a name that the offer chose could be another key's.
  assert.deepEqual(JSON.parse(kept).keys, [{ kty: 'EC', crv: 'P-256', x: jwk.x, y: jwk.y, kid: fingerprint }])
  assert.deepEqual(readTokenKeys('{"keys": [null, 7, {"kty": "EC", "crv": "P-256"}]}'), [])
})
