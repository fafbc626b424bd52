import assert from 'node:assert/strict'
import { mkdtemp, readFile, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLocalJWKSet } from 'jose'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'
import { cookieNames, openCookieSigner } from './cookies.ts'
import { cookieKeysOf, loadKeys, newKey } from './keys.ts'
import { bindProviders, developmentProvider, readProviders } from './federation/providers.ts'
import { sweep } from './sweep.ts'

const folder = () => mkdtemp(join(tmpdir(), 'chatelaine-keys-'))

test('keys are made once, readable by their owner only, and their public half is written beside them', async () => {
  const dir = await folder()
  const files = { keysFile: join(dir, 'deep', 'keys.json'), jwksFile: join(dir, 'public.json') }
  const made = await loadKeys({ ...files, create: true })
  assert.equal((await stat(files.keysFile)).mode & 0o777, 0o600)
  assert.deepEqual(await loadKeys({ ...files, create: false }), made)
  const written = await readFile(files.jwksFile, 'utf8')
  for (const { d } of made.keys) assert.ok(!written.includes(d))
  createLocalJWKSet(JSON.parse(written) as never)
  assert.equal(cookieKeysOf(made).length, 1)
})

test('keys that are missing or unusable refuse to start, without showing what the file holds', async () => {
  const dir = await folder()
  const files = { keysFile: join(dir, 'keys.json'), jwksFile: join(dir, 'public.json'), create: false }
  await assert.rejects(loadKeys(files), /missing/)
  const es = newKey('ES256')
  for (const text of [
    '{"keys": [SECRET',
    '[]',
    '{"keys":[]}',
    JSON.stringify({ keys: [es] }),
    JSON.stringify({ keys: [es, es, newKey('RS256')] }),
    JSON.stringify({ keys: [{ kty: 'oct', k: 'SECRET', alg: 'HS256', kid: 'x' }] }),
  ]) {
    await writeFile(files.keysFile, text)
    await assert.rejects(
      loadKeys(files),
      (error: Error) => !error.message.includes('SECRET') && !error.message.includes(es.d),
    )
  }
})

test('the public half is written over an older one and over nothing else', async () => {
  const dir = await folder()
  const keysFile = join(dir, 'keys.json')
  const other = join(dir, 'other.json')
  await loadKeys({ keysFile, jwksFile: other, create: true })
  const keys = await readFile(keysFile, 'utf8')
  await assert.rejects(loadKeys({ keysFile, jwksFile: keysFile, create: false }), /AUTH_JWKS_FILE names a file/)
  assert.equal(await readFile(keysFile, 'utf8'), keys)
  for (const text of [
    '[{"name":"ACME"}]',
    '{"a":["http://node"]}',
    'hash mira operator\n',
    'null',
    '{"keys":[null]}',
  ]) {
    await writeFile(other, text)
    await assert.rejects(loadKeys({ keysFile, jwksFile: other, create: false }), /AUTH_JWKS_FILE names a file/)
    assert.equal(await readFile(other, 'utf8'), text)
  }
  for (const older of ['', JSON.stringify({ keys: [{ kty: 'EC', kid: 'old' }] })]) {
    await writeFile(other, older)
    await loadKeys({ keysFile, jwksFile: other, create: false })
    assert.equal(JSON.parse(await readFile(other, 'utf8')).keys.length, 2)
  }
  await assert.rejects(loadKeys({ keysFile: dir, jwksFile: other, create: false }), /AUTH_KEYS_FILE cannot be read \(EISDIR\)/) // prettier-ignore
  await assert.rejects(loadKeys({ keysFile, jwksFile: dir, create: false }), /AUTH_JWKS_FILE cannot be read \(EISDIR\)/) // prettier-ignore
})

test('a new signing key in front keeps the cookies of the old one valid', () => {
  const [old, fresh] = [newKey('ES256'), newKey('ES256')]
  assert.deepEqual(cookieKeysOf({ keys: [fresh, old] }).slice(1), cookieKeysOf({ keys: [old] }))
})

