// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { readConfig, type ConfigError } from '../src/config.ts'
import { newKeys } from '../src/oauth/keys.ts'
import { readSettings } from '../src/signer/settings.ts'
import { endAll, startProgram } from './programs.ts'

/**
 * Mistakes of whoever sets up production, one at a time in settings that are otherwise good: each is refused at the
 * start, by the name of the setting, with nothing of its value. No database runs here: none gets that far.
 */
let folder: string
let keysText: string
let server: Record<string, string>
let signer: Record<string, string>
const inside = (name: string): string => join(folder, name)

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-misconfigured-'))
  const made = newKeys()
  const { keys } = made
  keysText = JSON.stringify(made)
  await writeFile(inside('auth-keys.json'), keysText, { mode: 0o600 })
  await writeFile(inside('half-keys.json'), JSON.stringify({ keys: keys.slice(0, 1) }), { mode: 0o600 })
  await writeFile(inside('open-keys.json'), JSON.stringify({ keys }), { mode: 0o644 })
  await writeFile(inside('no-keys.json'), '-----BEGIN PRIVATE KEY-----', { mode: 0o600 })
  await writeFile(inside('kek'), randomBytes(32), { mode: 0o600 })
  await mkdir(inside('store'))
  server = {
    NODE_ENV: 'production',
    PUBLIC_ORIGIN: 'https://wallet.example',
    TRUST_PROXY: '1',
    PORT: '0',
    // Nobody listens there.
    DATABASE_URL: 'postgres://chatelaine:hunter2secret@127.0.0.1:1/chatelaine',
    NETWORKS_FILE: inside('networks.json'),
    PROVIDERS_FILE: inside('providers.json'),
    AUTH_KEYS_FILE: inside('auth-keys.json'),
    SIGNER_SOCKET: inside('signer.sock'),
  }
  signer = {
    SIGNER_SOCKET: inside('signer.sock'),
    SIGNER_DIR: inside('store'),
    SIGNER_KEK_FILE: inside('kek'),
    SIGNER_JWKS_FILE: inside('auth-keys.public.json'),
    SIGNER_ISSUER: 'https://wallet.example/oauth',
    SIGNER_AUDIENCE: 'https://wallet.example/v1',
    SIGNER_CHAINS: '1',
  }
})
after(async () => {
  endAll()
  await rm(folder, { recursive: true, force: true })
})

type Case = [program: 'server' | 'signer', wrong: Record<string, string>, said: RegExp]

/** What is wrong with the settings themselves: read here by what the programs read theirs with. */
const unreadable: () => Case[] = () => [
  ['server', { PUBLIC_ORIGIN: 'http://wallet.example' }, /PUBLIC_ORIGIN must be https/],
  ['server', { PUBLIC_ORIGIN: 'https://wallet.example/app' }, /PUBLIC_ORIGIN must be an origin without a path/],
  ['server', { PUBLIC_ORIGIN: 'wallet.example' }, /PUBLIC_ORIGIN must be an http or https URL/],
  ['server', { RATE_LIMITS: 'off' }, /RATE_LIMITS cannot be off/],
  ['server', { RPC_URL: 'https://node.example/hunter2secret' }, /NETWORK_EXPLORER is missing/],
  ['server', { RPC_URL: 'node.example/hunter2secret' }, /RPC_URL must be an http or https URL/],
  ['server', { REQUEST_LOG: 'on' }, /REQUEST_LOG cannot be on with this LOG_LEVEL/],
  [
    'server',
    { NODE_ENV: 'development' },
    /PUBLIC_ORIGIN must be on this machine[\s\S]*TRUST_PROXY[\s\S]*SIGNER_SOCKET/,
  ],
  ['server', { NODE_ENV: 'prod' }, /NODE_ENV must be one of/],
  ['signer', { SIGNER_SOCKET_MODE: '666' }, /SIGNER_SOCKET_MODE must be one of/],
  ['signer', { SIGNER_AUDIENCE: 'https://wallet.example' }, /SIGNER_ISSUER and SIGNER_AUDIENCE must be PUBLIC_ORIGIN/],
  ['signer', { SIGNER_CHAINS: '1;8453' }, /SIGNER_CHAINS must be chain ids/],
  ['signer', { SIGNER_AUTH_SOCKET: inside('signer.sock') }, /SIGNER_AUTH_SOCKET must be another socket/],
  ['signer', { SIGNER_MAX_FEE: '1' }, /SIGNER_MAX_FEE is not a setting, but SIGNER_MAX_FEE_WEI is/],
  ['server', { RATE_LIMIT: '5' }, /RATE_LIMIT is not a setting, but RATE_LIMITS is/],
  ['server', { PUBLIC_ORIGIN: 'https://Wallet.example' }, /PUBLIC_ORIGIN must be an origin .* in lower case/],
]

