/**
 * Runs the test suite, or the files and node:test flags given: `npm test -- src/abi/parse.test.ts --test-only`.
 * With TEST_DATABASE_URL the tests use that PostgreSQL instead of the embedded database.
 */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folders = ['src', 'test', 'scripts', 'e2e']
const args = process.argv.slice(2)
const named = args.filter((arg) => !arg.startsWith('-')).map((file) => relative(root, resolve(file)))
const flags = args.filter((arg) => arg.startsWith('-'))
const files =
  named.length > 0
    ? named
    : folders
        .flatMap((folder) => globSync(`${folder}/**/*.test.ts`, { cwd: root, exclude: ['**/node_modules'] }))
        .toSorted((a, b) => (a < b ? -1 : 1))

// Two files at a time: most of them start a database or a chain. A test that hangs must fail, not stop the run.
const { status, signal } = spawnSync(
  process.execPath,
  [
    '--disable-warning=ExperimentalWarning',
    '--test',
    '--test-concurrency=2',
    '--test-timeout=300000',
    '--test-reporter=spec',
    // A file that leaves something open fails nothing, but must not hold up the rest for ever.
    '--test-force-exit',
    ...flags,
    ...files,
  ],
  { cwd: root, stdio: 'inherit' },
)
process.exitCode = status ?? 128 + (constants.signals[signal] ?? 0)
