import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { command } from '../../../test/kit/command.ts'
import { testDatabase, type TestDatabase } from '../../../test/kit/database.ts'
import { serveRpc, type RpcServer, type Said } from '../../../test/nodes/rpc-server.ts'
import { bindNetwork, templatesAt } from '../../applications/networks.ts'
import { unsaid } from '../../applications/network-facts.ts'
import { systemClock } from '../../clock.ts'
import { loadKeys, newKeys, publicKeys, type PrivateKeys } from '../../oauth/keys.ts'
import { sealKeysOf } from '../../oauth/seal-keys.ts'
import type { RootDb } from '../../store/db.ts'
import { encryptSecret } from '../../store/secret-keys.ts'
import { webhookKeysOf } from '../../webhooks/keys.ts'
import { encodeFrame, frameReader } from '../../signer-wire/frames.ts'
import type { Verbs } from '../../signer-wire/wire.ts'
import { VERSION } from '../../version.ts'
import { diagnose } from './doctor.ts'
import { FAULTS } from './faults.ts'
import type { Patient } from './patient.ts'

/** A healthy installation in production, whose parts each case makes faulty. Database, files and sockets are real. */
const PASSWORD = 'hunter2-of-the-database'
const NODE_KEY = 'key-of-the-node-44ab'
const GENESIS = `0x${'ab'.repeat(32)}` as const
const CHAIN_ID = 11_155_111
const NEWEST = 200

type Answers = Record<string, (params: unknown[]) => Said | undefined>

let folder: string
let database: TestDatabase
let keys: PrivateKeys
let signer: Server
let health: Verbs['health']['answer']
let refusal: { code: string; detail: string } | null
let node: RpcServer
let other: RpcServer
let answers: Answers
let answersOfOther: Answers
const at = (name: string) => join(folder, name)

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-doctor-'))
  database = await testDatabase()
  keys = newKeys()
  node = await serveRpc({ answer: ({ method, params }) => answers[method]?.(params) ?? healthyNode(method, params) })
  other = await serveRpc({
    answer: ({ method, params }) => answersOfOther[method]?.(params) ?? healthyNode(method, params),
  })
  const facts = { ...unsaid, name: 'sepolia', chainId: CHAIN_ID, symbol: 'ETH', coin: 'Ether', explorer: templatesAt('https://scan.example'), backfillFrom: null, genesisHash: GENESIS } as const // prettier-ignore
  await bindNetwork(database.db, facts, { mayBegin: false })
  signer = createServer((socket) => {
    const read = frameReader((message) => {
      const { id, verb } = message as { id: number; verb: string }
      socket.write(
        encodeFrame(refusal === null ? { id, answer: verb === 'health' ? health : { key: health.identity } } : { id, error: refusal }), // prettier-ignore
      )
    })
    socket.on('data', read)
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => signer.listen(at('signer.sock'), resolve))
})
after(async () => {
  signer.close()
  await Promise.all([node.close(), other.close(), database.close()])
  await rm(folder, { recursive: true, force: true })
})

/** A node of a chain with a block every 12 seconds; what it is not asked for it does not have. */
function healthyNode(method: string, params: unknown[]): Said {
  const block = (number: number): Said => ({
    result: {
      number: `0x${number.toString(16)}`,
      hash: number === 0 ? GENESIS : `0x${number.toString(16).padStart(64, '0')}`,
      timestamp: `0x${Math.floor(Date.now() / 1_000 - (NEWEST - number) * 12).toString(16)}`,
    },
  })
  if (method === 'eth_chainId') return { result: `0x${CHAIN_ID.toString(16)}` }
  if (method === 'eth_getBlockByNumber')
    return block(params[0] === 'latest' ? NEWEST : params[0] === 'finalized' ? NEWEST - 64 : Number(params[0]))
  if (method === 'eth_getLogs' || method === 'trace_block') return { result: [] }
  if (method === 'eth_sendRawTransaction') return { error: { code: -32602, message: 'no bytes' } }
  if (/^eth_(getBlockByHash|getTransaction(ByHash|Receipt))$/.test(method)) return { result: null }
  if (/^eth_(getBalance|getCode|getTransactionCount|call|estimateGas|gasPrice)$/.test(method)) return { result: '0x0' }
  return { error: { code: -32601, message: 'Method not found' } }
}

