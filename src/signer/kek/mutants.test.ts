// tier: all, because each planted mistake runs a test file in a process of its own
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { noCertificates } from '../../../test/certificate.ts'

/** Mistakes that a client of a key service, or the shares of a key, could have: each in one place, and the tests that have to notice. */
const MUTANTS: [what: string, file: string, from: string, to: string, by: string, test?: string][] = [
  ['a redirect is an answer', 'service', 'status >= 300 && status < 400', 'status < 0', 'remote', 'vault: what goes wrong'],
  ['an answer has no bound', 'service', 'length > MAX_ANSWER_BYTES', 'length < 0', 'remote', 'aws-kms: what goes wrong'],
  ['what failed is not tried again', 'service', 'attempt === MAX_ATTEMPTS', 'attempt > 0', 'remote', 'gcp-kms: what goes wrong'],
  ['http: is for every host', 'remote-uri', '!isLoopback(url.hostname)', 'false', 'remote', 'settings that name'],
  ['a certificate need not be good', 'service', 'rejectUnauthorized: true', 'rejectUnauthorized: false', 'vault', 'over TLS'],
  ['a secret that is there twice is the last one', 'secret-json', 'if (count === 1) return found', 'return found', 'secret-json'],
  ['an answer is not wiped', 'secret-json', "  } finally {\n    body.fill(0)\n  }", '  } finally {\n  }', 'secret-json'],
  ['a key that may leave Vault is taken', 'vault', 'exportable !== false || ', '', 'vault', 'may leave Vault'],
  ['nobody asks whether Vault binds', 'vault', 'isBound ||= await isBinding(wrapped, aad)', 'isBound = true', 'vault', 'may leave Vault'],
  ['Vault binds to nothing', 'vault', "{ associated_data: aad.toString('base64') }", "{ associated_data: '' }", 'remote', 'vault: a key wraps'],
  ['AWS binds to nothing', 'aws-kms', "{ [CONTEXT]: aad.toString('base64') }", "{ [CONTEXT]: '' }", 'remote', 'aws-kms: a key wraps'],
  ['an answer for another key of AWS is used', 'aws-kms', 'json.KeyId !== arn || ', '', 'aws-kms', 'another key'],
  ['a session is not signed', 'aws-signature', "{ 'x-amz-security-token': sessionToken }", '{}', 'aws-kms', 'published'],
  ['headers are signed as they come', 'aws-signature', 'Object.keys(all).toSorted()', 'Object.keys(all)', 'aws-kms', 'published'],
  ['a checksum of what came is not looked at', 'gcp-kms', 'String(sum) === String(crc32c(ciphertext))', 'true', 'gcp-kms', 'checksum does not fit'],
  ['Google need not say that it looked', 'gcp-kms', 'json.verifiedAdditionalAuthenticatedDataCrc32c === true', 'true', 'gcp-kms', 'checksum does not fit'],
  ['a data key with a wrong checksum is used', 'gcp-kms', 'if (String(json.plaintextCrc32c) === String(crc32c(secret))) return secret', 'return secret', 'gcp-kms', 'checksum does not fit'],
  ['a revoked token is used on', 'gcp-kms', 'answer.status === 401 && tokens.forget()', 'answer.status === 0', 'gcp-kms', 'one access token'],
  ['an assertion is for anyone', 'gcp-token', 'aud: tokenUri.href', "aud: ''", 'gcp-kms', 'one access token'],
  ['a share says the key', 'shares', 'sum, index + 1) ^ one[at]!, 0)', 'sum, index) ^ one[at]!, 0)', 'shares', 'coefficients that are known'],
  ['all coefficients are the same', 'shares', 'Array.from({ length: need - 1 }, () => random(secret.length))', 'Array(need - 1).fill(random(secret.length))', 'shares', 'coefficients that are known'],
  ['a wrong key passes its check', 'shares', 'timingSafeEqual(checkOf(key, set), secret.subarray(KEY_BYTES))', 'key.length === 32', 'shares', 'two sets'],
  ['a mistake in typing passes', 'shares', '!sumOf(head).equals(bytes.subarray(-SUM_BYTES))', 'false', 'shares', 'mistake in typing'],
] // prettier-ignore

suite('mutants of the key services and of shares', { concurrency: false }, () => {
  const root = fileURLToPath(new URL('../../..', import.meta.url))
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'kek-mutants-'))
    for (const name of ['src', 'test', 'package.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  })
  after(() => rmSync(folder, { recursive: true }))

  for (const [what, file, from, to, by, only = '.'] of MUTANTS)
    test(`${what}: noticed by ${by}.test.ts`, { skip: only === 'over TLS' && noCertificates }, () => {
      const path = join(folder, 'src/signer/kek', `${file}.ts`)
      const text = readFileSync(path, 'utf8')
      assert.equal(text.split(from).length, 2, `${from} is in ${file}.ts once`)
      writeFileSync(
        path,
        text.replace(from, () => to),
      )
      try {
        const { NODE_TEST_CONTEXT: _, ...env } = process.env
        const run = spawnSync(process.execPath, ['--test', `--test-name-pattern=${only}`, join(folder, `src/signer/kek/${by}.test.ts`)], { env, encoding: 'utf8' }) // prettier-ignore
        assert.equal(run.status, 1, 'no test failed')
        // A program that does not load is no mutant.
        assert.doesNotMatch(run.stdout, /SyntaxError|ERR_MODULE_NOT_FOUND|ReferenceError/)
        assert.match(run.stdout, /Error/, run.stdout.slice(-2_000))
      } finally {
        writeFileSync(path, text)
      }
    })
})
