import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { openOperatorDoor } from '../operator/auth.ts'

let folder: string
before(async () => void (folder = await mkdtemp(join(tmpdir(), 'chatelaine-operator-token-'))))
after(() => rm(folder, { recursive: true, force: true }))

const createToken = (file: string, ...words: string[]) =>
  command({ OPERATOR_TOKEN_FILE: file }, ['operator-token', 'create', ...words])
const createKeys = (keysFile: string) => command({ AUTH_KEYS_FILE: keysFile }, ['auth-keys', 'create'])
const doorOf = (file: string) => openOperatorDoor({ NODE_ENV: 'production', DATA_DIR: folder, OPERATOR_TOKEN_FILE: file }) // prettier-ignore

test('a token of the operator is shown once, and its file holds the hash', async () => {
  const file = join(folder, 'operators')
  const { out } = await createToken(file, '--name', 'mira', '--json')
  await createToken(file, '--name', 'vera', '--role', 'viewer')
  for (const wrong of [[], ['--name', 'two words'], ['--name', 'x', '--role', 'owner']])
    assert.equal((await createToken(file, ...wrong)).code, 1)
  const { token } = JSON.parse(out) as { token: string }
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  assert.equal(lines.length, 2)
  assert.ok(!lines.join().includes(token))
  assert.match(lines[1]!, /^[0-9a-f]{64} vera viewer$/)
  assert.deepEqual((await doorOf(file))!.whose(token), { name: 'mira', role: 'operator' })
  assert.equal((await command({}, ['operator-token', 'create', '--name', 'x'])).code, 1)
})

test('keys of the authorization server are made once and never written over', async () => {
  const keysFile = join(folder, 'keys', 'auth.json')
  assert.equal((await createKeys(keysFile)).code, 0)
  const keys = await readFile(keysFile, 'utf8')
  assert.equal((await stat(keysFile)).mode & 0o777, 0o600)
  assert.doesNotMatch(await readFile(join(folder, 'keys', 'auth.public.json'), 'utf8'), /"d"/)
  const second = await createKeys(keysFile)
  assert.deepEqual([second.code, await readFile(keysFile, 'utf8')], [1, keys])
  assert.equal((await command({}, ['auth-keys', 'create'])).code, 1)
})

test('a path that is wrong costs no file: keys and tokens are written over nothing else', async () => {
  const keysFile = join(folder, 'precious', 'auth.json')
  await createKeys(keysFile)
  const keys = await readFile(keysFile, 'utf8')
  const prepared = await command({ AUTH_KEYS_FILE: keysFile, AUTH_JWKS_FILE: keysFile }, ['auth-keys', 'prepare'])
  assert.deepEqual([prepared.code, /AUTH_JWKS_FILE names a file/.test(prepared.err)], [1, true])
  const added = await createToken(keysFile, '--name', 'mira')
  assert.deepEqual([added.code, /OPERATOR_TOKEN_FILE must hold lines/.test(added.err)], [1, true])
  assert.equal(await readFile(keysFile, 'utf8'), keys)

  const file = join(folder, 'edited')
  await writeFile(file, `${'0'.repeat(64)} vera viewer`)
  const { out } = await createToken(file, '--name', 'mira', '--json')
  const { token } = JSON.parse(out) as { token: string }
  assert.deepEqual((await doorOf(file))!.whose(token), { name: 'mira', role: 'operator' })
})
