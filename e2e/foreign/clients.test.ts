// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createApplication } from '../../src/applications/manage.ts'
import { until } from '../../test/kit/until.ts'
import { world, type World } from '../../test/world.ts'
import { freePort } from '../../test/kit/ports.ts'
import { openChromium, skip as withoutChromium } from '../chromium.ts'
import { walk } from '../walk.ts'
import { visitor } from './visitor.ts'

/** The snippets of docs/build/client-libraries.md as they stand there, each a whole program, with the libraries as npm has them. */

const root = fileURLToPath(new URL('../..', import.meta.url))
const packages = join(root, 'e2e/foreign/node_modules')
const guide = await readFile(join(root, 'docs/build/client-libraries.md'), 'utf8')

let here: World
let folder: string
before(async () => {
  here = await world()
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-clients-'))
  await symlink(packages, join(folder, 'node_modules'))
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true, force: true })
})

/** Libraries whose snippet is run by a test below. */
const tried = new Set<string>()

/** The code of a snippet, with the addresses of this run. */
function snippet(library: string, port: number): string {
  tried.add(library)
  const name = library.replaceAll('/', '\\/')
  const found = new RegExp(`<!-- (?:run|page): ${name} -->\\n\`\`\`js\\n([\\s\\S]*?)\`\`\``).exec(guide)
  assert.ok(found !== null, `no snippet of ${library}`)
  return found[1]!.replaceAll('http://localhost:4000', here.facts.origin).replaceAll('3000', String(port))
}

/** How the application of a snippet is registered, and its settings. */
type Given = {
  needsPkce?: boolean
  needsDpop?: boolean
  kind?: 'public' | 'confidential'
  env?: Record<string, string>
}
type Site = { origin: string; printed: () => string; ended: Promise<unknown> }

/** A snippet as a program of its own, in a folder where its library is installed. */
async function run(
  t: TestContext,
  library: string,
  { needsPkce = true, needsDpop = false, kind = 'confidential', env = {} }: Given = {},
): Promise<Site> {
  const port = await freePort()
  const { application, secret } = await createApplication(here.app, {
    name: library.replaceAll(/\W/g, ' ').trim(),
    network: 'devnet',
    kind,
    redirectUris: ['http://localhost/callback', 'http://localhost/api/auth/callback/wallet'],
    permissions: ['wallet:read', 'contracts:read'],
    allowedOrigins: [],
    logoUri: null,
    needsPkce,
    needsDpop,
  })
  const file = join(folder, `${application.clientId}.mjs`)
  await writeFile(file, snippet(library, port))
  const child = spawn(process.execPath, [file], {
    cwd: folder,
    env: { PATH: process.env.PATH, CLIENT_ID: application.clientId, CLIENT_SECRET: secret ?? '', ...env },
  })
  const ended = once(child, 'exit')
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { origin: `http://localhost:${port}`, printed: () => printed, ended }
}

async function listens({ origin, printed }: Site): Promise<void> {
  await until(`it listens: ${printed()}`, () => fetch(origin).then(() => true, () => false)) // prettier-ignore
}

/** What a snippet shows of who is signed in. */
const shows = (username: string): RegExp => new RegExp(`^DEV-${username} 0x[0-9a-fA-F]{40} ${username}$`)