const missing = (): Said => ({ error: { code: -32601, message: 'Method not found' } })
const broken = (): Said => ({ error: { code: -32603, message: 'pruned' } })

/** A proxy in front of the server: what arrives of a forged address, and what the server takes for the client. */
const proxied = (seen: { client: string; peer: string; forwardedFor: string | null } | null) => seen
const fine = proxied({ client: '203.0.113.9', peer: '127.0.0.1', forwardedFor: '192.0.2.77, 203.0.113.9' })

type Planted = {
  env?: Record<string, string | undefined>
  patient?: Partial<Patient>
  /** what the server sees of a request through its proxy */
  seen?: unknown
  readyz?: unknown
  /** statement of a fault in the database */
  statement?: string
  /** and of its repair */
  repair?: string
  signer?: Partial<typeof health>
  refusal?: typeof refusal
  node?: Answers
  other?: Answers
  nodes?: Record<string, string[]>
  /** changes files; everything is written again for the next case */
  files?: () => Promise<unknown>
}

/** A handle that a check cannot close: the tests' own. */
const lasting = (db: RootDb): RootDb =>
  new Proxy(db, {
    get(of, name: keyof RootDb) {
      const value: unknown = name === 'destroy' ? async () => {} : of[name]
      return typeof value === 'function' ? value.bind(of) : value
    },
  })

async function examine(planted: Planted = {}): Promise<string[]> {
  const findings = await report(planted)
  return findings.map(({ code }) => code)
}

async function report(planted: Planted) {
  health = { ...healthySigner(), ...planted.signer }
  refusal = planted.refusal ?? null
  answers = planted.node ?? {}
  answersOfOther = planted.other ?? {}
  const nodes = planted.nodes ?? { sepolia: [`${node.url}/${NODE_KEY}`] }
  await chmod(at('signer.sock'), 0o660)
  for (const [name, content] of Object.entries({
    'networks.json': JSON.stringify(nodes),
    'keys.json': JSON.stringify(keys),
    'providers.json': JSON.stringify([{ preset: 'discord', clientId: 'wallet', clientSecret: 'of the wallet' }]),
    operators: `${'ab'.repeat(32)} mira operator\n`,
    'backup.age': 'encrypted',
    'backup.age.json': JSON.stringify({ format: 'chatelaine backup', at: new Date().toISOString(), bytes: 9 }),
  })) {
    await rm(at(name), { force: true })
    await writeFile(at(name), content, { mode: 0o600 })
  }
  await loadKeys({ keysFile: at('keys.json'), jwksFile: at('jwks.json'), create: false })
  await planted.files?.()
  const env: Record<string, string | undefined> = {
    NODE_ENV: 'production',
    PUBLIC_ORIGIN: 'https://wallet.example',
    TRUST_PROXY: '1',
    OPS_LISTEN: '127.0.0.1:9464',
    DATABASE_URL: `postgres://chatelaine:${PASSWORD}@127.0.0.1:9/chatelaine`,
    NETWORKS_FILE: at('networks.json'),
    PROVIDERS_FILE: at('providers.json'),
    AUTH_KEYS_FILE: at('keys.json'),
    OPERATOR_TOKEN_FILE: at('operators'),
    SIGNER_SOCKET: at('signer.sock'),
    LANE_BUMP_AFTER_SECONDS: '20',
    ...planted.env,
    ...(planted.env?.AUTH_JWKS_FILE === '' ? { AUTH_JWKS_FILE: at('jwks.json') } : {}),
  }
  const { db } = database
  if (planted.statement !== undefined) await sql.raw(planted.statement).execute(db)
  try {
    return await diagnose({
      env,
      clock: systemClock,
      // Another user than the signer's.
      uid: -1,
      backups: [folder],
      space: async () => ({ free: 50e9, total: 100e9 }),
      get: async (url) => {
        const { pathname } = new URL(url)
        if (pathname === '/readyz') return planted.readyz === undefined ? { version: VERSION, checks: [] } : planted.readyz // prettier-ignore
        if (pathname === '/healthz') return { status: 'ok' }
        return planted.seen === undefined ? fine : planted.seen
      },
      // The tests' own database stays open.
      openDatabase: async () =>
        lasting(db), // prettier-ignore
      ...planted.patient,
    })
  } finally {
    if (planted.repair !== undefined) await sql.raw(planted.repair).execute(db)
  }
}

