// tier: all, because it starts commands as processes
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, before, test } from 'node:test'
import { command, spawnCommand, startCommand } from '../../test/kit/command.ts'
import { migratedFolder } from '../../test/kit/database.ts'
import { openSilentNode } from '../../test/silent-node.ts'
import { until } from '../../test/kit/until.ts'
import { makeIdentity } from '../backup/age.ts'

/** What only a process shows; all else of commands is tested in the process of the tests. */

let folder: string
let settings: Record<string, string>
const at = (name: string) => join(folder, name)
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'chatelaine-process-'))
  settings = { DATA_DIR: at('data') }
  await migratedFolder(at('data/db'))
})
after(() => rmSync(folder, { recursive: true, force: true }))

test('a command that could not be done ends its process with 1, its reason on standard error', async () => {
  const { code, out, err } = await spawnCommand({ DATA_DIR: at('nothing') }, ['app', 'list'])
  assert.deepEqual([code, out], [1, ''])
  assert.match(err, /^There is no installation in \S+\. Start the server once, or set DATA_DIR or DATABASE_URL\.\n$/)
})

test('addresses of nodes are read from a pipe, so that a key stands in no history', async (t) => {
  const node = await openSilentNode({ chainId: 11_155_111 })
  t.after(() => node.close())
  const added = await spawnCommand(settings, ['network', 'add', 'sepolia', '--rpc-url', '-'], `${node.url}\n`)
  assert.deepEqual([added.code, added.err], [0, ''])
  assert.deepEqual(JSON.parse(readFileSync(at('data/networks.json'), 'utf8')), { sepolia: [node.url] })
})

test('a reader that has gone away ends no command with a stack', async () => {
  const child = startCommand({}, ['network', 'presets'])
  child.stdout.destroy()
  assert.deepEqual(await child.ended, { code: 0, err: '' })
})

test('a command that a signal ends leaves nothing that is temporary', async () => {
  const { identity, recipient } = makeIdentity()
  writeFileSync(at('identity'), identity, { mode: 0o600 })
  const file = at('backup.age')
  assert.equal((await command(settings, ['backup', '--to', file, '--recipient', recipient])).code, 0)
  const drills = () => readdirSync(folder).filter((name) => name.startsWith('chatelaine-drill-'))
  const child = startCommand({}, ['drill', file, '--identity', at('identity'), '--in', folder])
  await until('the drill has begun', () => drills().length === 1)
  child.kill('SIGTERM')
  assert.equal((await child.ended).code, 1)
  assert.deepEqual(drills(), [])
})

test('the launcher runs a command, and ends as it ended', () => {
  const launcher = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url))
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [launcher, ...words], { encoding: 'utf8', env: { PATH: process.env.PATH } })
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string } // prettier-ignore
  const said = run('--version')
  assert.deepEqual([said.status, said.stdout, said.stderr], [0, `${version}\n`, ''])
  const unknown = run('dance')
  assert.deepEqual([unknown.status, unknown.stdout], [1, ''])
  assert.match(unknown.stderr, /^error: unknown command 'dance'/)
})