suite('a library as it is, with the snippet of the guide', () => {
  const sites: [library: string, given?: Given][] = [
    ['express-openid-connect'],
    ['passport-openidconnect', { needsPkce: false }],
    ['simple-oauth2'],
    ['@hapi/bell'],
    ['better-auth'],
    ['openid-client5'],
    // Registered so it is given nothing that is not bound to its key.
    ['openid-client', { kind: 'public', needsDpop: true }],
  ]
  for (const [library, given] of sites)
    test(`${library} signs somebody in, and its token is valid for the API`, async (t) => {
      const site = await run(t, library, given)
      await listens(site)
      const username = library.replaceAll(/\W|\d/g, '')
      const visits = visitor(site, { ours: here.facts.origin, username })
      const visit = async (path: string) => (await visits(path)).text
      assert.match(await visit('/sign-in'), shows(username), site.printed())
      if (!snippet(library, 0).includes("'/sign-out'")) return
      assert.equal(await visit('/sign-out'), 'Signed out.')
      assert.match(await visit('/'), /Sign in/)
    })

  test('passport-openidconnect is refused where its application was not registered without PKCE', async (t) => {
    const site = await run(t, 'passport-openidconnect')
    await listens(site)
    const away = await fetch(`${site.origin}/sign-in`, { redirect: 'manual' })
    const { status, headers } = await fetch(away.headers.get('location')!, { redirect: 'manual' })
    const back = new URL(headers.get('location')!)
    assert.deepEqual([status, back.searchParams.get('error')], [303, 'invalid_request'])
    assert.match(back.searchParams.get('error_description')!, /PKCE/)
  })

  test('@openid/appauth signs somebody in from the command line, renews and revokes', async (t) => {
    // It opens the browser of the desktop; this one writes down where it was sent.
    const opened = join(folder, 'opened')
    await writeFile(join(folder, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" >'${opened}'\n`)
    await chmod(join(folder, 'xdg-open'), 0o755)
    const site = await run(t, '@openid/appauth', { env: { PATH: `${folder}:${process.env.PATH}` } })
    const url = await until(`the browser is opened: ${site.printed()}`, () => readFile(opened, 'utf8').catch(() => ''))
    const { url: back } = await walk(url, { origin: here.facts.origin, username: 'appauth' })
    assert.equal((await fetch(back)).status, 200)
    await site.ended
    // The library tells of its steps before.
    assert.match(site.printed().trim().split('\n').at(-1)!, shows('appauth'))
  })
})

tried.add('oidc-client-ts')

test(
  'oidc-client-ts in Chromium: sign-in, loadUserInfo, silent renewal, revocation and sign-out, across origins',
  { skip: withoutChromium },
  async (t) => {
    const imports = { 'oidc-client-ts': 'oidc-client-ts/dist/esm/oidc-client-ts.js', 'jwt-decode': 'jwt-decode/build/esm/index.js' } // prettier-ignore
    const modules = new Map<string, Buffer>(await Promise.all(Object.values(imports).map(async (path) => [`/${path}`, await readFile(join(packages, path))] as const))) // prettier-ignore
    const map = JSON.stringify({ imports: Object.fromEntries(Object.entries(imports).map(([name, path]) => [name, `/${path}`])) }) // prettier-ignore
    const code = snippet('oidc-client-ts', 0)
    const site = createServer(({ url = '' }, response) => {
      const module = url === '/site.js' ? code : modules.get(url)
      if (module !== undefined) return response.setHeader('content-type', 'text/javascript').end(module)
      response.setHeader('content-type', 'text/html')
      response.end(`<!doctype html><meta charset="utf-8"><title>site</title><script type="importmap">${map}</script><body><script type="module" src="/site.js"></script>`) // prettier-ignore
    })
    site.listen(0, '127.0.0.1')
    await once(site, 'listening')
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
    const browser = await openChromium()
    t.after(async () => {
      await browser.close()
      site.closeAllConnections()
      site.close()
    })
    const page = await browser.newPage()
    const complaints: string[] = []
    page.on('pageerror', (error) => complaints.push(error.message))
    await page.goto(origin)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: /Continue with/ }).click()
    await page.getByRole('textbox').fill('spa')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    await page.getByText('DEV-spa').waitFor()
    assert.match((await page.locator('p').textContent())!, shows('spa'))

    type Tokens = { access_token: string; refresh_token: string; profile: Record<string, unknown> }
    const tokens = () => page.evaluate<Tokens>('users.getUser()')
    const first = await tokens()
    assert.deepEqual(
      [first.profile.address, first.profile.email],
      [(await here.person('spa')).address, 'spa@dev.invalid'],
    )
    await page.getByRole('button', { name: 'Renew' }).click()
    const renewed = await until('the token is renewed', async () => {
      const now = await tokens()
      return now.access_token === first.access_token ? null : now
    })
    const me = (token: string) => here.request('/v1/me', { headers: { authorization: `Bearer ${token}` } })
    assert.equal((await me(renewed.access_token)).status, 200)

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL((url) => url.pathname.startsWith('/oauth/session/end'))
    await page.getByRole('button').first().click()
    await page.waitForURL((url) => url.origin === origin)
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    await until('the token is revoked', async () => (await me(renewed.access_token)).status === 401)
    assert.deepEqual(complaints, [])
  },
)

test('the table of the guide lists what is tried, with the versions that were tried', async () => {
  const rows = [...guide.matchAll(/^\| \[`([^`]+)`\]\(([^)]+)\) (\S+) \|/gm)].map(([, library, link, version]) => ({ library: library!, link: link!, version: version! })) // prettier-ignore
  const versionOf = async (library: string): Promise<string> => {
    const places = [packages, join(root, 'node_modules')].map((place) => join(place, library, 'package.json'))
    return JSON.parse(
      await readFile(
        places.find((place) => existsSync(place))!,
        'utf8',
      ),
    ).version
  }
  // These have tests of their own, beside this folder.
  const elsewhere = ['openid-client', 'oauth4webapi', 'passport-oauth2', 'next-auth']
  const others = await Promise.all(['clients', 'next-auth'].map((name) => readFile(join(root, `e2e/${name}.test.ts`), 'utf8'))) // prettier-ignore
  for (const library of elsewhere)
    assert.ok(
      others.some((text) => text.includes(`from '${library}`)),
      library,
    )
  assert.deepEqual(rows.map(({ library }) => library).toSorted(), [...tried, ...elsewhere].toSorted())
  for (const { library, version } of rows) assert.equal(version, await versionOf(library), library)
})
