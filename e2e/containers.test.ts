// tier: all, because it makes the image's file tree and starts every program of it
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { readCompose } from './containers/compose.ts'
import { makeBase, noSandbox, openEngine } from './containers/sandbox.ts'

/**
 * compose.yaml from nothing to the first call, twice, on the file tree that deploy/image-tree.sh makes for the image. No
 * engine runs here: e2e/containers/sandbox.ts says what is imitated, and how.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url))
// It brings a PostgreSQL of its own: once is enough where the suite runs on both databases.
const skip = testCluster === null ? 'runs with TEST_DATABASE_URL' : noSandbox
const compose = readCompose(join(ROOT, 'compose.yaml'))
const SIGN_IN = { host: 'sign-in.example' }

let folder: string
let tree: string

before(async () => {
  if (skip !== false) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-containers-'))
  // PostgreSQL reads its password here.
  await chmod(folder, 0o755)
  tree = join(folder, 'image')
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
  execFileSync(join(ROOT, 'deploy/image-tree.sh'), [ROOT, tree], { env, stdio: 'pipe' })
  assert.ok(!existsSync(join(tree, 'usr/local/bin/anvil')))
  execFileSync(join(ROOT, 'deploy/image-chain.sh'), [tree], { env, stdio: 'pipe' })
  makeBase(tree)
  execFileSync(join(tree, 'opt/chatelaine/deploy/image-users.sh'), [tree])
})
after(async () => {
  if (skip === false) await rm(folder, { recursive: true, force: true })
})

test('the image holds production packages and sources only', { skip }, () => {
  const program = join(tree, 'opt/chatelaine')
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean }> } // prettier-ignore
  for (const [path, { dev = false }] of Object.entries(packages))
    if (dev && path.startsWith('node_modules/')) assert.ok(!existsSync(join(program, path)), path)
  assert.deepEqual(
    readdirSync(join(program, 'src'), { recursive: true }).filter((name) => String(name).endsWith('.test.ts')),
    [],
  )
  for (const name of ['test', 'e2e', 'docs', '.git', 'node_modules/typescript'])
    assert.ok(!existsSync(join(program, name)), name)
})

test('compose.yaml leads from nothing to the first call, and again on the same volumes', { skip }, async (t) => {
  const volumes = join(folder, 'volumes')
  let secret = ''
  for (const start of ['first', 'second']) {
    const engine = await openEngine(compose, tree, volumes)
    try {
      for (const name of ['setup', 'chain', 'auth', 'api']) await engine.up(name)
      const isUp = async (url: string) => (await engine.ask(url)).status === 200
      await until('both are ready', async () => (await isUp('http://127.0.0.1:4001/readyz')) && isUp('http://127.0.0.1:4000/readyz')) // prettier-ignore
      assert.equal(engine.logOf('setup').includes('A master key'), start === 'first')

      if (start === 'first') {
        const made = await engine.exec('auth', ['app', 'create', '--name', 'Shop', '--client-id', 'shop', '--network', 'local', '--redirect-uri', 'https://shop.example/callback', '--permission', 'users:read', '--confidential', '--json']) // prettier-ignore
        assert.equal(made.code, 0, made.err)
        secret = (JSON.parse(made.out) as { secret: string }).secret
      }
      const granted = await engine.ask('http://127.0.0.1:4001/oauth/token', {
        method: 'POST',
        headers: { ...SIGN_IN, 'content-type': 'application/x-www-form-urlencoded', authorization: `Basic ${btoa(`shop:${secret}`)}` }, // prettier-ignore
        body: 'grant_type=client_credentials',
      })
      assert.equal(granted.status, 200, granted.text)
      const { access_token: token } = JSON.parse(granted.text) as { access_token: string }
      const users = await engine.ask('http://127.0.0.1:4000/v1/users', {
        headers: { host: 'wallet.example', authorization: `Bearer ${token}` },
      })
      assert.deepEqual([users.status, users.text], [200, '[]'])
      const checked = await until('every check passes', async () => {
        const { checks } = JSON.parse((await engine.ask('http://127.0.0.1:9464/readyz')).text) as { checks: { name: string; ok: boolean }[] } // prettier-ignore
        return checks.every(({ ok }) => ok) && checks
      })
      assert.deepEqual(checked.map(({ name }) => name), ['database', 'signer', 'authorization server', 'chain local']) // prettier-ignore

      if (start === 'first')
        await t.test('what the doctor finds in the containers', async () => {
          const codesOf = async (service: string) => {
            const { code, out, err } = await engine.exec(service, ['doctor', '--json'])
            const found = JSON.parse(out === '' ? err : out) as { code: string }[]
            return [code, found.map((one) => one.code).toSorted()]
          }
          // The test has no proxy at https://wallet.example and no backups.
          assert.deepEqual(await codesOf('api'), [1, ['backups_not_checked', 'origin_unreachable']])
          assert.deepEqual(await codesOf('auth'), [1, ['backups_not_checked', 'origin_unreachable']])
          assert.deepEqual(await codesOf('signer'), [0, []])
        })

      if (start === 'first')
        await t.test('each container can do what its service needs, and no more', async () => {
          const can = async (service: string, code: string) => (await engine.shell(service, ['sh', '-c', code])).code === 0 // prettier-ignore
          for (const service of ['api', 'auth', 'signer']) {
            assert.equal(await can(service, 'touch /opt/chatelaine/x || touch /x || touch /etc/x'), false, service)
            assert.equal(await can(service, 'touch /tmp/x'), true, service)
            assert.equal(await can(service, 'test "$(id -u)" = 0'), false, service)
            assert.equal(await can(service, 'grep -q "^CapEff:.0*$" /proc/self/status'), true, service)
          }
          // One line is the loopback interface.
          assert.equal(await can('signer', 'test "$(tail -n +3 /proc/net/dev | wc -l)" = 1 && test ! -s /proc/net/route || test "$(wc -l </proc/net/route)" -le 1'), true) // prettier-ignore
          assert.equal((await engine.shell('signer', ['node', '-e', "fetch('http://database:5432').catch(() => process.exit(7))"])).code, 7) // prettier-ignore
          assert.equal(await can('signer', 'cat /etc/chatelaine-signer/kek >/dev/null'), true)
          for (const service of ['api', 'auth'])
            assert.equal(await can(service, 'ls /etc/chatelaine-signer/* || ls /var/lib/chatelaine-signer/*'), false)
          assert.equal(await can('api', 'ls /etc/chatelaine-auth/* || ls /run/chatelaine-signer-auth/*'), false)
        })
    } catch (error) {
      for (const port of [9464, 9465]) t.diagnostic((await engine.ask(`http://127.0.0.1:${port}/readyz`)).text)
      for (const name of ['setup', 'migrate', 'signer', 'auth', 'api', 'chain'])
        t.diagnostic(`${name}: ${engine.logOf(name)}`)
      throw error
    } finally {
      await engine.down()
    }
  }
})