const healthySigner = (): typeof health => ({
  ok: true,
  version: VERSION,
  accounts: 1,
  ledgerEntries: 1,
  revocations: 'fresh',
  identity: 'chatelaine-signing-log/0000000000000000+00000000+x',
  chains: [CHAIN_ID],
  tokenKeys: publicKeys(keys).keys.map(({ kid }) => kid!),
  maxTokenSeconds: 86_400,
  masterKey: { provider: 'file', fault: null },
  policy: null,
  operations: {} as never,
})

const APART = {
  AUTH_SOCKET: '/run/nowhere/auth.sock',
  AUTH_ORIGIN: 'https://sign-in.example',
  AUTH_JWKS_FILE: '',
  AUTH_KEYS_FILE: undefined,
  PROVIDERS_FILE: undefined,
  OPERATOR_TOKEN_FILE: undefined,
}
const policy = { version: 1, hash: 'ab', state: 'kept', rules: 1, asksUsers: false, since: 0, problem: 'It is not signed.' } as const // prettier-ignore
const block = (change: object) => (params: unknown[]) => {
  const said = healthyNode('eth_getBlockByNumber', params) as { result: object }
  return { result: { ...said.result, ...change } }
}
const old = `0x${Math.floor(Date.now() / 1_000 - 7_200).toString(16)}`
const ahead = `0x${Math.floor(Date.now() / 1_000 + 600).toString(16)}`
const SECOND = () => ({ sepolia: [node.url, other.url] })
const digest = () => 'ab'.repeat(32)

/** A webhook of the installation with a fault. @param columns  SQL values @param of  keys that encrypted its secret */
function webhook(columns: Record<string, string>, of = keys): Planted {
  const secret = encryptSecret(webhookKeysOf(sealKeysOf(of.seals)), randomBytes(32), 'whk_1')
  const row = { id: `'whk_1'`, client_id: `'shop'`, url: `'https://shop.example/?key=${PASSWORD}'`, types: `'["*"]'`, secret: `'${secret}'`, cursor: '0', ...columns } // prettier-ignore
  return {
    statement: `insert into webhooks (${Object.keys(row).join(', ')}) values (${Object.values(row).join(', ')})`,
    repair: 'delete from webhooks',
  }
}

