// tier: all, because it builds the image and starts every program of it
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { nameOf, openCompose } from './containers/compose-run.ts'
import { readCompose } from './containers/compose.ts'
import { ask, askInside, noEngine, openEngine, type Engine, type Ran } from './containers/engine.ts'

/**
 * The Containerfile built by Buildah, and compose.yaml and kube.yaml run by Podman, from nothing to the first call. Made of
 * this machine's Debian are the base images, and run by our own code is compose.yaml: docs/operate/containers.md#tests.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url))
// It brings a PostgreSQL of its own: once is enough where the suite runs on both databases.
const skip = testCluster === null ? 'runs with TEST_DATABASE_URL' : noEngine
const compose = readCompose(join(ROOT, 'compose.yaml'))
// The long form starts everything a second time on the same volumes, and runs the pods.
const isLong = process.env.CONTAINERS === 'all'
const starts = isLong ? ['first', 'second'] : ['first']

let engine: Engine

before(async () => {
  if (skip !== false) return
  engine = await openEngine()
  await engine.build('localhost/chatelaine:0.1.0')
  await engine.build('localhost/chatelaine-chain:0.1.0', '--target', 'chain')
})
after(async () => {
  if (skip === false) await engine.close()
})

test(
  'the image holds production packages and sources only, and anvil only in the image of the chain',
  { skip },
  async () => {
    const holds = async (image: string, paths: string[]) => {
      const script = 'console.log(JSON.stringify(JSON.parse(process.argv[1]).filter((path) => fs.existsSync(path))))'
      const found = await engine.podman('run', '--rm', '--network', 'none', '--entrypoint', 'node', image, '-e', script, JSON.stringify(paths)) // prettier-ignore
      return JSON.parse(found) as string[]
    }
    const program = '/opt/chatelaine'
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean }> } // prettier-ignore
    const ofDevelopment = Object.entries(packages).filter(([path, { dev = false }]) => dev && path.startsWith('node_modules/')) // prettier-ignore
    const unwanted = [
      ...ofDevelopment.map(([path]) => `${program}/${path}`),
      ...['test', 'e2e', 'docs', '.git', 'node_modules/typescript'].map((name) => `${program}/${name}`),
      '/usr/local/bin/anvil',
    ]
    const wanted = [`${program}/src/main.ts`, `${program}/node_modules/fastify`]
    assert.ok(ofDevelopment.length > 100)
    assert.deepEqual(await holds('chatelaine:0.1.0', [...unwanted, ...wanted]), wanted)
    assert.deepEqual(await holds('chatelaine-chain:0.1.0', ['/usr/local/bin/anvil']), ['/usr/local/bin/anvil'])
    const tests = await engine.try('run', '--rm', '--network', 'none', '--entrypoint', 'find', 'chatelaine:0.1.0', `${program}/src`, '-name', '*.test.ts') // prettier-ignore
    assert.deepEqual([tests.code, tests.out], [0, ''])
  },
)

/** A place where the services run: how to enter the container of each. */
type Entered = { exec: (service: string, words: string[]) => Promise<Ran>; shell: (service: string, words: string[]) => Promise<Ran> } // prettier-ignore
const CREATE = ['app', 'create', '--name', 'Shop', '--client-id', 'shop', '--network', 'local', '--redirect-uri', 'https://shop.example/callback', '--permission', 'users:read', '--confidential', '--json'] // prettier-ignore

async function createApp({ exec }: Entered): Promise<string> {
  const made = await exec('auth', CREATE)
  assert.equal(made.code, 0, made.err)
  return (JSON.parse(made.out) as { secret: string }).secret
}

