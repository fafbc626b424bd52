// tier: all, because it builds the package with the compiler, npm and a bundler
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { buildClient } from '../../../e2e/client-package.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
type Manifest = {
  exports: Record<string, { types: string; default: string }>
  peerDependencies: Record<string, string>
}

let built: string
let manifest: Manifest
let drop: () => Promise<void>
before(async () => {
  ;({ folder: built, drop } = await buildClient())
  manifest = JSON.parse(await readFile(join(built, 'package.json'), 'utf8')) as Manifest
})
after(() => drop())

test('the tarball has each entry with its types, the readme and the license, and no source or test', () => {
  const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts', '--offline'], { cwd: built, encoding: 'utf8' }) // prettier-ignore
  const [{ files }] = JSON.parse(text) as [{ files: { path: string }[] }]
  const paths = files.map(({ path }) => path)
  const targets = Object.values(manifest.exports).flatMap((entry) => [entry.types, entry.default])
  assert.deepEqual(targets.filter((target) => !paths.includes(target.replace('./', ''))), []) // prettier-ignore
  const others = paths.filter((path) => !/^dist\/.+\.(js|d\.ts)$/.test(path))
  assert.deepEqual(others.toSorted(), ['LICENSE', 'README.md', 'package.json'])
})

test('each entry can be imported in Node.js, which has no page', () => {
  for (const { default: target } of Object.values(manifest.exports)) {
    const program = `if ('document' in globalThis) throw new Error('a page'); await import('${target}')`
    execFileSync(process.execPath, ['--input-type=module', '--eval', program], { cwd: built, stdio: 'pipe' })
  }
})

/** bytes of gzip that an entry may load, without its peers */
const MAX_BYTES: Record<string, number> = { '.': 6_000, './browser': 13_000, './provider': 16_000, './viem': 7_000 }

test('each entry is as small as promised', async () => {
  const { build } = (await import(join(ROOT, 'site/node_modules/esbuild/lib/main.js'))) as Bundler
  for (const [entry, limit] of Object.entries(MAX_BYTES)) {
    const { outputFiles } = await build({
      entryPoints: [join(built, manifest.exports[entry]!.default)],
      ...{ bundle: true, minify: true, format: 'esm', target: 'es2022', write: false, logLevel: 'error' },
      external: Object.keys(manifest.peerDependencies),
    })
    const bytes = gzipSync(outputFiles[0]!.contents, { level: 9 }).length
    assert.ok(bytes <= limit, `${entry}: ${bytes} bytes of ${limit}`)
  }
})

/** The part of esbuild's interface that is used here; the site has it, with its bundler. */
type Bundler = { build(options: object): Promise<{ outputFiles: { contents: Uint8Array }[] }> }