/** One fault each, by its code. */
const planted: [code: keyof typeof FAULTS, () => Planted][] = [
  ['settings_rejected', () => ({ env: { TRUST_PROXY: 'all' } })],
  ['settings_rejected', () => ({ env: { SIGNER_SOCKET: undefined } })],
  ['settings_rejected', () => ({ env: { PUBLIC_ORIGN: 'https://wallet.example' } })],
  ['secrets_in_reach', () => ({ env: { SIGNER_KEK_FILE: at('keys.json') } })],
  ['token_keys_unusable', () => ({ files: () => rm(at('keys.json')) })],
  ['token_keys_unusable', () => ({ files: () => chmod(at('keys.json'), 0o644) })],
  ['providers_unusable', () => ({ files: () => writeFile(at('providers.json'), '[{"preset":"nobody"}]') })],
  ['providers_file_open', () => ({ files: () => chmod(at('providers.json'), 0o644) })],
  ['operator_tokens_unusable', () => ({ files: () => writeFile(at('operators'), 'a token, not its hash') })],
  ['networks_file_unusable', () => ({ files: () => writeFile(at('networks.json'), '{') })],
  ['networks_file_open', () => ({ files: () => chmod(at('networks.json'), 0o644) })],
  ['no_operators_listener', () => ({ env: { OPS_LISTEN: undefined } })],
  ['database_unavailable', () => ({ patient: { openDatabase: async () => Promise.reject(Object.assign(new Error(`no ${PASSWORD}`), { code: 'ECONNREFUSED' })) } })], // prettier-ignore
  ['database_newer', () => ({ statement: `insert into migrations (number, name, sha256) values (9999, 'later', '')`, repair: 'delete from migrations where number = 9999' })], // prettier-ignore
  ['migration_missing', () => ({ statement: 'update migrations set number = -number', repair: 'update migrations set number = -number' })], // prettier-ignore
  ['migration_changed', () => ({ statement: `update migrations set sha256 = '${digest()}' || sha256`, repair: 'update migrations set sha256 = substr(sha256, 65)' })], // prettier-ignore
  ['role_too_broad', () => ({ env: APART })],
  ['clock_differs', () => ({ patient: { clock: { ...systemClock, wall: () => Date.now() + 10_000 } } })],
  ['signer_unavailable', () => ({ env: { SIGNER_SOCKET: at('nothing.sock') } })],
  ['signer_socket_open', () => ({ files: () => chmod(at('signer.sock'), 0o666) })],
  ['signer_not_separated', () => ({ patient: { uid: process.getuid!() } })],
  ['signer_refuses', () => ({ refusal: { code: 'ledger_damaged', detail: 'The store cannot be read.' } })],
  ['signer_key_differs', () => ({ env: { SIGNER_KEY: `chatelaine-signing-log/${'0'.repeat(16)}+${'0'.repeat(8)}+${'A'.repeat(44)}` } })], // prettier-ignore
  ['signer_version_differs', () => ({ signer: { version: '0.0.9' } })],
  ['token_key_not_trusted', () => ({ signer: { tokenKeys: [] } })],
  ['token_lifetime_too_long', () => ({ signer: { maxTokenSeconds: 60 } })],
  ['revocations_stale', () => ({ signer: { revocations: 'stale' } })],
  ['master_key_unusable', () => ({ signer: { masterKey: { provider: 'vault', fault: 'Vault does not answer.' } } })],
  ['policy_not_in_force', () => ({ signer: { policy } })],
  [
    'no_network',
    () => ({
      nodes: {},
      statement: `update networks set name = 'devnet'`,
      repair: `update networks set name = 'sepolia'`,
    }),
  ],
  ['nodes_of_unknown_network', () => ({ nodes: { sepolia: [node.url], mars: [node.url] } })],
  ['network_without_nodes', () => ({ nodes: {} })],
  ['network_down', () => ({ nodes: { sepolia: [`http://127.0.0.1:9/${NODE_KEY}`] } })],
  ['network_not_signed', () => ({ signer: { chains: [1] } })],
  ['node_down', () => ({ nodes: { sepolia: [node.url, `http://127.0.0.1:9/${NODE_KEY}`] } })],
  ['node_on_other_chain', () => ({ node: { eth_chainId: () => ({ result: '0x1' }) }, signer: { chains: null } })],
  ['node_on_other_chain', () => ({ nodes: SECOND(), other: { eth_getBlockByNumber: (params) => params[0] === '0x0' ? { result: { number: '0x0', hash: `0x${'cd'.repeat(32)}`, timestamp: '0x0' } } : undefined } })], // prettier-ignore
  ['node_behind', () => ({ node: { eth_getBlockByNumber: (params) => (params[0] === 'latest' ? block({ timestamp: old })(params) : undefined) }, env: { LANE_BUMP_AFTER_SECONDS: '200000' } })], // prettier-ignore
  ['methods_missing', () => ({ node: { eth_estimateGas: missing } })],
  ['reads_by_number', () => ({ node: { eth_getBalance: ([, tag]) => (typeof tag === 'object' ? { error: { code: -32602, message: 'invalid argument 1: expected a string' } } : undefined) } })], // prettier-ignore
  ['finality_missing', () => ({ node: { eth_getBlockByNumber: ([tag]) => (tag === 'finalized' ? { error: { code: -32602, message: 'unknown tag' } } : undefined) } })], // prettier-ignore
  ['traces_missing', () => ({ node: { trace_block: missing } })],
  ['history_missing', () => ({ node: { eth_getLogs: broken } })],
  ['bump_before_block', () => ({ env: { LANE_BUMP_AFTER_SECONDS: '12' } })],
  ['chain_clock_differs', () => ({ node: { eth_getBlockByNumber: (params) => (params[0] === 'latest' ? block({ timestamp: ahead })(params) : undefined) } })], // prettier-ignore
  ['account_pages_cannot_send', () => ({ statement: `update networks set gas = 'sponsor'`, repair: `update networks set gas = 'self'` })], // prettier-ignore
  ['server_down', () => ({ readyz: null, signer: { revocations: 'stale' } })],
  ['server_down', () => ({ readyz: { checks: null } })],
  ['server_down', () => ({ readyz: { version: VERSION, checks: [{ name: 7, ok: false }] } })],
  ['server_down', () => ({ readyz: 'ok' })],
  ['server_version_differs', () => ({ readyz: { version: '0.0.9', checks: [] } })],
  ['server_check_failed', () => ({ readyz: { version: VERSION, checks: [{ name: 'chain sepolia', ok: false, detail: 'the follower has stopped' }] } })], // prettier-ignore
  ['origin_unreachable', () => ({ seen: null })],
  ['origin_unreachable', () => ({ seen: { client: '127.0.0.1', peer: '127.0.0.1', forwardedFor: 7 } })],
  ['forged_address_trusted', () => ({ seen: { client: '192.0.2.77', peer: '127.0.0.1', forwardedFor: '192.0.2.77' } })],
  ['proxy_not_trusted', () => ({ env: { TRUST_PROXY: '0' }, seen: { client: '127.0.0.1', peer: '127.0.0.1', forwardedFor: '192.0.2.77, 203.0.113.9' } })], // prettier-ignore
  ['webhook_disabled', () => webhook({ disabled_at: 'now()', disabled_reason: `'gone'` })],
  ['webhook_failing', () => webhook({ failing_since: 'now()', probe_at: 'now()' })],
  ['webhook_secret_unreadable', () => webhook({}, newKeys())],
  [
    'webhook_secret_unreadable',
    () => webhook({ old_secret: `'k0 AAAA'`, old_secret_ends_at: `now() + interval '1 hour'` }),
  ],
  ['webhook_private_hosts', () => ({ env: { WEBHOOK_PRIVATE_HOSTS: 'hooks.internal' } })],
  ['disk_low', () => ({ patient: { space: async () => ({ free: 0.5e9, total: 100e9 }) } })],
  ['disk_full', () => ({ patient: { space: async () => ({ free: 1e6, total: 100e9 }) } })],
  ['backups_not_checked', () => ({ patient: { backups: [] } })],
  ['backup_missing', () => ({ patient: { backups: [at('nowhere')] } })],
  ['backup_old', () => ({ files: () => writeFile(at('backup.age.json'), JSON.stringify({ format: 'chatelaine backup', at: '2020-01-01T00:00:00Z', bytes: 9 })) })], // prettier-ignore
  ['backup_incomplete', () => ({ files: () => writeFile(at('backup.age'), 'cut') })],
]

