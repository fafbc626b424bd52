import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { IMPATIENT, keyServices, openNamed, type KeyService } from '../../../test/key-services/opened.ts'
import type { Misbehaviour } from '../../../test/key-services/server.ts'
import { KekUnavailable } from './provider.ts'

const [DEK, AAD] = [randomBytes(32), Buffer.from('chatelaine data key 1\0\xff', 'latin1')]
const open = (service: KeyService) => openNamed(service.uri, service.files)

/** A refusal in so many words, and none of the service's secrets, nor the data key, in it or below it. */
const says =
  (sentence: RegExp, { secrets }: KeyService) =>
  (error: unknown) => {
    assert.ok(error instanceof KekUnavailable, String(error))
    assert.match(error.message, sentence)
    const all = `${error.stack} ${JSON.stringify(error)} ${String((error.cause as Error | undefined)?.stack)}`
    for (const secret of [...secrets, DEK.toString('base64'), DEK.toString('hex')]) assert.ok(!all.includes(secret))
    return true
  }
const isNotItsOwn = (error: unknown) => error instanceof Error && !(error instanceof KekUnavailable)

for (const [name, start] of Object.entries(keyServices)) {
  test(`${name}: a key wraps data keys, and opens what it wrapped and nothing else`, async (t) => {
    const service = await start(t)
    const kek = await open(service)
    const wrapped = await kek.wrap(DEK, AAD)
    assert.ok(
      !wrapped.includes(DEK.subarray(0, 8)) &&
        !wrapped.toString('latin1').includes(DEK.toString('base64').slice(0, 16)),
    )
    assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
    assert.notDeepEqual(await kek.wrap(DEK, AAD), wrapped)
    // Another process opens it.
    assert.deepEqual(await (await open(service)).unwrap(wrapped, AAD), DEK)
    await assert.rejects(kek.unwrap(wrapped, Buffer.from('chatelaine data key 2')), isNotItsOwn)
    const bent = Buffer.from(wrapped)
    bent[wrapped.length - 5]! ^= 1
    await assert.rejects(kek.unwrap(bent, AAD), isNotItsOwn)
    const stranger = await start(t)
    await assert.rejects((await open(stranger)).unwrap(wrapped, AAD), isNotItsOwn)
    const many = await Promise.all(Array.from({ length: 10 }, () => kek.unwrap(wrapped, AAD)))
    assert.ok(many.every((one) => one.equals(DEK)))
    assert.deepEqual([...service.faults, ...stranger.faults], [])
  })

  test(`${name}: what an older version of the key wrapped opens`, async (t) => {
    const service = await start(t)
    const kek = await open(service)
    const wrapped = await kek.wrap(DEK, AAD)
    service.key.rotate()
    assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
    assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
    assert.equal(kek.isVersioned, true)
  })

  const refusals: [how: Misbehaviour, sentence: RegExp, attempts: number][] = [
    ['hangs up', /cannot be reached \(ECONNRESET\)/, 3],
    ['breaks off', /broke off its answer/, 3],
    ['redirects', /redirect \(307\), which is not followed/, 1],
    ['answers too much', /more than 65536 bytes/, 1],
    ['answers nothing', /response of .* is incomplete/, 1],
    ['answers no JSON', /response of .* is incomplete/, 1],
    ['fails', /answered with status 503/, 3],
    ['throttles', /too often \(throttled\)/, 3],
    ['denies', /denies access/, 1],
    ['has no such key', /does not have the key/, 1],
    ...(name === 'vault' ? [] : [['is disabled', /is disabled/, 1] as [Misbehaviour, RegExp, number]]),
  ]
  test(`${name}: what goes wrong is refused in so many words, repeated where that may help, and used again when it is over`, async (t) => {
    const service = await start(t)
    const kek = await open(service)
    const wrapped = await kek.wrap(DEK, AAD)
    for (const [how, sentence, attempts] of refusals)
      for (const use of [() => kek.wrap(DEK, AAD), () => kek.unwrap(wrapped, AAD)]) {
        service.misbehave(how)
        const before = service.received.length
        await assert.rejects(use(), says(sentence, service), how)
        assert.equal(service.received.length - before, attempts, how)
        service.behave()
      }
    await service.leave()
    await assert.rejects(kek.unwrap(wrapped, AAD), says(/cannot be reached \(ECONNREFUSED\)/, service))
    await service.comeBack()
    assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
    // Twice for a moment only.
    service.misbehave('throttles', 2)
    assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
    service.misbehave('fails', 2)
    assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
    assert.deepEqual(service.faults, [])
  })

  test(`${name}: one that does not answer is waited for so long and no longer`, async (t) => {
    const service = await start(t)
    await (await open(service)).wrap(DEK, AAD)
    service.misbehave('hangs')
    await assert.rejects(openNamed(service.uri, service.files, IMPATIENT).then((kek) => kek.wrap(DEK, AAD)), says(/does not answer/, service)) // prettier-ignore
  })

  test(`${name}: what opens it is in a file that nobody else reads, and is read at each use`, async (t) => {
    const service = await start(t)
    const kek = await open(service)
    const wrapped = await kek.wrap(DEK, AAD)
    const [setting, file] = Object.entries(service.files)[0] as [string, string]
    const named = setting === 'tokenFile' ? /SIGNER_KEK_TOKEN_FILE/ : /SIGNER_KEK_CREDENTIALS_FILE/
    chmodSync(file, 0o644)
    await assert.rejects(kek.unwrap(wrapped, AAD), says(/readable by every user/, service))
    chmodSync(file, 0o600)
    assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
    for (const content of [
      '',
      '\x01\x02\x03',
      'two words',
      '{"type":"authorized_user"}',
      '[default]\naws_access_key_id = A\n',
    ]) {
      writeFileSync(file, content)
      await assert.rejects(kek.wrap(DEK, AAD), (error: Error) => error instanceof KekUnavailable && (named.test(error.message) || /denies access/.test(error.message))) // prettier-ignore
    }
  })
}