test('cookies are signed as they were before, with the newest key, and known by each; anything else is not', () => {
  const signer = openCookieSigner(['new key', 'old key'])
  const signed = 'TJW_aecfZdWrz5gJImwH9KGqNic'
  assert.equal(signer.sign('session=abc'), signed)
  assert.equal(signer.index('session=abc', signed), 0)
  assert.equal(signer.index('session=abc', openCookieSigner(['old key']).sign('session=abc')), 1)
  const others = [
    openCookieSigner(['third key']).sign('session=abc'),
    '',
    `${signed}=`,
    `${signed.slice(0, -1)}é`,
    'x'.repeat(9_000),
  ]
  for (const other of others) assert.equal(signer.index('session=abc', other), -1, other)
  assert.equal(signer.verify('session=abd', signed), false)
  assert.equal(signer.verify('session=abc', signed), true)
  assert.throws(() => openCookieSigner([]))
})

test('on https the browser guards our cookies', () => {
  const names = cookieNames('https://wallet.example')
  assert.ok(names.session.startsWith('__Host-') && names.browser.startsWith('__Host-'))
  assert.ok(names.interaction.startsWith('__Secure-') && names.resume.startsWith('__Secure-'))
  assert.notEqual(names.session.slice(-16), cookieNames('https://other.example').session.slice(-16))
})

const discord = { name: 'DISCORD', issuer: 'https://discord.example', clientId: 'id', clientSecret: 'hush' }
const read = async (content: unknown) => {
  const file = join(await folder(), 'providers.json')
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return readProviders(file)
}

test('providers are read with their defaults', async () => {
  const [provider] = await read([discord])
  assert.deepEqual(
    [provider?.label, provider?.subjectClaim, provider?.scopes, provider?.isDevelopment],
    ['DISCORD', 'sub', ['openid', 'profile', 'email'], false],
  )
})

test('a subject that people can change refuses to start', async () => {
  for (const subjectClaim of ['email', 'username', 'preferred_username', 'login', 'name', 'nickname', 'Email']) {
    await assert.rejects(read([{ ...discord, subjectClaim }]), /immutable/)
  }
})

test('every problem of the providers file is named at once, and no secret', async () => {
  await assert.rejects(
    read([
      { name: 'discord', issuer: 'http://x', clientSecret: 7, colour: 'red' },
      { ...discord, name: 'DEV' },
      { ...discord, name: 'APP_SHOP' },
      { ...discord, name: 'SPONSOR' },
      { ...discord, name: 'Sponsor' },
      { ...discord, name: 'sponsor' },
      discord,
      discord,
    ]),
    (error: Error) => {
      for (const part of [
        'upper-case',
        'https',
        'clientId is missing',
        'clientSecret',
        'colour',
        'DEV is reserved',
        'APP_SHOP is reserved',
        'SPONSOR is reserved',
        'Sponsor is reserved',
        'sponsor is reserved',
        'twice',
      ])
        assert.ok(error.message.includes(part), part)
      return !error.message.includes('hush')
    },
  )
  for (const content of ['{"hush', '[]', '{}', [7]])
    await assert.rejects(read(content), (error: Error) => !error.message.includes('hush'))
})

test('a provider name belongs to its issuer for ever; the development provider may move with its port', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const providers = await read([discord])
  await bindProviders(db, [...providers, developmentProvider('http://localhost:4000')])
  await bindProviders(db, [...providers, developmentProvider('http://localhost:5000')])
  await assert.rejects(
    bindProviders(db, [{ ...providers[0]!, issuer: 'https://evil.example' }]),
    /belongs to the issuer/,
  )
  await assert.rejects(bindProviders(db, [{ ...providers[0]!, isDevelopment: true }]), /belongs to the issuer/)
})

test('what has expired is swept, what has not stays', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const at = (hours: number) => new Date(Date.now() + hours * 3_600_000)
  const record = (id: string, hours: number) => ({
    kind: 'Session',
    id_hash: Buffer.from(id),
    payload: '{}',
    expires_at: at(hours),
  })
  await db
    .insertInto('oauth_records')
    .values([record('old', -2), record('late', -0.5), record('live', 1)])
    .execute()
  await db
    .insertInto('revoked_grants')
    .values([
      { grant_id: 'old', forget_at: at(-1) },
      { grant_id: 'live', forget_at: at(1) },
    ])
    .execute()
  assert.equal(await sweep(db), 2)
  assert.deepEqual((await sql<{ n: number }>`select count(*)::int as n from oauth_records`.execute(db)).rows, [
    { n: 2 },
  ])
  assert.equal(await sweep(db), 0)
})