/** The two calls of docs/operate/containers.md, by the published ports. */
async function callFirst(secret: string): Promise<void> {
  const granted = await ask(engine, 'http://127.0.0.1:4001/oauth/token', {
    method: 'POST',
    headers: {
      host: 'sign-in.example',
      'content-type': 'application/x-www-form-urlencoded',
      authorization: `Basic ${btoa(`shop:${secret}`)}`,
    },
    body: 'grant_type=client_credentials',
  })
  assert.equal(granted.status, 200, granted.text)
  const { access_token: token } = JSON.parse(granted.text) as { access_token: string }
  const users = await ask(engine, 'http://127.0.0.1:4000/v1/users', { headers: { authorization: `Bearer ${token}` } })
  assert.deepEqual([users.status, users.text], [200, '[]'])
}

/** Whether both servers are ready, and the one in this container reaches the node. */
async function isReady(api: string): Promise<boolean> {
  for (const port of [4001, 4000])
    if ((await ask(engine, `http://127.0.0.1:${port}/readyz`)).status !== 200) return false
  const { status, text } = await askInside(engine, api, 'http://127.0.0.1:9464/readyz')
  if (status !== 200) return false
  const { checks } = JSON.parse(text) as { checks: { name: string; ok: boolean }[] }
  assert.deepEqual(checks.map(({ name }) => name), ['database', 'signer', 'authorization server', 'chain local']) // prettier-ignore
  return checks.every(({ ok }) => ok)
}

async function checkDoctor({ exec }: Entered): Promise<void> {
  const codesOf = async (service: string) => {
    const { code, out, err } = await exec(service, ['doctor', '--json'])
    const found = JSON.parse(out === '' ? err : out) as { code: string }[]
    return [code, found.map((one) => one.code).toSorted()]
  }
  // The test has no proxy at https://wallet.example and no backups.
  assert.deepEqual(await codesOf('api'), [1, ['backups_not_checked', 'origin_unreachable']])
  assert.deepEqual(await codesOf('auth'), [1, ['backups_not_checked', 'origin_unreachable']])
  assert.deepEqual(await codesOf('signer'), [0, []])
}

async function checkRights({ shell }: Entered): Promise<void> {
  const can = async (service: string, code: string) => (await shell(service, ['sh', '-c', code])).code === 0
  for (const service of ['api', 'auth', 'signer']) {
    assert.equal(await can(service, 'touch /opt/chatelaine/x || touch /x || touch /etc/x || touch /run/x || touch /var/tmp/x'), false, service) // prettier-ignore
    assert.equal(await can(service, 'touch /tmp/x'), true, service)
    assert.equal(await can(service, 'grep -q " /tmp tmpfs " /proc/mounts'), true, service)
    assert.equal(await can(service, 'test "$(id -u)" = 0'), false, service)
    for (const process of ['self', '1'])
      assert.equal(await can(service, `grep -q "^CapEff:.0*$" /proc/${process}/status && grep -q "^NoNewPrivs:.1$" /proc/${process}/status`), true, service) // prettier-ignore
  }
  // One line is the loopback interface.
  assert.equal(await can('signer', 'test "$(tail -n +3 /proc/net/dev | wc -l)" = 1 && test "$(wc -l </proc/net/route)" -le 1'), true) // prettier-ignore
  assert.equal((await shell('signer', ['node', '-e', "fetch('http://database:5432').catch(() => process.exit(7))"])).code, 7) // prettier-ignore
  assert.equal(await can('signer', 'cat /etc/chatelaine-signer/kek >/dev/null'), true)
  for (const service of ['api', 'auth'])
    assert.equal(await can(service, 'ls /etc/chatelaine-signer/* || ls /var/lib/chatelaine-signer/*'), false)
  assert.equal(await can('api', 'ls /etc/chatelaine-auth/* || ls /run/chatelaine-signer-auth/*'), false)
}

async function withLogs(t: TestContext, names: string[], act: () => Promise<void>): Promise<void> {
  try {
    await act()
  } catch (error) {
    for (const name of names) {
      const { out, err } = await engine.try('logs', '--tail', '40', name)
      t.diagnostic(`${name}: ${out}${err}`)
    }
    throw error
  }
}

