import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { PIN, skip, softHsm } from '../../../test/softhsm.ts'
import { openPkcs11, whyNoTry } from './pkcs11.ts'
import { readPkcs11Uri } from './pkcs11-uri.ts'
import { KekUnavailable } from './provider.ts'

const hsm = softHsm({ after: (end) => process.on('exit', end) })
const [DEK, AAD] = [randomBytes(32), Buffer.from('chatelaine data key 1')]

function setting(t: { after: (end: () => void) => void }, uri: string, pinFile = hsm.pinFile) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-pin-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return { provider: 'pkcs11' as const, uri: readPkcs11Uri(uri), pinFile, pinSetting: 'SIGNER_KEK_PIN_FILE', folder }
}

const says = (sentence: RegExp) => (error: unknown) =>
  error instanceof KekUnavailable && sentence.test(error.message) && !error.message.includes(PIN)

test('a key in a token wraps data keys, and opens what it wrapped and nothing else', { skip }, async (t) => {
  hsm.makeToken('one')
  hsm.makeToken('two')
  const kek = await openPkcs11(setting(t, hsm.uri('one')))
  const wrapped = await kek.wrap(DEK, AAD)
  assert.equal(wrapped.length, 12 + 32 + 16)
  assert.ok(!wrapped.includes(DEK.subarray(0, 8)))
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  assert.notDeepEqual(await kek.wrap(DEK, AAD), wrapped)
  // Another process opens it, with a session of its own.
  assert.deepEqual(await (await openPkcs11(setting(t, hsm.uri('one')))).unwrap(wrapped, AAD), DEK)
  const isOther = (error: unknown) => error instanceof Error && !(error instanceof KekUnavailable)
  for (let at = 0; at < wrapped.length; at += 7) {
    const bent = Buffer.from(wrapped)
    bent[at]! ^= 1
    await assert.rejects(kek.unwrap(bent, AAD), isOther, `byte ${at}`)
  }
  await assert.rejects(kek.unwrap(wrapped, Buffer.from('chatelaine data key 2')), isOther)
  await assert.rejects(kek.unwrap(wrapped.subarray(0, 20), AAD), isOther)
  const stranger = await openPkcs11(setting(t, hsm.uri('two')))
  await assert.rejects(stranger.unwrap(wrapped, AAD), isOther)
  // After all of that it still works, many at once too.
  const many = await Promise.all(Array.from({ length: 20 }, () => kek.unwrap(wrapped, AAD)))
  assert.ok(many.every((one) => one.equals(DEK)))
})

test('a wrong PIN is tried once, by no later start either, until the operator says so', { skip }, async (t) => {
  hsm.makeToken('careful')
  const wrong = join(hsm.folder, 'wrong-pin')
  writeFileSync(wrong, '11112222\n', { mode: 0o600 })
  const there = setting(t, hsm.uri('careful'), wrong)
  await assert.rejects(openPkcs11(there), says(/rejected the PIN in SIGNER_KEK_PIN_FILE \(CKR_PIN_INCORRECT\)/))
  writeFileSync(wrong, `${PIN}\n`)
  await assert.rejects(openPkcs11(there), says(/does not retry, because tokens lock/))
  const [mark] = readdirSync(there.folder)
  assert.match(mark!, /^pin-refused-/)
  rmSync(join(there.folder, mark!))
  const kek = await openPkcs11(there)
  assert.deepEqual(await kek.unwrap(await kek.wrap(DEK, AAD), AAD), DEK)
})

test('a token that would lock, or has locked, is not asked', () => {
  const library = { CKF_USER_PIN_FINAL_TRY: 0x2_0000, CKF_USER_PIN_LOCKED: 0x4_0000 }
  assert.equal(whyNoTry(library, 0x1_0000), null)
  assert.match(whyNoTry(library, 0x3_0000)!, /locks at the next wrong PIN/)
  assert.match(whyNoTry(library, 0x4_0000)!, /has locked/)
})

