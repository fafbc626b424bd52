import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { gcpKmsStandIn } from '../../../test/key-services/gcp-kms.ts'
import { openNamed, secretFiles } from '../../../test/key-services/opened.ts'
import { crc32c } from './crc32c.ts'
import { KekUnavailable } from './provider.ts'

const [DEK, AAD] = [randomBytes(32), Buffer.from('chatelaine data key 1')]

async function world(t: { after: (end: () => void | Promise<void>) => void }) {
  const gcp = await gcpKmsStandIn(t)
  const credentialsFile = secretFiles(t).put('account.json', gcp.credentials())
  return { gcp, credentialsFile, kek: await openNamed(gcp.uri, { credentialsFile }) }
}

test('checksums are those of RFC 3720', () => {
  assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283)
  assert.equal(crc32c(Buffer.alloc(32)), 0x8a9136aa)
  assert.equal(crc32c(Buffer.alloc(32, 0xff)), 0x62a8ab43)
  assert.equal(crc32c(Buffer.from(Array.from({ length: 32 }, (_, n) => n))), 0x46dd794e)
})

test('one access token serves many calls; one that was revoked is exchanged for another, once', async (t) => {
  const { gcp, kek } = await world(t)
  const wrapped = await kek.wrap(DEK, AAD)
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.equal(gcp.exchanges(), 1)
  gcp.tokens.clear()
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.equal(gcp.exchanges(), 2)
  assert.deepEqual(gcp.faults, [])
})

test('an access token is not used in its last minute', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const { gcp, kek } = await world(t)
  const wrapped = await kek.wrap(DEK, AAD)
  t.mock.timers.setTime(Date.now() + 3_530_000)
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.equal(gcp.exchanges(), 1)
  t.mock.timers.setTime(Date.now() + 10_000)
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.equal(gcp.exchanges(), 2)
})

test('the key of another service account gets no token, and one that took its place in the file does', async (t) => {
  const { gcp, kek, credentialsFile } = await world(t)
  const wrapped = await kek.wrap(DEK, AAD)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const right = gcp.credentials()
  writeFileSync(credentialsFile, gcp.credentials(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()))
  await assert.rejects(
    kek.unwrap(wrapped, AAD),
    /issued no access token \(status 400\): the key in SIGNER_KEK_CREDENTIALS_FILE/,
  )
  writeFileSync(credentialsFile, right)
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  writeFileSync(
    credentialsFile,
    right.replace(/"token_uri":"http:\/\/127.0.0.1:\d+/, '"token_uri":"http://oauth2.example'),
  )
  await assert.rejects(kek.unwrap(wrapped, AAD), /must be the key of a service account .* an https token_uri/)
})

test('an access token that something else renews is read from its file at each use', async (t) => {
  const gcp = await gcpKmsStandIn(t)
  gcp.tokens.add('ya29.by-hand')
  const tokenFile = secretFiles(t).put('token', 'ya29.by-hand\n')
  const kek = await openNamed(gcp.uri, { tokenFile })
  const wrapped = await kek.wrap(DEK, AAD)
  gcp.tokens.clear()
  gcp.tokens.add('ya29.renewed')
  await assert.rejects(kek.unwrap(wrapped, AAD), /the token from SIGNER_KEK_TOKEN_FILE is wrong or has expired/)
  writeFileSync(tokenFile, 'ya29.renewed')
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.deepEqual([gcp.exchanges(), gcp.faults], [0, []])
})

test('bytes whose checksum does not fit are asked for again, and never used', async (t) => {
  const { gcp, kek } = await world(t)
  const wrapped = await kek.wrap(DEK, AAD)
  gcp.misbehave('spoils a checksum', 2)
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  gcp.misbehave('spoils a checksum', 2)
  assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
  gcp.misbehave('spoils a checksum')
  for (const use of [kek.wrap(DEK, AAD), kek.unwrap(wrapped, AAD)])
    await assert.rejects(use, (error) => error instanceof KekUnavailable && /checksum \(CRC32C\)/.test(error.message))
  for (const field of ['verifiedPlaintextCrc32c', 'verifiedAdditionalAuthenticatedDataCrc32c', 'ciphertextCrc32c']) {
    gcp.misbehave('answers without', Number.POSITIVE_INFINITY, field)
    await assert.rejects(kek.wrap(DEK, AAD), /checksum \(CRC32C\)/, field)
  }
  gcp.misbehave('answers without', Number.POSITIVE_INFINITY, 'plaintextCrc32c')
  await assert.rejects(kek.unwrap(wrapped, AAD), /checksum \(CRC32C\)/)
})

test('a version of the key that is disabled, and an answer for another key, are refused; other versions open', async (t) => {
  const { gcp, kek } = await world(t)
  const first = await kek.wrap(DEK, AAD)
  gcp.key.rotate()
  const second = await kek.wrap(DEK, AAD)
  gcp.disabled.add(1)
  await assert.rejects(kek.unwrap(first, AAD), /is disabled or destroyed \(FAILED_PRECONDITION\)/)
  assert.deepEqual(await kek.unwrap(second, AAD), DEK)
  gcp.misbehave('answers for another key')
  await assert.rejects(kek.wrap(DEK, AAD), /for another key/)
})
