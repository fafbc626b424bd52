// tier: all, because it starts the program as its operator does
// embedded, because it is the first start of somebody new
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../test/kit/until.ts'
import { installation, newPlace } from './start.ts'
import { freePort } from '../test/kit/ports.ts'
import { walk } from './walk.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const installed = installation(newPlace)
let examples: { language: string; code: string }[]
before(async () => {
  const read = (page: string) => readFile(join(root, page), 'utf8')
  const pages = (await read('README.md')) + (await read('docs/build/client-libraries.md'))
  examples = [...pages.matchAll(/<!-- run -->\n```(\w+)\n([\s\S]*?)```/g)].map(([, language, code]) => ({
    language: language!,
    code: code!,
  }))
})

/** The first example in a language, in the README and then the guide to clients, pointed at this installation. */
const example = (language: string): string =>
  examples
    .find((one) => one.language === language)!
    .code.replaceAll('http://localhost:4000', installed.program.facts.origin)

test('what the README says npm start prints is what it prints', async () => {
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  for (const line of [
    'Development mode: anyone on this machine may sign in as anyone.',
    'API docs ',
    'Try it as DEV-demo; the token is valid for an hour:',
  ]) {
    assert.ok(readme.includes(line), line)
    assert.ok(installed.program.printed().includes(line), line)
  }
})

test('dev.json has what the guide says that programs find there', async () => {
  const guide = await readFile(join(root, 'docs/operate/local.md'), 'utf8')
  const [, named = ''] = /Programs read `DATA_DIR\/dev\.json` \(([^)]*)\)/.exec(guide) ?? []
  const said = [...named.matchAll(/`(\w+)`/g)].map(([, name]) => name)
  const written = JSON.parse(await readFile(join(installed.program.dataDir, 'dev.json'), 'utf8')) as object
  assert.deepEqual(new Set(said), new Set(Object.keys(written)))
})

test('the shell example works when pasted', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-readme-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await cp(installed.program.dataDir, join(folder, '.chatelaine'), {
    recursive: true,
    filter: (name) => name === installed.program.dataDir || name.endsWith('dev.json'),
  })
  // As npx does in the folder of the program.
  await writeFile(join(folder, 'npx'), `#!/bin/sh\nshift\nexec "${join(root, 'scripts/run.mjs')}" "$@"\n`, {
    mode: 0o755,
  })
  const { stdout } = await promisify(execFile)('sh', ['-eu', '-c', example('sh')], {
    cwd: folder,
    env: { PATH: `${folder}:${process.env.PATH}`, DATA_DIR: installed.program.dataDir },
  })
  assert.match(stdout, /"id":"DEV-demo"/)
  assert.match(stdout, /"hash":"0x[0-9a-f]{64}","explorerUrl"/)
  assert.match(stdout, /"id":"tx_[^"]+","state":"MINED"/)
  assert.match(stdout, /"response":\{"type":"BigNumber","hex":"0x4563918244f40000"\}/)
  assert.match(stdout, /"formatted":"5"/)
  assert.match(stdout, /"type":"TRANSFER"|\[\]/)
  assert.doesNotMatch(stdout, /"code"/)
})

test('the sign-in example of the guide to clients works unchanged', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-readme-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  const port = await freePort()
  await writeFile(join(folder, 'example.mjs'), example('js').replaceAll('3000', String(port)))
  const child = spawn(process.execPath, [join(folder, 'example.mjs')], { stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const gone = once(child, 'exit')
  const url = await until('it asks to open a page', async () => /Open (\S+)/.exec(printed)?.[1])
  const { url: back } = await walk(url, { origin: installed.program.facts.origin, username: 'reader' })
  await fetch(back)
  await gone
  assert.equal(child.exitCode, 0, printed)
  assert.match(printed, /DEV-reader/)
})
