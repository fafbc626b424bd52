import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'

test('the fetched binary comes before the one on PATH, which serves where the fetched one does not start', (t) => {
  const place = folder(t)
  assert.equal(place.find('linux', 'x64').error, SAYS('There is no embedded chain for linux-amd64'))
  const fetched = place.writeProgram('runtime/anvil/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil', 'exit 0')
  assert.equal(place.find('linux', 'x64').found, fetched)
  place.writeProgram('bin/anvil', 'exit 0')
  assert.equal(place.find('linux', 'x64').found, fetched)
  place.writeProgram('runtime/anvil/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil', 'exit 127')
  assert.equal(place.find('linux', 'x64').found, 'anvil')
  place.writeProgram('bin/anvil', 'exit 127')
  assert.equal(place.find('linux', 'x64').error, SAYS('The embedded chain does not run here'))
})

test('where none is packaged the one on PATH serves, and without it one sentence says what to do', (t) => {
  const place = folder(t)
  assert.equal(place.find('linux', 'riscv64').error, SAYS('There is no embedded chain for linux-riscv64'))
  place.writeProgram('bin/anvil', 'exit 0')
  assert.equal(place.find('linux', 'riscv64').found, 'anvil')
})

const SAYS = (what: string) => `${what}: set RPC_URL to an EVM node, or put anvil (https://getfoundry.sh) on PATH.`

/** The finder in a project folder of its own, asked on a machine of that kind with `bin` as all of its PATH. */
function folder(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'anvil-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    return join(root, path)
  }
  mkdirSync(join(root, 'src/devnet'), { recursive: true })
  cpSync(new URL('anvil-binary.ts', import.meta.url), join(root, 'src/devnet/anvil-binary.ts'))
  write('package.json', '{"type":"module"}')
  write('runtime/anvil/package.json', '{}')
  const program = `
    Object.defineProperty(process, 'platform', { value: process.argv[2] })
    Object.defineProperty(process, 'arch', { value: process.argv[3] })
    const { findAnvil } = await import('./src/devnet/anvil-binary.ts')
    try { console.log(JSON.stringify({ found: findAnvil() })) }
    catch (error) { console.log(JSON.stringify({ error: error.message })) }`
  const asked = write('find.mjs', program)
  return {
    writeProgram(path: string, line: string): string {
      const file = write(path, `#!/bin/sh\n${line}\n`)
      chmodSync(file, 0o755)
      return file
    },
    find(platform: string, arch: string): { found?: string; error?: string } {
      const env = { PATH: join(root, 'bin') }
      return JSON.parse(spawnSync(process.execPath, [asked, platform, arch], { encoding: 'utf8', env }).stdout)
    },
  }
}
