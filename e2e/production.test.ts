// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { launchAnvil, type Anvil } from '../src/devnet/anvil.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { command } from '../test/kit/command.ts'
import { emptyPostgres, testCluster } from '../test/kit/database.ts'
import { openSilentNode } from '../test/silent-node.ts'
import { until } from '../test/kit/until.ts'
import { endAll, startProgram, type RunningProgram } from './programs.ts'
import { family as familyOf } from './start.ts'
import { freePort } from '../test/kit/ports.ts'

/**
 * The programs as an operator runs them on one machine: PostgreSQL, a signer of its own, a proxy in front that ends
 * TLS. Nothing is made by hand but the key of the signer and the list of providers.
 */
const ORIGIN = 'https://wallet.example'
const skip = testCluster === null ? 'needs TEST_DATABASE_URL' : false

type Answer = { status: number; headers: http.IncomingHttpHeaders; text: string }

let folder: string
let settings: Record<string, string>
let signerSettings: Record<string, string>
let drop: () => Promise<void>
let chain: Anvil
let port: number

before(async () => {
  if (testCluster === null) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-production-'))
  const database = await emptyPostgres(testCluster)
  drop = database.drop
  const genesisSeconds = Math.floor(Date.now() / 1_000) - 60
  chain = await launchAnvil({
    dir: folder,
    port: 0,
    genesisSeconds,
    loadFile: null,
    dumpFile: join(folder, 'chain.json'),
  })
  await rpc(chain.rpcUrl, 'anvil_mine', '0x5')
  port = await freePort()
  const inside = (name: string) => join(folder, name)
  await writeFile(inside('kek'), randomBytes(32), { mode: 0o600 })
  await writeFile(
    inside('providers.json'),
    JSON.stringify([
      { name: 'ACME', issuer: 'https://idp.example', clientId: 'wallet', clientSecret: 'secret-of-the-provider' },
    ]),
  )
  settings = {
    NODE_ENV: 'production',
    PUBLIC_ORIGIN: ORIGIN,
    PORT: String(port),
    DATABASE_URL: database.url,
    NETWORKS_FILE: inside('networks.json'),
    PROVIDERS_FILE: inside('providers.json'),
    AUTH_KEYS_FILE: inside('auth-keys.json'),
    OPERATOR_TOKEN_FILE: inside('operators'),
    OPS_LISTEN: `127.0.0.1:${await freePort()}`,
    SIGNER_SOCKET: inside('signer.sock'),
    TRUST_PROXY: '1',
    LOG_LEVEL: 'debug',
  }
  // Its mode needs no setting: without --development it is the strict one.
  signerSettings = {
    SIGNER_SOCKET: inside('signer.sock'),
    SIGNER_DIR: inside('signer'),
    SIGNER_KEK_FILE: inside('kek'),
    SIGNER_JWKS_FILE: inside('auth-keys.public.json'),
    SIGNER_ISSUER: `${ORIGIN}/oauth`,
    SIGNER_AUDIENCE: `${ORIGIN}/v1`,
    SIGNER_CHAINS: '31337, 77',
  }
})
after(async () => {
  endAll()
  if (testCluster === null) return
  await chain.stop()
  await drop()
  await rm(folder, { recursive: true, force: true })
})

/** What the operator does who reads a fingerprint on one side and types it on the other. */
async function trustKeys(): Promise<void> {
  const { out } = await command(settings, ['auth-keys', 'fingerprints'])
  const accepted = out
    .trim()
    .split('\n')
    .flatMap((one) => ['--accept', one])
  const { code, err } = await command(signerSettings, ['signer', 'trust-key', ...accepted])
  assert.deepEqual([code, err], [0, ''])
}