test(
  'a key that may leave its token, another one or none is refused, and so is a token that is not there',
  { skip },
  async (t) => {
    hsm.makeToken('odd', [
      { label: 'loose', mayLeave: true },
      { label: 'short', bits: 128 },
      { label: 'twin' },
      { label: 'twin' },
    ])
    for (const [uri, sentence] of [
      [hsm.uri('odd', 'loose'), /can be exported/],
      [hsm.uri('odd', 'short'), /not an AES key of 256 bits/],
      [hsm.uri('odd', 'twin'), /more than one key/],
      [hsm.uri('odd', 'absent'), /matches no key/],
      [hsm.uri('nowhere'), /matches no token/],
      ['pkcs11:token=odd;object=loose?module-path=/nowhere/module.so', /module \/nowhere\/module\.so cannot be loaded/],
    ] as const)
      await assert.rejects(openPkcs11(setting(t, uri)), says(sentence), uri)
  },
)

test('a PIN file that is open to others, empty or missing is not used', { skip }, async (t) => {
  hsm.makeToken('strict')
  const file = join(hsm.folder, 'open-pin')
  writeFileSync(file, PIN)
  chmodSync(file, 0o644)
  await assert.rejects(openPkcs11(setting(t, hsm.uri('strict'), file)), says(/readable by every user/))
  writeFileSync(file, '')
  chmodSync(file, 0o600)
  await assert.rejects(openPkcs11(setting(t, hsm.uri('strict'), file)), says(/not empty/))
  await assert.rejects(openPkcs11(setting(t, hsm.uri('strict'), `${file}-none`)), says(/cannot be read/))
  assert.ok(existsSync(hsm.pinFile))
})

test('a token that is taken out says so, and is used again when it is back', { skip }, async (t) => {
  hsm.makeToken('loose-contact')
  const kek = await openPkcs11(setting(t, hsm.uri('loose-contact')))
  const wrapped = await kek.wrap(DEK, AAD)
  hsm.takeOut()
  await assert.rejects(kek.wrap(DEK, AAD), KekUnavailable)
  await assert.rejects(kek.unwrap(wrapped, AAD), KekUnavailable)
  hsm.putIn()
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
})

test('a URI names a module, a token and a key, and nothing that is not understood', () => {
  const { token, object, modulePath } = readPkcs11Uri('pkcs11:token=My%20token;serial=9a;slot-id=3;id=%01%ff;type=secret-key?module-path=/usr/lib/p.so') // prettier-ignore
  assert.deepEqual([token, modulePath], [{ label: 'My token', serial: '9a', slotId: 3 }, '/usr/lib/p.so'])
  assert.deepEqual(object, { id: Buffer.from('01ff', 'hex') })
  const module = '?module-path=/m.so'
  for (const [text, sentence] of [
    ['file:/kek', /no pkcs11: URI/],
    ['pkcs11:token=a;object=b', /module-path is missing/],
    [`pkcs11:object=b${module}`, /names no token/],
    [`pkcs11:token=a${module}`, /names no key/],
    [`pkcs11:token=a;token=c;object=b${module}`, /token twice/],
    [`pkcs11:token=a;object=b;x-who=c${module}`, /x-who is not known/],
    [`pkcs11:token=a;object=b;type=private${module}`, /type is not secret-key/],
    [`pkcs11:token=a;object=b;slot-id=x${module}`, /slot-id is no number/],
    [`pkcs11:token=a;object=%4${module}`, /two hexadecimal digits/],
    [`pkcs11:token;object=b${module}`, /not name=value/],
    ['pkcs11:token=a;object=b?module-path=m.so', /no absolute path/],
    [`pkcs11:token=a;object=b${module}&pin-value=${PIN}`, /belongs in a file/],
    [`pkcs11:token=a;object=b${module}&pin-source=file:/pin`, /belongs in a file/],
  ] as const)
    assert.throws(
      () => readPkcs11Uri(text),
      (error) => sentence.test((error as Error).message) && !(error as Error).message.includes(PIN),
      text,
    )
})
