import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'

const at = (name: string) => fileURLToPath(new URL(name, import.meta.url))

test('a start of the server loads neither the API reference nor a library of chains: each costs it a fifth of its time', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-modules-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const record = join(folder, 'modules')
  const run = spawnSync(
    process.execPath,
    ['--import', at('../test/record-modules.mjs'), '-e', `import(${JSON.stringify(pathToFileURL(at('open.ts')))})`],
    { encoding: 'utf8', env: { ...process.env, RECORD_MODULES: record } },
  )
  assert.equal(run.status, 0, run.stderr)
  const loaded = readFileSync(record, 'utf8').split('\n')
  const packages = new Set(loaded.map((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]))
  assert.ok(packages.has('fastify') && packages.has('kysely'))
  for (const heavy of ['viem', 'ethers', '@scalar/fastify-api-reference', '@scalar/openapi-parser', 'yaml'])
    assert.ok(!packages.has(heavy), heavy)
})