test('from empty files and an empty database to a registered application, by commands alone', { skip }, async () => {
  const run = async (...words: string[]) => {
    const { code, out, err } = await command(settings, words)
    assert.deepEqual([code, err], [0, ''], words.join(' '))
    return out
  }
  await run('auth-keys', 'create')
  const operator = JSON.parse(await run('operator-token', 'create', '--name', 'mira', '--json')).token as string
  const untrusting = start('signer/main.ts', signerSettings)
  assert.equal(await untrusting.ended, 1)
  assert.match(untrusting.err(), /trusts no key of an authorization server yet/)
  await trustKeys()
  const signer = start('signer/main.ts', signerSettings)
  await until('the signer is ready', async () => signer.child.stdout!.read() !== null)

  const tooEarly = start('main.ts', settings)
  assert.equal(await tooEarly.ended, 1)
  assert.match(tooEarly.err(), /there is no network to serve: add one with `chatelaine network add`/)

  const byHand = ['--symbol', 'ETH', '--explorer', 'https://scan.example']
  await run('network', 'add', 'local', '--chain-id', '31337', '--rpc-url', chain.rpcUrl, ...byHand)
  const away = await openSilentNode({ chainId: 77 })
  await run('network', 'add', 'away', '--chain-id', '77', '--rpc-url', away.url, ...byHand)
  await away.close()

  const server = start('main.ts', settings)
  await until('the server is ready', async () => (await ask('/readyz').catch(() => null))?.status === 200)
  assert.deepEqual(
    ((await (await fetch(`http://${settings.OPS_LISTEN}/readyz`)).json()) as { checks: { name: string }[] }).checks.map(
      ({ name }: { name: string }) => name,
    ),
    ['database', 'signer', 'chain local'],
  )

  const { application, secret } = JSON.parse(
    await run(
      'app',
      'create',
      '--name',
      'Shop',
      '--network',
      'local',
      '--redirect-uri',
      'https://shop.example/callback',
      '--confidential',
      '--json',
    ),
  )

  const discovery = await ask('/oauth/.well-known/openid-configuration')
  assert.equal(discovery.status, 200)
  const { issuer, authorization_endpoint, token_endpoint, jwks_uri, userinfo_endpoint } = JSON.parse(discovery.text)
  assert.deepEqual(
    [issuer, authorization_endpoint, token_endpoint, jwks_uri, userinfo_endpoint],
    ['', '/auth', '/token', '/jwks', '/me'].map((path) => `${ORIGIN}/oauth${path}`),
  )
  assert.match(String(discovery.headers['strict-transport-security']), /max-age=31536000/)
  assert.doesNotMatch((await ask('/oauth/jwks')).text, /"d"/)

  const authorize = `/oauth/auth?${new URLSearchParams({
    client_id: application.clientId,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: 'https://shop.example/callback',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  }).toString()}`
  const begun = await ask(authorize)
  assert.equal(begun.status, 303)
  assert.match(begun.headers.location!, /^(https:\/\/wallet\.example)?\/login\//)
  for (const cookie of begun.headers['set-cookie']!)
    assert.match(cookie, /^__(Host|Secure)-.*secure.*httponly|^__(Host|Secure)-.*httponly.*secure/i)

  // No development convenience is left: no chain of our own beside the networks, no folder of development.
  const family = await Promise.all((await familyOf(server.child.pid!)).map((pid) => readFile(`/proc/${pid}/cmdline`)))
  assert.equal(family.length, 1, family.join('\n'))
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name === '.chatelaine'),
    [],
  )
  for (const path of ['/devnet/idp/.well-known/openid-configuration', '/explorer', '/operator/v1/nothing'])
    assert.equal((await ask(path)).status, 404, path)
  assert.equal((await ask('/v1/me')).status, 401)

  const bearer = { authorization: `Bearer ${operator}` }
  assert.equal((await ask('/operator/v1/networks', { headers: { authorization: `Bearer ${secret}` } })).status, 401)
  const networks = JSON.parse((await ask('/operator/v1/networks', { headers: bearer })).text)
  assert.deepEqual(
    networks.map(({ name, isServed }: { name: string; isServed: boolean }) => [name, isServed]),
    [
      ['away', false],
      ['local', true],
    ],
  )
  assert.equal(
    (await ask(`/operator/v1/applications/${application.clientId}/suspend`, { method: 'POST', headers: bearer }))
      .status,
    200,
  )
  assert.equal((await ask(authorize)).status, 400)

  const acted = JSON.parse(await run('actions', 'list', '--json')) as { actor: string; via: string; action: string }[]
  assert.deepEqual(
    acted.map(({ via, action }) => [via, action]),
    [
      ['api', 'suspend'],
      ['command', 'create-application'],
      ['command', 'add-network'],
      ['command', 'add-network'],
    ],
  )
  assert.equal(acted[0]!.actor, 'mira')
  assert.match(await run('actions', 'verify'), /^4 actions, intact/)

  server.child.kill('SIGTERM')
  assert.equal(await server.ended, 0)
  signer.child.kill('SIGTERM')
  assert.equal(await signer.ended, 0)
})

const start = (file: string, env: Record<string, string>): RunningProgram => startProgram(file, env, folder)

/** A request as the proxy passes it on: plain http on loopback, under the name that clients used. */
function ask(
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const forwarded = {
      host: 'wallet.example',
      'x-forwarded-proto': 'https',
      'x-forwarded-for': '203.0.113.7',
      ...headers,
    }
    const request = http.request({ host: '127.0.0.1', port, path, method, headers: forwarded }, async (response) => {
      const chunks: Buffer[] = []
      for await (const chunk of response) chunks.push(chunk as Buffer)
      resolve({ status: response.statusCode!, headers: response.headers, text: Buffer.concat(chunks).toString() })
    })
    request.once('error', reject)
    request.end()
  })
}
