import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeBase64, encodeBase64, readWithSecret, writeWithSecret } from './secret-json.ts'

const bytes = fc.uint8Array({ minLength: 1, maxLength: 200 }).map((one) => Buffer.from(one))

test('base64 is that of RFC 4648, and is read in its one form only', () => {
  fc.assert(
    fc.property(bytes, (some) => {
      const text = some.toString('base64')
      assert.equal(encodeBase64(some).toString('latin1'), text)
      assert.deepEqual(decodeBase64(Buffer.from(text)), some)
    }),
  )
  for (const text of ['', 'a', 'ab', 'abc', 'ab=c', 'a===', '====', 'aGk', 'aGl=', 'aG k', 'aGk-', 'aGk=aGk='])
    assert.equal(decodeBase64(Buffer.from(text)), null, text)
})

test('a secret is written into an object and read from one without being in what is parsed, and the bytes that held it are wiped', () => {
  fc.assert(
    fc.property(bytes, fc.dictionary(fc.string(), fc.string()), (secret, fields) => {
      delete fields.secret
      const body = writeWithSecret({ field: 'secret', bytes: secret }, fields)
      assert.deepEqual(JSON.parse(body.toString('utf8')), { secret: secret.toString('base64'), ...fields })
      const read = readWithSecret(body, 'secret')
      assert.deepEqual(read.secret, secret)
      const { secret: place, ...others } = read.json as Record<string, string>
      assert.deepEqual({ ...others }, { ...fields })
      assert.match(place!, /^ +$/)
      assert.ok(body.every((byte) => byte === 0))
    }),
  )
})

test('a secret is found wherever it is, escaped too; where there are two, or none, or no base64, there is none', () => {
  const read = (text: string) => readWithSecret(Buffer.from(text), 'plaintext').secret?.toString() ?? null
  assert.equal(read('{"data":{ "plaintext" :\n "aGk=" }}'), 'hi')
  assert.equal(read('{"plaintext":"aGk\\u003d"}'), 'hi')
  assert.deepEqual(readWithSecret(Buffer.from('{"plaintext":"\\/\\u002b8="}'), 'plaintext').secret, Buffer.from('/+8=', 'base64')) // prettier-ignore
  assert.equal(read('{"said":"a \\"plaintext\\":\\"no\\"","plaintext":"aGk="}'), 'hi')
  for (const text of [
    '{"plaintext":"aGk=","more":{"plaintext":"aGk="}}',
    '{"plaintext":""}',
    '{"plaintext":7}',
    '{"plaintext":"?"}',
    '{"plaintext":"aGk=',
    '{}',
    'plaintext',
  ])
    // prettier-ignore
    assert.equal(read(text), text.endsWith('aGk=') ? 'hi' : null, text)
  assert.equal(readWithSecret(Buffer.from('{"plaintext":"aGk='), 'plaintext').json, null)
})
