// tier: all, because it starts the program as its operator does
// embedded, because the database's folder is restored, too
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { launchAnvil } from '../src/devnet/anvil.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { emptyPostgres, migratedFolder, testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { endAll, keepCompiled, startProgram, type RunningProgram } from './programs.ts'
import { freePort } from '../test/kit/ports.ts'

/**
 * The guide to backups, walked as it stands: an installation with people and writes, both sides backed up, more writes, everything
 * deleted, and both sides restored on a clean folder.
 */
const root = fileURLToPath(new URL('..', import.meta.url))
const ETHER = `0x${(10n ** 18n).toString(16)}`
const PAYEE = '0x00000000000000000000000000000000000000aa'

after(endAll)

type Reply = { status: number; body: { hash: string; code?: string; address: string; id: string } }

test('both sides are backed up, lost and restored as the guide says: nothing is sent twice, every account continues', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-walk-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const inside = (name: string) => join(folder, name)
  const guide = await readFile(join(root, 'docs/operate/backup-restore.md'), 'utf8')
  const blocks = [...guide.matchAll(/<!-- run -->\n *```sh\n([\s\S]*?)```/g)].map((match) => match[1]!)
  const [once, eachTime, tryThem, restoreServer, restoreSigner, keys, lost, accept, trust] = blocks
  assert.equal(blocks.length, 9)

  const chain = await launchAnvil({ dir: folder, port: 0, genesisSeconds: Math.floor(Date.now() / 1_000) - 60, loadFile: null, dumpFile: inside('chain.json') }) // prettier-ignore
  t.after(() => chain.stop())
  await rpc(chain.rpcUrl, 'evm_setIntervalMining', 1)
  const [port, databases] = [await freePort(), [] as { url: string; drop(): Promise<void> }[]]
  t.after(() => Promise.all(databases.map(({ drop }) => drop())))

  /** Settings of another machine, and an empty database. */
  async function machine(): Promise<void> {
    const database = testCluster === null ? null : await emptyPostgres(testCluster)
    if (database !== null) databases.push(database)
    const server = {
      PORT: String(port),
      DATA_DIR: inside('data'),
      RPC_URL: chain.rpcUrl,
      RATE_LIMITS: 'off',
      // As a server of its own development refuses a signer from elsewhere.
      DEVELOPMENT_OPEN_TO: 'everyone',
      AUTH_KEYS_FILE: inside('secrets/auth-keys.json'),
      SIGNER_SOCKET: inside('signer.sock'),
      LOG_LEVEL: 'info',
      ...(database === null ? {} : { DATABASE_URL: database.url }),
    }
    const origin = `http://localhost:${port}`
    const signer = {
      SIGNER_SOCKET: inside('signer.sock'),
      SIGNER_DIR: inside('signer'),
      SIGNER_KEK_FILE: inside('signer-kek'),
      SIGNER_JWKS_FILE: inside('secrets/auth-keys.public.json'),
      SIGNER_ISSUER: `${origin}/oauth`,
      SIGNER_AUDIENCE: `${origin}/v1`,
      SIGNER_CHAINS: '31337',
    }
    const lines = (settings: Record<string, string>) => Object.entries(settings).map(([name, value]) => `${name}='${value}'\n`).join('') // prettier-ignore
    await writeFile(inside('server.env'), lines(server))
    await writeFile(inside('signer.env'), lines(signer))
    Object.assign(settings, { server, signer })
  }
  const settings = {} as { server: Record<string, string>; signer: Record<string, string> }
  const bin = inside('bin')
  await mkdir(bin)
  await writeFile(join(bin, 'chatelaine'), `#!/bin/sh\nexec '${process.execPath}' --disable-warning=ExperimentalWarning '${join(root, 'src/cli/main.ts')}' "$@"\n`, { mode: 0o755 }) // prettier-ignore
  const run = async (commands: string): Promise<string> => {
    const env = { PATH: `${bin}:${process.env.PATH}`, NODE: chain.rpcUrl, ...keepCompiled() }
    const { stdout } = await promisify(execFile)('bash', ['-ec', commands], { env, cwd: folder })
    return stdout
  }
  const command = (words: string) => run(`(set -a; . ./server.env; chatelaine ${words})`)

  let signer: RunningProgram
  let server: RunningProgram
  async function startAll(): Promise<void> {
    signer = startProgram('signer/main.ts', settings.signer, folder)
    await until('the signer is ready', async () => signer.child.stdout!.read() !== null || fail(signer))
    await startServer()
  }
  async function startServer(): Promise<void> {
    server = startProgram('main.ts', settings.server, folder)
    const isReady = async () => (await fetch(`http://localhost:${port}/readyz`).catch(() => null))?.status === 200
    await until('the server is ready', async () => (await isReady()) || fail(server))
  }
  const fail = ({ child, err }: RunningProgram): false => {
    if (child.exitCode !== null) throw new Error(err())
    return false
  }
  /** The embedded database lets one process in. */
  async function aside(work: () => Promise<unknown>): Promise<void> {
    if (testCluster === null) {
      server.child.kill('SIGTERM')
      await server.ended
    }
    await work()
    if (testCluster === null) await startServer()
  }

  const tokens = new Map<string, string>()
  async function call(user: string, path: string, body?: unknown, key?: string): Promise<Reply> {
    const response = await fetch(`http://localhost:${port}/v1${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${tokens.get(user)!}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Reply['body'] }
  }
  async function signIn(user: string): Promise<string> {
    tokens.set(user, (await command(`token ${user}`)).trim())
    return (await call(user, '/me')).body.address
  }
  const pay = (user: string, amount: string, key: string) =>
    call(user, '/tokens/transfers', { tokenType: 'NATIVE', amount, toAddress: PAYEE }, key)
  const countOf = async (address: string) => Number(await rpc<string>(chain.rpcUrl, 'eth_getTransactionCount', address, 'latest')) // prettier-ignore
  const mined = (address: string, count: number) => until(`${address} has sent ${count}`, async () => (await countOf(address)) >= count) // prettier-ignore
  async function paid(user: string, amount: string, key: string): Promise<string> {
    const { status, body } = await pay(user, amount, key)
    assert.equal(status, 200, JSON.stringify(body))
    return body.hash
  }

  // An installation, and people who use it.
  await machine()
  // Migrating it is not what is shown here.
  if (testCluster === null) await migratedFolder(join(inside('data'), 'db'))
  await mkdir(inside('secrets'), { mode: 0o700 })
  await run(
    `(set -a; . ./signer.env; chatelaine signer create-key); (set -a; . ./server.env; chatelaine auth-keys create)\n${trust!}`,
  )
  await startAll()
  const addresses = new Map<string, string>()
  for (const user of ['alice', 'bob', 'carol']) {
    addresses.set(user, await signIn(user))
    await rpc(chain.rpcUrl, 'anvil_setBalance', addresses.get(user)!, ETHER)
  }
  const of = (user: string) => addresses.get(user)!
  const first = { alice: await paid('alice', '0.1', 'first'), bob: await paid('bob', '0.1', 'first') }
  await mined(of('alice'), 1)
  await mined(of('bob'), 1)

  // Both sides are backed up, with writes and an account between the two, and writes after both.
  await mkdir(inside('backup'))
  await run(once!)
  const [ofServer, ofSigner] = eachTime!.trim().split('\n')
  await aside(() => run(ofServer!))
  const between = await paid('alice', '0.2', 'between')
  await mined(of('alice'), 2)
  addresses.set('dave', await signIn('dave'))
  await run(ofSigner!)
  const after = await paid('bob', '0.2', 'after')
  await mined(of('bob'), 2)
  assert.match(await run(tryThem!), /restores everything that it lists[^]*restores everything that it lists/)

  // Everything is gone but the two files, the master key and the identity.
  for (const program of [server!, signer!]) {
    program.child.kill('SIGKILL')
    await program.ended
  }
  for (const name of ['data', 'secrets', 'signer', 'signer.sock'])
    await rm(inside(name), { recursive: true, force: true })
  await copyFile(inside('server.env'), inside('server.env.before'))
  await machine()

  await run(restoreServer!)
  assert.match(await readFile(inside('secrets/settings.env'), 'utf8'), /^AUTH_KEYS_FILE=/m)
  assert.doesNotMatch(await readFile(inside('secrets/settings.env'), 'utf8'), /DATABASE_URL/)
  await run(restoreSigner!)
  await run(keys!)
  assert.match(await run(lost!), /--accept [0-9a-f]{16}/)
  await run(accept!)
  await run(trust!)
  await startAll()

  // Tokens from before, addresses and balances.
  for (const user of ['alice', 'bob', 'carol']) {
    const me = await until('what was lost is taken in', async () => { const said = await call(user, '/me'); return said.status === 200 ? said : null }) // prettier-ignore
    assert.equal(me.body.address, of(user))
    const { body } = await call(user, `/users/DEV-${user}/balance`)
    const held = BigInt(await rpc<string>(chain.rpcUrl, 'eth_getBalance', of(user), 'latest'))
    assert.ok(JSON.stringify(body).includes(String(held)), JSON.stringify(body))
  }
  assert.equal(await signIn('dave'), of('dave'), 'an account from between the backups is the same one')

  // A write that is repeated with its key is not sent again.
  const repeated = async (user: string, amount: string, key: string) =>
    until(`${key} of ${user} is answered`, async () => { const said = await pay(user, amount, key); return said.status === 503 ? null : said }) // prettier-ignore
  assert.equal((await repeated('alice', '0.1', 'first')).body.hash, first.alice)
  assert.equal((await repeated('alice', '0.2', 'between')).body.hash, between)
  assert.equal((await repeated('bob', '0.1', 'first')).body.hash, first.bob)
  // What neither side knows stops its account: also the retry of it.
  await until('bob is stopped', async () => {
    const { status, body } = await pay('bob', '0.2', 'after')
    assert.equal(status, 503, JSON.stringify(body))
    return body.code === 'account_stopped'
  }) // prettier-ignore
  assert.deepEqual([await countOf(of('alice')), await countOf(of('bob'))], [2, 2])

  // Every account continues: by itself, or resumed by the operator who looked.
  await paid('alice', '0.3', 'new')
  await mined(of('alice'), 3)
  await paid('carol', '0.3', 'new')
  await mined(of('carol'), 1)
  await aside(async () => {
    assert.ok((await command('account stopped')).includes(after))
    await command('account resume DEV-bob')
  })
  assert.equal((await repeated('bob', '0.4', 'new')).status, 200)
  await mined(of('bob'), 3)
  const balance = BigInt(await rpc<string>(chain.rpcUrl, 'eth_getBalance', PAYEE, 'latest'))
  assert.equal(balance, 16n * 10n ** 17n)
})