test('compose.yaml leads from nothing to the first call, and again if its volumes exist', { skip }, async (t) => {
  let secret = ''
  for (const start of starts) {
    const services = await openCompose(engine, compose)
    await withLogs(t, Object.keys(compose.services).map(nameOf), async () => {
      for (const name of ['setup', 'chain', 'auth', 'api']) await services.up(name)
      await until('both are ready', () => isReady(nameOf('api')), 90_000)
      assert.equal((await services.logOf('setup')).includes('A master key'), start === 'first')
      if (start === 'first') secret = await createApp(services)
      await callFirst(secret)
      if (start === 'first') {
        await t.test('every container with a health check is healthy', async () => {
          for (const name of ['database', 'signer', 'auth', 'api'])
            assert.equal((await engine.try('healthcheck', 'run', nameOf(name))).code, 0, name)
          assert.notEqual((await services.shell('api', ['env', 'PORT=1', 'node', '/opt/chatelaine/deploy/healthcheck.mjs'])).code, 0) // prettier-ignore
        })
        await t.test('what the doctor finds in the containers', () => checkDoctor(services))
        await t.test('each container can do what its service needs, and no more', () => checkRights(services))
      }
    })
    const codes = await services.down()
    assert.deepEqual(codes, { api: 0, auth: 0, migrate: 0, database: 0, signer: 0, chain: 0, setup: 0 })
  }
})

function withConfigMap(text: string): string {
  const words = [
    ['kind: Secret', 'kind: ConfigMap'],
    ['stringData:', 'data:'],
    ['secretKeyRef:', 'configMapKeyRef:'],
    ['secret:\n        secretName: chatelaine', 'configMap:\n        name: chatelaine'],
  ] as const
  for (const [from] of words) assert.equal(text.split(from).length, 2, from)
  return words.reduce((sum, [from, to]) => sum.replace(from, to), text)
}

const skipPods = skip === false && !isLong ? 'runs with CONTAINERS=all' : skip
test(
  'kube.yaml and kube-signer.yaml lead from nothing to the first call, and again if their volumes exist',
  { skip: skipPods },
  async (t) => {
    const containerOf = (service: string) =>
      service === 'signer' ? 'chatelaine-signer-signer' : `chatelaine-${service}`
    const shell = (service: string, words: string[]) => engine.try('exec', containerOf(service), ...words)
    const pods: Entered = { shell, exec: (service, words) => shell(service, ['chatelaine', ...words]) }
    let secret = ''
    // Podman 4.3 reads no Secret of such a file: there, a ConfigMap with the same keys.
    const file = join(await mkdtemp(join(tmpdir(), 'chatelaine-kube-')), 'kube.yaml')
    t.after(() => rm(dirname(file), { recursive: true }))
    await writeFile(file, withConfigMap(readFileSync(join(ROOT, 'deploy/kube.yaml'), 'utf8')))
    for (const start of starts)
      await withLogs(t, ['database', 'migrate', 'auth', 'api', 'signer'].map(containerOf), async () => {
        await engine.podman('kube', 'play', file)
        await engine.podman('kube', 'play', '--network', 'none', join(ROOT, 'deploy/kube-signer.yaml'))
        // RPC_URL of the file is the development chain's.
        await engine.podman('run', '--detach', '--pod', 'chatelaine', '--name', 'chatelaine-chain', '--user', '0:0', '--volume', 'chatelaine-chain:/chain', 'chatelaine-chain:0.1.0') // prettier-ignore
        await until('both are ready', () => isReady(containerOf('api')), 90_000)
        if (start === 'first') secret = await createApp(pods)
        await callFirst(secret)
        if (start === 'first') {
          for (const name of ['auth', 'api', 'signer'])
            assert.equal((await engine.try('healthcheck', 'run', containerOf(name))).code, 0, name)
          await t.test('what the doctor finds in the pods', () => checkDoctor(pods))
          await t.test('each container of the pods can do what its service needs, and no more', () => checkRights(pods))
        }
        await engine.podman('kube', 'down', join(ROOT, 'deploy/kube-signer.yaml'))
        await engine.podman('kube', 'down', file)
      })
  },
)