/** Faults that every case on the tests' own database has: it may belong to a superuser and not wait for its disk. */
const STANDING = new Set(['role_is_superuser', 'database_not_durable'])
const beyond = (codes: string[]) => [...new Set(codes.filter((code) => !STANDING.has(code)))]

test('a healthy installation has no findings', async () => {
  assert.deepEqual(beyond(await examine()), [])
})

for (const [index, [code, plant]] of planted.entries())
  test(`the doctor names a planted fault: ${code} (${index + 1})`, async () => {
    const findings = await report(plant())
    assert.deepEqual(beyond(findings.map((one) => one.code)), [code])
    for (const { problem, action } of findings) {
      assert.match(problem, /^[A-Z].*[.!?]$/s)
      assert.match(action, /^[A-Z].*\.$/)
      assert.doesNotMatch(`${problem}${action}`, new RegExp(`${PASSWORD}|${NODE_KEY}|of the wallet`))
    }
  })

test('webhooks whose former secrets are over, and those of a separate API, are no fault', async () => {
  const over = webhook({ old_secret: `'k0 AAAA'`, old_secret_ends_at: `now() - interval '1 hour'` })
  assert.deepEqual(beyond(await examine(over)), [])
  assert.ok(!(await examine({ ...webhook({}, newKeys()), env: APART })).includes('webhook_secret_unreadable'))
})

