/** Types, lint, format, unused code. All of them run, so that one look shows everything. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const usesKnip =
  existsSync(join(root, 'knip.json')) ||
  existsSync(join(root, 'knip.jsonc')) ||
  'knip' in JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

const checks = [
  ['tsc', '--noEmit'],
  ['tsc', '--noEmit', '-p', 'packages/client'],
  ['oxlint', '--type-aware', '--deny-warnings'],
  ['oxfmt', '--check'],
  ...(usesKnip ? [['knip']] : []),
]
const failed = checks.filter(([tool, ...args]) => {
  console.log(`› ${[tool, ...args].join(' ')}`)
  const { status } = spawnSync(join(root, 'node_modules', '.bin', tool), args, { cwd: root, stdio: 'inherit' })
  return status !== 0
})
console.log(
  failed.length === 0 ? 'All checks pass.' : `Failed: ${failed.map((command) => command.join(' ')).join(', ')}`,
)
process.exitCode = failed.length === 0 ? 0 : 1