test('settings that name a key service wrongly, and files that it lacks, are refused by the name of the setting', async () => {
  const key = 'projects/p/locations/l/keyRings/r/cryptoKeys/k'
  const arn = 'arn:aws:kms:eu-central-1:111122223333:key/mrk-1'
  for (const [text, files, sentence] of [
    ['vault:http://vault.example/v1/transit/keys/kek', {}, /SIGNER_KEK cannot be used: its address is http:/],
    ['vault:https://me:secret@vault.example/v1/transit/keys/kek', {}, /holds a name or a password/],
    ['vault:ftp://vault.example/v1/transit/keys/kek', {}, /names no https/],
    ['vault:https://vault.example/v1/transit/kek', {}, /its path is not/],
    ['vault:https://vault.example/v1/transit/keys/kek?token=hvs.x', {}, /its part token is not known/],
    ['vault:https://vault.example/v1/transit/keys/kek?namespace=a%0d%0ab', {}, /its namespace/],
    ['vault:https://vault.example/v1/transit/keys/kek', {}, /SIGNER_KEK_TOKEN_FILE is missing/],
    ['vault+unix:run/agent.sock:/v1/transit/keys/kek', {}, /is not vault\+unix/],
    ['aws-kms:arn:aws:kms:eu-central-1:111122223333:alias/kek', {}, /the ARN of a key and not of an alias/],
    [`aws-kms:${arn}`, {}, /SIGNER_KEK_CREDENTIALS_FILE is missing/],
    [`aws-kms:${arn}?endpoint=http://kms.example`, {}, /its address is http:/],
    [`aws-kms:${arn}?endpoint=https://kms.example/path`, {}, /its endpoint has a path/],
    [`aws-kms:${arn}?profile=a&profile=b`, {}, /says profile twice/],
    [`aws-kms:${arn}?secret=a`, {}, /its part secret is not known/],
    [`aws-kms:${arn.replace(':aws:', ':aws-iso:')}`, {}, /add endpoint=/],
    [`gcp-kms:${key}/cryptoKeyVersions/1`, {}, /is not gcp-kms/],
    [`gcp-kms:${key}`, {}, /one of them/],
    [`gcp-kms:${key}`, { credentialsFile: 'a', tokenFile: 'b' }, /one of them/],
    [`gcp-kms:${key}?endpoint=http://10.0.0.1`, {}, /its address is http:/],
  ] as const)
    await assert.rejects(openNamed(text, files), sentence, text)
})