test('on the machine of the proxy, the address of the doctor itself is no fault; one proxy too many is', async () => {
  const seen = { client: '192.0.2.77', peer: '127.0.0.1', forwardedFor: '192.0.2.77, 127.0.0.1' }
  assert.deepEqual(beyond(await examine({ env: { TRUST_PROXY: '127.0.0.1' }, seen })), [])
  assert.deepEqual(beyond(await examine({ env: { TRUST_PROXY: '2' }, seen })), ['forged_address_trusted'])
  const replaced = { client: '127.0.0.1', peer: '127.0.0.1', forwardedFor: '127.0.0.1' }
  assert.deepEqual(beyond(await examine({ seen: replaced })), [])
  assert.deepEqual(beyond(await examine({ env: { TRUST_PROXY: '0' }, seen: replaced })), ['proxy_not_trusted'])
})

test('every code has a planted fault, or a test of its own; the guide lists all of them', async () => {
  const apart = new Set(['database_read_only', 'database_not_durable', 'role_is_superuser', 'role_too_narrow'])
  const codes = new Set<string>(planted.map(([code]) => code))
  assert.deepEqual(Object.keys(FAULTS).filter((code) => !codes.has(code) && !apart.has(code)), []) // prettier-ignore
  assert.ok(codes.size >= 25, `${codes.size} codes`)
  const guide = await readFile(new URL('../../../docs/operate/doctor.md', import.meta.url), 'utf8')
  for (const [code, [severity]] of Object.entries(FAULTS))
    assert.match(guide, new RegExp(`^\\| \`${code}\` \\| ${severity} \\|`, 'm'))
})

test('a database that rejects or may lose writes, and a role that has too many or too few rights, are named', async () => {
  // Settings of a connection: the embedded database has one, and PostgreSQL may choose another.
  await database.db.connection().execute(async (db) => {
    const as = (statement: string, repair: string) => ({
      patient: { openDatabase: async () => lasting(db) }, // prettier-ignore
      run: async (planted: Planted) => {
        await sql.raw(statement).execute(db)
        return examine(planted).finally(() => sql.raw(repair).execute(db))
      },
    })
    const readOnly = as('set default_transaction_read_only = on', 'set default_transaction_read_only = off')
    assert.ok((await readOnly.run(readOnly)).includes('database_read_only'))
    const fast = as('set synchronous_commit = off', 'set synchronous_commit = on')
    assert.ok((await fast.run(fast)).includes('database_not_durable'))
    const name = `chatelaine_doctor_${randomBytes(4).toString('hex')}`
    for (const one of [`create role ${name}`, `grant ${name} to current_user`, `grant select on migrations, networks to ${name}`]) await sql.raw(one).execute(db) // prettier-ignore
    try {
      const narrow = as(`set role ${name}`, 'reset role')
      assert.deepEqual(beyond(await narrow.run({ ...narrow, env: APART })), ['role_too_narrow'])
    } finally {
      for (const one of [`drop owned by ${name}`, `drop role ${name}`]) await sql.raw(one).execute(db)
    }
  })
})

test('the command prints findings with their next step, and ends with 2 for errors; as JSON for programs', async () => {
  const env = { NODE_ENV: 'production', DATABASE_URL: `postgres://chatelaine:${PASSWORD}@127.0.0.1:9/chatelaine` }
  const said = await command(env, ['doctor'])
  assert.deepEqual([said.code, said.err], [2, ''])
  assert.match(said.out, /^error {2}settings_rejected\n {2}PUBLIC_ORIGIN is missing: .*\n {2}Correct the setting: /)
  const { code, out } = await command(env, ['doctor', '--json'])
  assert.equal(code, 2)
  assert.deepEqual(Object.keys(JSON.parse(out)[0]), ['code', 'severity', 'problem', 'action'])
  assert.doesNotMatch(said.out + out, new RegExp(PASSWORD))
  const development = await command({ DATA_DIR: folder }, ['doctor'])
  assert.deepEqual([development.code, development.out], [0, 'No problems were found.\n'])
})
