import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ConfigError } from '../config.ts'
import { readSettings } from './settings.ts'

/** Settings that a signer in production starts with. */
const WHOLE = {
  ...{ SIGNER_SOCKET: '/run/signer.sock', SIGNER_DIR: '/var/lib/signer', SIGNER_KEK_FILE: '/etc/signer/kek' },
  ...{ SIGNER_ISSUER: 'https://a.example/oauth', SIGNER_AUDIENCE: 'https://a.example/v1', SIGNER_CHAINS: '1' },
}
type Changes = Partial<Record<string, string>>

const problemsOf = (env: Changes, isDevelopment = false): string[] => {
  try {
    readSettings(env, { isDevelopment })
    return []
  } catch (error) {
    return (error as ConfigError).problems
  }
}

test('settings that are missing are named all at once', () => {
  const named = (problems: string[]) => problems.map((problem) => problem.split(' ')[0])
  const always = ['SIGNER_SOCKET', 'SIGNER_DIR', 'SIGNER_ISSUER', 'SIGNER_AUDIENCE', 'SIGNER_KEK_FILE']
  assert.deepEqual(named(problemsOf({})), always)
  assert.deepEqual(named(problemsOf({}, true)), [...always, 'SIGNER_JWKS_FILE'])
  for (const problem of problemsOf({})) assert.match(problem, /^SIGNER_\w+ is missing: /)
  assert.deepEqual(problemsOf(WHOLE), [])
  assert.match(problemsOf({ ...WHOLE, SIGNER_CHAINS: '' }).join(), /^SIGNER_CHAINS is missing/)
})

test('whatever NODE_ENV says, without --development it is production', () => {
  for (const NODE_ENV of ['', 'development', 'test', 'production'])
    assert.equal(readSettings({ ...WHOLE, NODE_ENV }, { isDevelopment: false }).isDevelopment, false)
  const production = { ...WHOLE, SIGNER_JWKS_FILE: '/d', NODE_ENV: 'production' }
  assert.match(problemsOf(production, true).join(), /contradicts --development/)
})

test('production does not start without lists of revoked tokens, nor with a master key inside its store', () => {
  for (const [changes, sentence] of [
    [{ SIGNER_REVOCATIONS_SECONDS: '0' }, /SIGNER_REVOCATIONS_SECONDS cannot be 0/],
    [{ SIGNER_KEK_FILE: '/var/lib/signer/kek' }, /SIGNER_KEK_FILE must not be inside SIGNER_DIR/],
    [{ SIGNER_KEK_FILE: '/var/lib/signer/..kek' }, /SIGNER_KEK_FILE must not be inside SIGNER_DIR/],
    [{ SIGNER_KEK_NEXT_FILE: '/var/lib/signer/next' }, /SIGNER_KEK_NEXT_FILE must not be inside SIGNER_DIR/],
  ] as const)
    assert.match(problemsOf({ ...WHOLE, ...changes }).join(), sentence)
  assert.deepEqual(problemsOf({ ...WHOLE, SIGNER_KEK_FILE: '/var/lib/signer-kek' }), [])
})

test('issuer and audience are of one origin for one socket, and of two for a separate authorization server', () => {
  const separate = {
    ...WHOLE,
    SIGNER_AUTH_SOCKET: '/run/auth/signer.sock',
    SIGNER_ISSUER: 'https://sign-in.example/oauth',
  }
  assert.deepEqual(problemsOf(separate), [])
  const one = /must be PUBLIC_ORIGIN\/oauth and PUBLIC_ORIGIN\/v1 of one PUBLIC_ORIGIN/
  const two = /must be AUTH_ORIGIN\/oauth and PUBLIC_ORIGIN\/v1, two origins/
  for (const [env, sentence] of [
    [{ ...WHOLE, SIGNER_ISSUER: separate.SIGNER_ISSUER }, one],
    [{ ...WHOLE, SIGNER_AUDIENCE: 'https://a.example' }, one],
    [{ ...separate, SIGNER_ISSUER: WHOLE.SIGNER_ISSUER }, two],
    [{ ...separate, SIGNER_ISSUER: 'https://sign-in.example/more/oauth' }, two],
    [{ ...separate, SIGNER_AUDIENCE: 'https://a.example/v2' }, two],
  ] as const)
    assert.match(problemsOf(env).join(), sentence)
})

test('a master key that is named twice, wrongly or without its PIN is refused with the setting’s name', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-settings-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const pin = join(folder, 'pin')
  writeFileSync(pin, '1234\n', { mode: 0o600 })
  const { SIGNER_KEK_FILE: file, ...plain } = WHOLE
  for (const [changes, sentence] of [
    [{ SIGNER_KEK_FILE: file, SIGNER_KEK: `file:${file}` }, /^SIGNER_KEK and SIGNER_KEK_FILE are both set/],
    [{}, /^SIGNER_KEK_FILE is missing/],
    [{ SIGNER_KEK: 'keychain:x' }, /^SIGNER_KEK names no provider that is known/],
    [{ SIGNER_KEK: 'file:' }, /^SIGNER_KEK names no file/],
    [{ SIGNER_KEK: 'pkcs11:token=a;object=b?module-path=/m.so' }, /^SIGNER_KEK_PIN_FILE is missing/],
    [{ SIGNER_KEK_FILE: file, SIGNER_KEK_NEXT: 'pkcs11:token=a', SIGNER_KEK_NEXT_PIN_FILE: pin }, /^SIGNER_KEK_NEXT cannot be used: its module-path is missing/], // prettier-ignore
  ] as const)
    assert.match(problemsOf({ ...plain, ...changes }).join(), sentence)
})
