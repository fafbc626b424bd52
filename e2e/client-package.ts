import { execFileSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PACKAGE = join(ROOT, 'packages/client')

/** Compiles the client package into a folder of its own, as npm would publish it. */
export async function buildClient(): Promise<{ folder: string; drop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-client-'))
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  execFileSync(tsc, ['-p', join(PACKAGE, 'tsconfig.build.json'), '--outDir', join(folder, 'dist')], {
    stdio: 'inherit',
  })
  for (const name of ['package.json', 'README.md', 'LICENSE']) await cp(join(PACKAGE, name), join(folder, name))
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return { folder, drop: () => rm(folder, { recursive: true }) }
}

/** Gives a folder the packages of the tests' foreign clients, and a client package. */
export async function givePackages(folder: string, client: string, names: readonly string[]): Promise<void> {
  const packages = [
    ...names.map((name) => [name, join(ROOT, 'e2e/foreign/node_modules', name)] as const),
    ['@chatelaine/client', client] as const,
  ]
  for (const [name, from] of packages) {
    const to = join(folder, 'node_modules', name)
    await mkdir(dirname(to), { recursive: true })
    await symlink(from, to)
  }
}
