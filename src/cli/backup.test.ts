// tier: all, because it restores whole installations
// embedded, because a restored folder of the database has its own mode and refusals
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { command, type Ended } from '../../test/kit/command.ts'
import { emptyPostgres, migratedFolder, migratedPostgres, testCluster, testPooler } from '../../test/kit/database.ts'
import { inside } from '../../test/snapshot-stage.ts'
import { makeIdentity } from '../backup/age.ts'
import { lockFolder } from '../folder-lock.ts'
import type { DatabasePlace } from '../store/copy.ts'
import { fromHex } from '../hex.ts'

/** Secrets that no output and no file may have in clear, in any of their forms. */
const CANARIES = {
  authKey: 'canary-auth-key-4be1',
  provider: 'canary-provider-77ab',
  providerFile: 'canary-provider-file-0c2d',
  node: 'canary-node-91f3',
  operator: 'canary-operator-a01e',
  setting: 'canary-setting-5d52',
  email: 'canary-mail@secret.example',
  record: 'canary-oauth-record-3c11',
  wrapped: 'canary-wrapped-key-0001',
}

function assertNoCanary(where: string, text: string | Buffer): void {
  const bytes = Buffer.from(text)
  for (const [name, canary] of Object.entries(CANARIES)) {
    const raw = Buffer.from(canary)
    for (const form of [canary, raw.toString('hex'), raw.toString('base64').slice(0, -4)])
      assert.ok(!bytes.includes(form), `${name} is in ${where}`)
  }
}