/** What is found behind the settings, by a start. */
const unusable: () => Case[] = () => [
  ['server', {}, /the database at DATABASE_URL cannot be used/],
  ['server', { AUTH_KEYS_FILE: inside('nothing.json') }, /AUTH_KEYS_FILE names no file/],
  ['server', { AUTH_KEYS_FILE: inside('open-keys.json') }, /AUTH_KEYS_FILE is readable by every user/],
  ['server', { AUTH_KEYS_FILE: inside('half-keys.json') }, /AUTH_KEYS_FILE holds no RS256 key/],
  ['server', { AUTH_KEYS_FILE: inside('no-keys.json') }, /AUTH_KEYS_FILE does not hold JSON/],
  ['server', { SIGNER_DIR: inside('store') }, /can open SIGNER_DIR, which only the signer may/],
  ['server', { SIGNER_KEK_FILE: inside('kek') }, /can open SIGNER_KEK_FILE, which only the signer may/],
  ['server', { SIGNER_KEK_TOKEN_FILE: inside('kek') }, /can open SIGNER_KEK_TOKEN_FILE, which only the signer may/],
  ['server', { SIGNER_KEK_CREDENTIALS_FILE: inside('kek') }, /can open SIGNER_KEK_CREDENTIALS_FILE, which only the/],
  ['signer', { SIGNER_KEK_FILE: folder }, /SIGNER_KEK_FILE must hold exactly 32 bytes/],
  ['signer', { SIGNER_DIR: inside('no-keys.json') }, /SIGNER_DIR must be a folder/],
  ['server', { AUTH_JWKS_FILE: inside('auth-keys.json') }, /AUTH_JWKS_FILE names a file that holds something other/],
  ['server', { AUTH_JWKS_FILE: '/proc/nothing.json' }, /AUTH_JWKS_FILE cannot be written/],
  ['server', { AUTH_KEYS_FILE: folder }, /AUTH_KEYS_FILE cannot be read/],
  ['server', { HOST: '203.0.113.7' }, /cannot listen on HOST: it is not an address of this machine/],
  ['server', { SIGNER_SOCKET: `/run/${'s'.repeat(120)}` }, /SIGNER_SOCKET is longer than 107 bytes/],
]

const goodOf = (program: Case[0]) => (program === 'server' ? server : signer)

test('each mistake in the settings of production is refused by the name of its setting', () => {
  for (const [program, mistake, said] of unreadable()) {
    const read = () => {
      const env = { ...goodOf(program), ...mistake }
      return program === 'server' ? readConfig(env, 'server') : readSettings(env, { isDevelopment: false })
    }
    assert.throws(
      read,
      ({ message }: ConfigError) => said.test(message) && !message.includes('hunter2secret'),
      String(said),
    )
  }
})

test('a program whose settings cannot be read ends with all that is wrong with them, and nothing else', async () => {
  const wrong = { RATE_LIMITS: 'off', DATABASE_POOL: 'hunter2secret' }
  const missing = ['PUBLIC_ORIGIN', 'DATABASE_URL', 'SIGNER_SOCKET', 'AUTH_KEYS_FILE', 'PROVIDERS_FILE', 'TRUST_PROXY']
  const ofSigner = ['SIGNER_SOCKET', 'SIGNER_DIR', 'SIGNER_ISSUER', 'SIGNER_AUDIENCE', 'SIGNER_KEK_FILE']
  const [one, other] = [
    startProgram('main.ts', { NODE_ENV: 'production', ...wrong }, folder),
    startProgram('signer/main.ts', { SIGNER_MAX_FILLS: 'hunter2secret' }, folder),
  ]
  for (const [{ ended, err }, names] of [
    [one, [...missing.map((name) => `${name} is missing`), 'RATE_LIMITS cannot be off', 'DATABASE_POOL must be ']],
    [other, [...ofSigner.map((name) => `${name} is missing`), 'SIGNER_MAX_FILLS must be ']],
  ] as const) {
    assert.equal(await ended, 1)
    for (const name of names) assert.ok(err().includes(name), `${name}: ${err()}`)
    assert.doesNotMatch(err(), /hunter2secret|\n\s+at /)
  }
})

/** Programs at once: each start costs a second of a processor. */
const AT_ONCE = 4

test('each mistake behind the settings of production is refused at the start by the name of its setting', async () => {
  const waiting = unusable()
  const wrong: string[] = []
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [program, mistake, said] = next
      const file = program === 'server' ? 'main.ts' : 'signer/main.ts'
      // A store of its own for each, which one signer keeps from the others. It is made only where the start gets so far.
      const good = program === 'server' ? server : { ...signer, SIGNER_DIR: inside(`store-${waiting.length}`) }
      const { ended, err } = startProgram(file, { ...good, ...mistake }, folder)
      const code = await ended
      if (code !== 1 || !said.test(err()) || err().includes('hunter2secret') || /\n\s+at /.test(err()))
        wrong.push(`${program} ${JSON.stringify(mistake)} ended with ${code}, saying ${err()}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  assert.deepEqual(wrong, [])
  assert.equal(await readFile(inside('auth-keys.json'), 'utf8'), keysText)
})
