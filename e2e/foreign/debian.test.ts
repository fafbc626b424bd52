// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createApplication } from '../../src/applications/manage.ts'
import { until } from '../../test/kit/until.ts'
import { world, type World } from '../../test/world.ts'
import { freePort } from '../../test/kit/ports.ts'
import { walk } from '../walk.ts'
import { missing } from './missing.ts'
import { visitor } from './visitor.ts'

/** Clients that Debian packages, with what the guide says of them. Skipped by name where they are not installed. */

const guide = await readFile(fileURLToPath(new URL('../../docs/build/client-libraries.md', import.meta.url)), 'utf8')

const MODULES = '/usr/lib/apache2/modules'
const apache = missing('mod_auth_openidc', '/usr/sbin/apache2', `${MODULES}/mod_auth_openidc.so`)
const authlib = missing('Authlib', '/usr/bin/python3', '/usr/lib/python3/dist-packages/authlib')

suite('a client of Debian as it is, with the words of the guide', () => {
  let here: World
  let folder: string
  before(async () => {
    if (apache !== false && authlib !== false) return
    here = await world()
    folder = await mkdtemp(join(tmpdir(), 'chatelaine-debian-'))
    // Apache started by root answers as somebody else.
    await chmod(folder, 0o755)
  })
  after(async () => {
    await here?.close()
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  async function prepare(name: string): Promise<{ port: number; text: string; env: Record<string, string> }> {
    const port = await freePort()
    const { application, secret } = await createApplication(here.app, {
      name,
      network: 'devnet',
      kind: 'confidential',
      redirectUris: ['http://localhost/callback'],
      permissions: ['wallet:read'],
      allowedOrigins: [],
      logoUri: null,
    })
    const found = new RegExp(`<!-- run: ${name} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(guide)![1]!
    return {
      port,
      text: found.replaceAll('http://localhost:4000', here.facts.origin).replaceAll('3000', String(port)),
      env: { PATH: process.env.PATH!, CLIENT_ID: application.clientId, CLIENT_SECRET: secret! },
    }
  }

  test(
    'mod_auth_openidc lets in who signed in, and hands on a token that is good for the API',
    { skip: apache },
    async (t) => {
      const { port, text, env } = await prepare('mod_auth_openidc')
      await mkdir(join(folder, 'site'))
      await writeFile(join(folder, 'site/index.html'), 'the site')
      const modules = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'dir', 'headers', 'auth_openidc']
      const file = join(folder, 'apache.conf')
      const config = [
        `ServerRoot ${folder}`,
        `ServerName localhost`,
        `Listen localhost:${port}`,
        'PidFile apache.pid',
        'ErrorLog error.log',
        `DocumentRoot ${folder}/site`,
        ...(process.getuid?.() === 0 ? ['User www-data', 'Group www-data'] : []),
        ...modules.map((name) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`),
        // What an application behind it would find.
        'Header set X-Signed-In "%{OIDC_CLAIM_sub}e %{OIDC_CLAIM_address}e %{OIDC_CLAIM_preferred_username}e"',
        'Header set X-Token "%{OIDC_access_token}e"',
        'DirectoryIndex index.html',
        text,
      ]
      await writeFile(file, `${config.join('\n')}\n`)
      const child = spawn('/usr/sbin/apache2', ['-X', '-f', file], { env })
      const ended = once(child, 'exit')
      let printed = ''
      child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString()))
      const log = () => `${printed}${readFileSync(join(folder, 'error.log'), { encoding: 'utf8', flag: 'a+' })}`
      t.after(async () => {
        child.kill('SIGKILL')
        await ended
      })
      const site = { origin: `http://localhost:${port}`, printed: log }
      await until('Apache listens', async () => {
        if (child.exitCode !== null) throw new Error(log())
        return fetch(site.origin, { redirect: 'manual' }).then(() => true, () => false) // prettier-ignore
      })
      const { headers, text: body } = await visitor(site, { ours: here.facts.origin, username: 'apache' })('/')
      assert.equal(body, 'the site')
      assert.match(headers.get('x-signed-in')!, /^DEV-apache 0x[0-9a-fA-F]{40} apache$/)
      const authorization = `Bearer ${headers.get('x-token')}`
      assert.equal((await here.request('/v1/me', { headers: { authorization } })).body.id, 'DEV-apache')
    },
  )

  test('Authlib signs somebody in, renews and revokes', { skip: authlib }, async (t) => {
    const { text, env } = await prepare('authlib')
    const file = join(folder, 'client.py')
    await writeFile(file, text)
    const child = spawn('/usr/bin/python3', [file], { env: { ...env, AUTHLIB_INSECURE_TRANSPORT: '1' } })
    const ended = once(child, 'exit')
    let complaint = ''
    child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
    t.after(async () => {
      child.kill('SIGKILL')
      await ended
    })
    const lines: string[] = []
    createInterface(child.stdout).on('line', (line) => lines.push(line))
    const url = await until('it says where to go', async () => {
      if (child.exitCode !== null) throw new Error(complaint)
      return lines[0]
    }) // prettier-ignore
    const { url: back } = await walk(url, { origin: here.facts.origin, username: 'python' })
    child.stdin.end(`${back.href}\n`)
    const [code] = (await ended) as [number]
    assert.equal(code, 0, complaint)
    assert.match(lines.at(-1)!, /^DEV-python 0x[0-9a-fA-F]{40} python$/)
  })
})

test('the guide names the versions of Debian that are tried', { skip: apache || authlib }, () => {
  const versionOf = (name: string) =>
    /^[\d.]+/.exec(execFileSync('dpkg-query', ['-W', '-f', '${Version}', name]).toString())![0]
  for (const [title, name] of [
    ['mod_auth_openidc', 'libapache2-mod-auth-openidc'],
    ['Authlib', 'python3-authlib'],
  ] as const) {
    const row = new RegExp(`^\\| ${title} (\\S+) \\(\`${name}\`\\)`, 'm').exec(guide)
    assert.ok(versionOf(name).startsWith(row![1]!), `${title}: ${versionOf(name)}`)
  }
})