/** An installation as an operator has one: settings, files, a database with a person. */
async function house(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-backup-cli-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const at = (name: string) => join(folder, name)
  for (const name of ['secrets', 'backup', 'data']) mkdirSync(at(name))
  const { identity, recipient } = makeIdentity()
  const other = makeIdentity()
  const files = {
    'auth-keys.json': JSON.stringify({ keys: [CANARIES.authKey] }),
    'auth-keys.public.json': '{"keys":[]}',
    'providers.json': JSON.stringify([{ name: 'ACME', clientSecret: CANARIES.provider }, { name: 'APPLE', privateKeyFile: 'apple.p8' }]), // prettier-ignore
    'apple.p8': CANARIES.providerFile,
    'networks.json': JSON.stringify({ sepolia: [`https://node.example/${CANARIES.node}`] }),
    operators: `${CANARIES.operator} mira operator\n`,
    'known-tokens.json': '{"1:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48":{"symbol":"USDC"}}',
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(at(`secrets/${name}`), content, { mode: 0o600 })
  writeFileSync(at('identity'), `# a comment\n${identity}\n`, { mode: 0o600 })
  writeFileSync(at('other'), other.identity, { mode: 0o600 })
  writeFileSync(at('open'), identity, { mode: 0o644 })
  const settings: Record<string, string> = {
    DATA_DIR: at('data'),
    AUTH_KEYS_FILE: at('secrets/auth-keys.json'),
    PROVIDERS_FILE: at('secrets/providers.json'),
    NETWORKS_FILE: at('secrets/networks.json'),
    OPERATOR_TOKEN_FILE: at('secrets/operators'),
    KNOWN_TOKENS_FILE: at('secrets/known-tokens.json'),
    RPC_URL: `https://node.example/${CANARIES.setting}`,
  }
  const clean: Record<string, string> = { DATA_DIR: at('clean') }
  if (testCluster === null) await migratedFolder(at('data/db'))
  else
    for (const [to, open] of [
      [settings, migratedPostgres],
      [clean, emptyPostgres],
    ] as const) {
      const { url, drop } = await open(testCluster)
      t.after(drop)
      Object.assign(to, { DATABASE_URL: url, DATABASE_POOLER: testPooler })
    }
  const placeOf = (to: Record<string, string>): DatabasePlace =>
    to.DATABASE_URL === undefined ? { dir: join(to.DATA_DIR!, 'db') } : { url: to.DATABASE_URL, pooler: testPooler }
  await inside(placeOf(settings), async ({ query }) => {
    await query(`insert into accounts (account_id, user_id, address) values ('11111111-1111-4111-8111-111111111111', 'X-1', '\\x01')`) // prettier-ignore
    await query(`insert into identities (provider, subject, account_id, username, email) values ('X', '1', '11111111-1111-4111-8111-111111111111', 'x', $1)`, [CANARIES.email]) // prettier-ignore
    await query(`insert into oauth_records (kind, id_hash, payload) values ('Session', '\\x02', $1)`, [JSON.stringify({ it: CANARIES.record })]) // prettier-ignore
    await query(`insert into wrapped_data_keys values ('\\x01', 1, 'file', '\\x01', now())`)
    await query(`insert into wrapped_keys values ('X-1', '\\x01', 1, '\\x01', $1, '\\x', '\\x')`, [fromHex(`0x${Buffer.from(CANARIES.wrapped).toString('hex')}`)]) // prettier-ignore
  })
  const seen: Ended[] = []
  const run = async (words: string[], more: Record<string, string> = {}, of = settings): Promise<Ended> => {
    const ended = await command({ ...of, ...more }, words)
    seen.push(ended)
    return ended
  }
  const backup = (to: string, more: Record<string, string> = {}, ...words: string[]) =>
    run(['backup', '--to', to, '--recipient', recipient, ...words], more)
  return { at, settings, clean, placeOf, recipient, other, seen, run, backup, files }
}

test('an operator backs up, tries and restores an installation; no secret is in a file, an answer or an error', async (t) => {
  const { at, clean, placeOf, recipient, other, seen, run, backup, files } = await house(t)
  const file = at('backup/1.age')
  const made = await run(['backup', '--to', file, '--recipient', recipient, '--recipient', other.recipient])
  assert.deepEqual([made.code, made.err], [0, ''])
  assert.match(made.out, /1 accounts, .*\n.*auth-keys\.json, auth-keys\.public\.json, providers\.json, networks\.json, operators, known-tokens\.json, provider-1-apple\.p8, settings\.env/) // prettier-ignore
  for (const path of [file, `${file}.json`]) assert.equal(statSync(path).mode & 0o777, 0o600)
  const said = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as { rows: Record<string, number>; sha256: string }
  assert.deepEqual([said.rows.accounts, said.rows.identities], [1, 1])

  // Each of the recipients opens it.
  const tried = await run(['drill', file, '--identity', at('identity')], {}, clean)
  assert.deepEqual([tried.code, tried.err], [0, ''])
  assert.match(tried.out, /restores everything that it lists; the signer does not attest 1 of its addresses\.\n$/)
  const restored = await run(['restore', file, '--identity', at('other'), '--files', at('restored')], {}, clean)
  assert.deepEqual([restored.code, restored.err], [0, ''])
  assert.match(restored.out, /^Restored: 1 accounts, /)
  // Its files are open to whoever enters the folder.
  if (testCluster === null) assert.equal(statSync(at('clean/db')).mode & 0o077, 0)
  for (const [name, content] of Object.entries(files))
    assert.equal(readFileSync(at(`restored/${name === 'apple.p8' ? 'provider-1-apple.p8' : name}`), 'utf8'), content)
  const settings = readFileSync(at('restored/settings.env'), 'utf8')
  assert.match(settings, /^RPC_URL='https:\/\/node\.example\/canary-setting-5d52'$/m)
  assert.doesNotMatch(settings, /DATABASE_URL/)
  const people = await inside(placeOf(clean), ({ query }) => query('select email from identities'))
  assert.deepEqual(people, [{ email: CANARIES.email }])

  // What is refused leaves no trace, says what it is, and says no secret.
  const whole = readFileSync(file)
  const again = (path: string, ...words: string[]) => run(['restore', path, ...words], {}, { DATA_DIR: at('third') })
  for (const [refused, pattern] of [
    [await again(file, '--identity', at('none'), '--without-files'), /identity file cannot be opened: --identity\. Nothing was restored\./], // prettier-ignore
    [await again(file, '--identity', at('open'), '--without-files'), /identity file is readable by every user/],
    [
      await again(file, '--identity', at('secrets/providers.json'), '--without-files'),
      /must contain a line AGE-SECRET-KEY-1/,
    ],
    [await again(file, '--identity', at('identity')), /Give --files FOLDER for the files, or --without-files/],
  ] as const) {
    assert.equal(refused.code, 1)
    assert.match(refused.err, pattern)
    assert.equal(refused.err.trim().split('\n').length, 1, refused.err)
  }
  assert.ok(!existsSync(at('third')))
  assertNoCanary('the backup', whole)
  assertNoCanary('the file beside it', readFileSync(`${file}.json`))
  assert.equal((await backup(file)).code, 1)
  assert.deepEqual(readFileSync(file), whole)
  for (const { out, err } of seen) assertNoCanary('an answer', out + err)
})

test('a backup is refused where the master key or its database lies, and without what it needs', async (t) => {
  const { at, settings, backup, run, recipient } = await house(t)
  const kek = randomBytes(32)
  mkdirSync(at('kek'))
  writeFileSync(at('kek/kek'), kek, { mode: 0o600 })
  mkdirSync(at('copy'))
  writeFileSync(at('copy/harmless.txt'), kek)
  mkdirSync(at('above/below'), { recursive: true })
  writeFileSync(at('above/below/kek'), randomBytes(32))
  writeFileSync(at('keys32'), randomBytes(32), { mode: 0o600 })
  writeFileSync(at('backup/there.age'), 'mine')
  writeFileSync(at('backup/beside.age.json'), 'mine')
  const production = { NODE_ENV: 'production', ...(testCluster === null ? { DATABASE_URL: 'postgres://u:canary-mail@secret.example@127.0.0.1:1/x' } : {}) } // prettier-ignore
  const refusals: [Ended, RegExp][] = [
    [await backup(at('kek/1.age')), /folder of --to has a file of 32 bytes, the size of a master key \(KEK\): kek\. Store them in separate places\. Nothing was written\./], // prettier-ignore
    [await backup(at('copy/1.age')), /file of 32 bytes/],
    [await backup(at('above/1.age'), { SIGNER_KEK_FILE: at('above/below/kek') }), /master key \(KEK\) is in the folder of --to/], // prettier-ignore
    [await backup(at('above/1.age'), { SIGNER_KEK: `file:${at('above/below/kek')}` }), /master key \(KEK\) is in/],
    [await backup(at('backup/1.age'), { AUTH_KEYS_FILE: at('keys32') }), /AUTH_KEYS_FILE names a file of 32 bytes/],
    [await backup(at('backup/1.age'), { AUTH_KEYS_FILE: at('none') }), /AUTH_KEYS_FILE cannot be read \(ENOENT\)/],
    [await backup(at('backup/1.age'), { ...production, AUTH_KEYS_FILE: '' }), /AUTH_KEYS_FILE is missing\. Run this as the server’s user/], // prettier-ignore
    [await backup(at('backup/there.age')), /there\.age already exists\. A backup is never overwritten/],
    [await backup(at('backup/beside.age')), /beside\.age\.json already exists/],
    [await backup(at('nowhere/1.age')), /folder of --to is missing/],
    [await run(['backup', '--to', at('backup/1.age'), '--recipient', 'age1nonsense']), /A recipient must be age1… followed by 58 characters/], // prettier-ignore
    [await run(['backup', '--to', at('backup/1.age'), '--recipient', recipient], {}, { DATA_DIR: at('nothing') }), /There is no installation in /], // prettier-ignore
  ]
  if (testCluster === null) {
    refusals.push([await backup(at('data/1.age')), /--to must not be inside DATA_DIR/])
    const unlock = lockFolder(settings.DATA_DIR!)
    refusals.push([await backup(at('backup/1.age')), /is using the embedded database in DATA_DIR\. Stop it first/])
    unlock()
  }
  for (const [{ code, err }, pattern] of refusals) {
    assert.equal(code, 1, err)
    assert.match(err, pattern)
    assertNoCanary('an error', err)
  }
  assert.deepEqual(readdirSync(at('backup')).toSorted(), ['beside.age.json', 'there.age'])
  assert.ok(!existsSync(at('nothing')))
  // Where another user has the files, the database alone.
  const { code, out } = await backup(at('backup/1.age'), { AUTH_KEYS_FILE: at('none') }, '--without-files')
  assert.equal(code, 0)
  assert.match(out, /The backup does not include the server’s files\./)
})
