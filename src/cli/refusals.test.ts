import assert from 'node:assert/strict'
import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'

let here: IdleInstallation
before(async () => void (here = await idleInstallation()))
after(() => here.close())

test('every refusal is a sentence on standard error and exit code 1; for programs, JSON', async () => {
  const bad = ['app', 'create', '--name', 'Shop', '--network', 'mars', '--redirect-uri', 'http://shop.example/', '--permission', 'fly', '--origin', 'shop'] // prettier-ignore
  const { code, out, err } = await here.run(...bad)
  assert.deepEqual([code, out, err.trim().split('\n').length], [1, '', 4])
  const forProgram = await here.run(...bad, '--json')
  assert.deepEqual(
    JSON.parse(forProgram.err).errors.map(({ pointer }: { pointer: string }) => pointer),
    ['/redirectUris/0', '/permissions/0', '/allowedOrigins/0', '/network'],
  )
  const cases: [string[], RegExp][] = [
    [['app', 'show', 'nobody'], /No application has this client id/],
    [['app', 'show'], /missing required argument/],
    [['app', 'create', '--colour', 'red'], /unknown option/],
    [['network', 'remove', 'mars'], /No network has the name mars/],
    [['dance'], /unknown command/],
  ]
  for (const [words, sentence] of cases) {
    const ended = await here.run(...words)
    assert.deepEqual([ended.code, ended.out], [1, ''], words.join(' '))
    assert.match(ended.err, sentence)
  }
})

test('without an installation nothing is made where nobody meant it', async () => {
  const elsewhere = join(here.folder, 'elsewhere')
  const list = (settings: Record<string, string>) => command(settings, ['app', 'list'])
  assert.match((await list({ DATA_DIR: elsewhere })).err, /There is no installation in/)
  await assert.rejects(stat(elsewhere))
  assert.match((await list({ DATA_DIR: here.folder, NODE_ENV: 'production' })).err, /DATABASE_URL is missing/)
  const unreachable = await list({ DATABASE_URL: 'postgres://me:password@127.0.0.1:9/x' })
  assert.equal(unreachable.code, 1)
  assert.match(unreachable.err, /^The database at DATABASE_URL is not responding \(ECONNREFUSED\)/m)
  assert.doesNotMatch(unreachable.err, /password/)
})

test('of an error that is not ours no more is shown than its name and code', async () => {
  await writeFile(join(here.folder, 'hunter2'), '')
  const inFile = { OPERATOR_TOKEN_FILE: join(here.folder, 'hunter2', 'inside', 'operators') }
  const { code, err } = await command(inFile, ['operator-token', 'create', '--name', 'mira'])
  assert.equal(code, 1)
  assert.match(err, /^The command failed: Error \(E[A-Z]+\)\.\n$/)
})
