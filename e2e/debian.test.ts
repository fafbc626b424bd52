// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { configKeys, readConfig } from '../src/config.ts'

/**
 * The guide from nothing to production on Debian, as far as it can be tried without being root: its settings are good
 * and agree with each other, its shell is shell, its units run what is there. As it is written it is run in
 * debian-run.test.ts.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url))
let guide: string
before(async () => {
  guide = await readFile(join(ROOT, 'docs/operate/debian.md'), 'utf8')
})

const blockOf = (path: string): string => {
  const found = guide.split(`<!-- root: ${path} -->\n\`\`\`ini\n`)[1]?.split('```')[0]
  assert.ok(found !== undefined, path)
  return found
}
const settingsOf = (path: string): Record<string, string> =>
  Object.fromEntries(
    blockOf(path)
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
const shellBlocks = (): string[] =>
  [...guide.matchAll(/<!-- (?:root|postgres) -->\n```sh\n([\s\S]*?)```/g)].map(([, code]) => code!)

test('its settings are good, known, each with the program that reads it, and agree with each other', () => {
  const server = settingsOf('/etc/chatelaine/server.env')
  const signer = settingsOf('/etc/chatelaine-signer/signer.env')
  for (const [part, settings] of [
    ['server', server],
    ['signer', signer],
  ] as const) {
    readConfig(settings, part)
    for (const name of Object.keys(settings)) {
      assert.ok(name in configKeys, name)
      assert.ok(['both', part].includes(configKeys[name as keyof typeof configKeys].part), `${name} of ${part}`)
    }
  }
  assert.equal(server.SIGNER_SOCKET, signer.SIGNER_SOCKET)
  assert.equal(server.AUTH_JWKS_FILE, signer.SIGNER_JWKS_FILE)
  assert.deepEqual(
    [signer.SIGNER_ISSUER, signer.SIGNER_AUDIENCE],
    [`${server.PUBLIC_ORIGIN}/oauth`, `${server.PUBLIC_ORIGIN}/v1`],
  )
  assert.match(
    guide,
    new RegExp(
      `curl -sS --retry 30 --retry-delay 1 --retry-connrefused http://${server.OPS_LISTEN!.replaceAll('.', String.raw`\.`)}/readyz`,
    ),
  )
})

test('its units run programs that are there, with the settings and the user of each', () => {
  for (const [unit, user, env] of [
    ['chatelaine-signer', 'chatelaine-signer', '/etc/chatelaine-signer/signer.env'],
    ['chatelaine', 'chatelaine', '/etc/chatelaine/server.env'],
  ] as const) {
    const said = settingsOf(`/etc/systemd/system/${unit}.service`)
    assert.deepEqual([said.User, said.Group, said.EnvironmentFile], [user, 'chatelaine', env])
    const [program] = said.ExecStart!.split(' ')
    assert.ok(existsSync(join(ROOT, program!.replace('/opt/chatelaine/', ''))), program)
    assert.ok(guide.includes(`useradd --system --gid chatelaine`) && guide.includes(`nologin ${user}\n`))
  }
  const { RuntimeDirectory } = settingsOf('/etc/systemd/system/chatelaine-signer.service')
  assert.ok(settingsOf('/etc/chatelaine/server.env').SIGNER_SOCKET!.startsWith(`/run/${RuntimeDirectory}/`))
})

test('its shell is shell', async () => {
  const blocks = shellBlocks()
  assert.ok(blocks.length >= 6)
  for (const code of blocks) await promisify(execFile)('sh', ['-n', '-c', code])
})
