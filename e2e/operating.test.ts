// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { emptyPostgres, testCluster } from '../test/kit/database.ts'
import type { RpcServer } from '../test/nodes/rpc-server.ts'
import { openSilentNode } from '../test/silent-node.ts'
import { until } from '../test/kit/until.ts'
import { endAll, keepCompiled, startProgram } from './programs.ts'
import { freePort } from '../test/kit/ports.ts'

const skip = testCluster === null ? 'needs TEST_DATABASE_URL' : false
/** In this order: each page uses what the pages before it created. */
const PAGES = ['deploy', 'key-rotation', 'networks', 'applications', 'operator-api']
const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

let folder: string
let drop: () => Promise<void> = async () => {}
let nodes: RpcServer[] = []
let replace: (text: string) => string
before(async () => {
  if (testCluster === null) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  const database = await emptyPostgres(testCluster)
  drop = database.drop
  nodes = [await openSilentNode({ chainId: 11_155_111 }), await openSilentNode({ chainId: 4_242 })]
  replace = (text) =>
    text
      .replaceAll('postgres://chatelaine@localhost/chatelaine', database.url)
      .replaceAll('https://sepolia-node.example/v2/KEY', nodes[0]!.url)
      .replaceAll('https://mine-node.example', nodes[1]!.url)
  await mkdir(join(folder, 'bin'))
  await writeFile(
    join(folder, 'bin/chatelaine'),
    `#!/bin/sh\nexec "${process.execPath}" --disable-warning=ExperimentalWarning "${MAIN}" "$@"\n`,
  )
  await chmod(join(folder, 'bin/chatelaine'), 0o755)
})
after(async () => {
  endAll()
  await Promise.all(nodes.map((node) => node.close()))
  await drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

test('every example of the operator pages works, one after the other, as it is', { skip }, async () => {
  const pages = PAGES.map((page) => readFile(new URL(`../docs/operate/${page}.md`, import.meta.url), 'utf8'))
  const guide = (await Promise.all(pages)).join('\n')
  const blocks = (mark: string) =>
    [...guide.matchAll(new RegExp(`<!-- ${mark} -->\\n *\`\`\`sh\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, code]) => code!)
  const examples = blocks('run')
  assert.ok(examples.length >= 8)
  const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, ...keepCompiled() }
  const { stdout } = await promisify(execFile)(
    'sh',
    ['-eu', '-c', `${examples.map(replace).join('\n')}\necho "$TOKEN" > token`],
    { cwd: folder, env },
  )
  assert.match(stdout, /polygon-amoy +Polygon Amoy +80002/)
  assert.match(stdout, /office +Back office +sepolia +confidential +active/)
  assert.equal(stdout.match(/chs_[\w-]{43}/g)?.length, 3)
  assert.doesNotMatch(stdout, /key-of-the-node/)

  const settings = await settingsIn('server.env')
  const signerSettings = await settingsIn('signer.env')
  await writeFile(
    join(folder, 'secrets/providers.json'),
    JSON.stringify([{ name: 'ACME', issuer: 'https://idp.example', clientId: 'wallet', clientSecret: 'x' }]),
  )
  const signer = startProgram('signer/main.ts', signerSettings, folder)
  await until('the signer is ready', async () => signer.child.stdout!.read() !== null)
  const port = await freePort()
  const ops = `127.0.0.1:${await freePort()}`
  startProgram('main.ts', { ...settings, PORT: String(port), OPS_LISTEN: ops }, folder)
  await until(
    'the server listens',
    async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null))?.ok === true,
  )

  const calls = blocks('run with the server')
    .join('\n')
    .replaceAll('https://wallet.example', `http://127.0.0.1:${port}`)
    .replaceAll('curl -sS', 'curl -sS --fail-with-body -w "\\n"')
  const token = (await readFile(join(folder, 'token'), 'utf8')).trim()
  const answers = await promisify(execFile)('sh', ['-eu', '-c', calls], {
    cwd: folder,
    env: { ...env, TOKEN: token },
  })
  const bodies = answers.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(
    bodies[0].map(({ clientId }: { clientId: string }) => clientId),
    ['office', 'shop'],
  )
  assert.deepEqual(
    bodies[1].map(({ name }: { name: string }) => name),
    ['sepolia'],
  )
  assert.match(bodies[2].application.clientId, /^kiosk-/)
  assert.equal(bodies[3].name, 'Corner shop')
  assert.match(bodies[4].secret, /^chs_/)
  assert.notEqual(bodies[5].suspendedAt, null)
  assert.equal(bodies[6].suspendedAt, null)
})

/** What an environment file of the guide holds. */
async function settingsIn(file: string): Promise<Record<string, string>> {
  const lines = (await readFile(join(folder, file), 'utf8')).trim().split('\n')
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
}
