// tier: all, because it builds the package with the compiler, npm and a bundler
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { buildClient } from '../../../e2e/client-package.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const PACKAGE = join(ROOT, 'packages/client')
type Manifest = {
  version: string
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

test('a checkout packs it by one command, which brings the compiler', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-pack-'))
  // What the launcher says of an installation goes to stderr: guides use the name on stdout.
  // As in a shell: `npm test` hands the settings of the repository on, which run no scripts of packages.
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith('npm_')))
  const name = execFileSync('npm', ['pack', PACKAGE, '--silent'], { cwd: folder, encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'ignore'] }) // prettier-ignore
  assert.equal(name, `chatelaine-client-${manifest.version}.tgz\n`)
  assert.ok((await readFile(join(folder, name.trim()))).length > 20_000)
  await rm(folder, { recursive: true })
})

test('each entry can be imported in Node.js, which has no page', () => {
  for (const { default: target } of Object.values(manifest.exports)) {
    const program = `if ('document' in globalThis) throw new Error('a page'); await import('${target}')`
    execFileSync(process.execPath, ['--input-type=module', '--eval', program], { cwd: built, stdio: 'pipe' })
  }
})

const FOREIGN = join(ROOT, 'e2e/foreign/node_modules')
/** Loads what only tests use: `e2e/foreign` has it. */
const foreign = async <T>(path: string): Promise<T> => (await import(join(FOREIGN, path))) as T

test('publint and "are the types wrong" find nothing in the tarball', async () => {
  const text = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--offline'], { cwd: built, encoding: 'utf8' }) // prettier-ignore
  const [{ filename }] = JSON.parse(text) as [{ filename: string }]
  const tarball = new Uint8Array(await readFile(join(built, filename)))
  await rm(join(built, filename))
  const { publint } = await foreign<Publint>('publint/src/index-node.js')
  const { messages } = await publint({ pack: { tarball: tarball.buffer }, level: 'suggestion', strict: true })
  assert.deepEqual(messages, [])

  const { checkPackage, createPackageFromTarballData } = await foreign<Attw>('@arethetypeswrong/core/dist/index.js')
  const checked = await checkPackage(createPackageFromTarballData(tarball))
  assert.deepEqual(Object.keys(checked.entrypoints).toSorted(), Object.keys(manifest.exports).toSorted())
  for (const [entry, { resolutions }] of Object.entries(checked.entrypoints))
    for (const kind of ['node16-esm', 'bundler']) assert.ok(resolutions[kind]!.resolution?.isTypeScript, `${entry} ${kind}`) // prettier-ignore
  // The package is ESM: `require` of it, and resolution without `exports`, are not offered.
  assert.deepEqual(checked.problems.filter(({ kind, resolutionKind }) => kind !== 'CJSResolvesToESM' && resolutionKind !== 'node10'), []) // prettier-ignore
})

type Publint = { publint(options: object): Promise<{ messages: object[] }> }
type Attw = {
  createPackageFromTarballData(tarball: Uint8Array): object
  checkPackage(of: object): Promise<{
    entrypoints: Record<string, { resolutions: Record<string, { resolution?: { isTypeScript: boolean } }> }>
    problems: { kind: string; resolutionKind?: string }[]
  }>
}

/** bytes of gzip that an entry may load, without its peers; `above`: in addition to those of another entry */
const MAX_BYTES: Record<string, { bytes: number; above?: string }> = {
  '.': { bytes: 7_500 },
  './browser': { bytes: 13_000 },
  './provider': { bytes: 16_000 },
  './viem': { bytes: 7_500 },
  './react': { bytes: 1_500, above: '.' },
  './wagmi': { bytes: 1_500, above: './provider' },
}

test('each entry is as small as promised', async () => {
  const { build } = await foreign<Bundler>('esbuild/lib/main.js')
  const bytesOf = async (entry: string): Promise<number> => {
    const { outputFiles } = await build({
      entryPoints: [join(built, manifest.exports[entry]!.default)],
      ...{ bundle: true, minify: true, format: 'esm', target: 'es2022', write: false, logLevel: 'error' },
      external: Object.keys(manifest.peerDependencies),
    })
    return gzipSync(outputFiles[0]!.contents, { level: 9 }).length
  }
  // A server does not load its code from a network.
  assert.deepEqual(Object.keys(manifest.exports).toSorted(), [...Object.keys(MAX_BYTES), './server'].toSorted())
  for (const [entry, { bytes: limit, above }] of Object.entries(MAX_BYTES)) {
    const bytes = (await bytesOf(entry)) - (above === undefined ? 0 : await bytesOf(above))
    assert.ok(bytes <= limit, `${entry}: ${bytes} bytes of ${limit}`)
  }
})

/** The part of esbuild's interface that is used here. */
type Bundler = { build(options: object): Promise<{ outputFiles: { contents: Uint8Array }[] }> }
